"""A driver's program: environment, log, session, exit code, and functions for programs with their own session."""
