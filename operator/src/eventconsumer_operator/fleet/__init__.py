"""The hosts of a resource as one fleet: which live, what they are told, and the key that signs it."""
