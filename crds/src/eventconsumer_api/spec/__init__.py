"""The types that the resource is built of, for all its versions."""
