"""Results of `init`: a manifest, and the configuration with which a host would start."""
