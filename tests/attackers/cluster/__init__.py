"""Attacks that need the cluster."""
