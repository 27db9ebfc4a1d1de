"""The removal of old files, for the command `eventconsumer prune` and for retention in the leading host.

`rules` decides which files may be removed (pure), and `tombstones` replaces them.
"""
