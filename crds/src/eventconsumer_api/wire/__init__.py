"""Documents between processes and versions, and records in storage."""
