"""Everything that the operator knows about Spark: applications, launchers, attempts, history, failures, status."""
