"""One attempt at a batch, from its claim to its commit, and what is tried when the batch fails."""
