"""Conditions, status and Kubernetes Events: facts, checks, messages."""
