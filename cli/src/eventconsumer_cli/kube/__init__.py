"""The cluster as the commands see it."""
