"""What `init` makes of answers: a manifest, and the configuration with which a host would start."""
