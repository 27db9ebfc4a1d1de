"""The Kubernetes API server: objects, watches, the store of what they say, the queue of keys, leader election."""
