"""The Spark batches that the leading host freezes: when, which files, and their blobs."""
