"""Programs of others, unmodified and pinned, that read or write what we read or write."""
