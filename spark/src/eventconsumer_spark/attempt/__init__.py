"""One attempt at a batch, from its claim to its commit, and the search for unprocessable files."""
