"""The lag of a consumer, and the Spark batches that the leading host freezes."""
