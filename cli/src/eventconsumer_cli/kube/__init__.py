"""Access of the commands to the cluster."""
