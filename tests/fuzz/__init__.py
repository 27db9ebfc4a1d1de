"""Coverage-guided fuzzing of everything that reads bytes of others: `python -m tests.fuzz`, `make fuzz`."""
