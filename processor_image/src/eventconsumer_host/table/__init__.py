"""The Delta table over the drained files: hosts register each file as it is, exactly once, without a copy."""
