"""Programs of others, unmodified and pinned, that read or write what this project reads or writes."""
