"""The command `certify`: checks on a real namespace and account whether Azure behaves as hosts assume."""
