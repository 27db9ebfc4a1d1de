"""Access to the Kubernetes API server: client, watches, store, work queue, leader election."""
