"""The leading host: its election, and one task in each module."""
