"""Notices about drained files, which the leading host sends by HTTP."""
