"""What a batch writes: files in a folder, or a Delta table."""
