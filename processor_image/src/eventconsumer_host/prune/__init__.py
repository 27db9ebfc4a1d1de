"""The removal of old files: `rules` decides which files may be removed (pure), and `tombstones` replaces them."""
