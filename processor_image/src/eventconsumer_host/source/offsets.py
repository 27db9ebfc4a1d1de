"""Compares offsets. Pure.

Offsets are opaque. Geo-replication changes their form from a number to a text such as `1:22:333` (Microsoft,
"Geo-replication", section on offsets), so one event may have an offset in each form.
"""


def comparable(one: str, other: str) -> bool:
    """Whether both offsets are known, and have the same form."""
    return bool(one and other) and one.isdecimal() == other.isdecimal()


def differ(one: str, other: str) -> bool:
    """Whether the offsets are of different events; empty: unknown."""
    return comparable(one, other) and one != other
