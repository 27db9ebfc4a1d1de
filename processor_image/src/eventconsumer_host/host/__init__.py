"""The process of a pod: configuration, registration, HTTP server and signals."""
