"""One partition: who holds its lease, what is received, which files and checkpoints it becomes."""
