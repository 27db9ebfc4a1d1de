"""Columns of bodies: how a host parses them, records them, and tells their statistics."""
