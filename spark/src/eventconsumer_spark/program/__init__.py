"""A driver's program: its environment, log, session, exit code, and what programs with sessions of their own call."""
