"""Checks of `doctor`: the user's permissions, the installation, each consumer from outside and inside the cluster."""
