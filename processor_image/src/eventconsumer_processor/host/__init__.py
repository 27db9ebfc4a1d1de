"""The process of a pod: its configuration, registration, HTTP side, metrics and signals."""
