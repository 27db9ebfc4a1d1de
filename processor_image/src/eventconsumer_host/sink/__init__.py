"""The files of events, Parquet or Avro: each event is committed to a chain of slots exactly once."""
