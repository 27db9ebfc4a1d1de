"""The consumer as a whole: its lag, and the Spark batches that the leading host freezes."""
