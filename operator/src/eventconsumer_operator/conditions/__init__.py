"""What people are told: conditions, status and Kubernetes events, from facts."""
