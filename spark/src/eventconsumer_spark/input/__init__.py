"""Input of a batch: the manifest and its files."""
