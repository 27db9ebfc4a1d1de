"""Schema registries: the schemas of Avro bodies, by their ids."""
