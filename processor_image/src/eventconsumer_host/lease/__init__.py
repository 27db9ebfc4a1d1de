"""Partition leases: the host of each partition. They give liveness; the slot chain (sink/slots.py) gives safety."""
