"""Where events go: Parquet files, committed to a chain of slots exactly once."""
