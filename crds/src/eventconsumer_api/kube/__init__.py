"""Objects of Kubernetes: kinds, labels, what pods mount, and forms of their fields."""
