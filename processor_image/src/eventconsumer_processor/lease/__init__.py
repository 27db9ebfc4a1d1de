"""Partition leases: who reads which partition. They give liveness; safety comes from the slot chain (sink/slots.py)."""
