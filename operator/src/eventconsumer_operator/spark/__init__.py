"""Spark: applications, launchers, attempts, history, failures, and facts for conditions."""
