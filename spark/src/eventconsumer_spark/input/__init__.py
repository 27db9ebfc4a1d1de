"""What a batch reads: the manifest and the files that it lists."""
