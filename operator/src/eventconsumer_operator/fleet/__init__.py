"""The fleet of a resource: host liveness, operator messages, and the key that signs them."""
