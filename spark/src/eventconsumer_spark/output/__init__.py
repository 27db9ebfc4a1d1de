"""Output of a batch: files in a folder, or a Delta table."""
