"""Maps a partition key to a partition, with the hash of Event Hubs (Bob Jenkins' lookup3). Pure.

The hash and its reduction are the same as in the .NET, Java and JavaScript clients, which use C's remainder. (The
buffered producer of the Python client uses Python's remainder, which differs for negative hashes; it chooses the
partition itself, so events with one key stay together.)
"""

_MASK = 0xFFFFFFFF
_SEED = 0xDEADBEEF


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK


def lookup3(data: bytes) -> tuple[int, int]:
    """The two 32-bit results (c, b) of lookup3 over ``data`` with zero initial values."""
    a = b = c = (_SEED + len(data)) & _MASK
    pos, left = 0, len(data)
    while left > 12:
        a = (a + int.from_bytes(data[pos : pos + 4], "little")) & _MASK
        b = (b + int.from_bytes(data[pos + 4 : pos + 8], "little")) & _MASK
        c = (c + int.from_bytes(data[pos + 8 : pos + 12], "little")) & _MASK
        for bits in (4, 6, 8, 16, 19, 4):
            a = ((a - c) & _MASK) ^ _rotate(c, bits)
            c = (c + b) & _MASK
            a, b, c = b, c, a
        pos, left = pos + 12, left - 12
    if not left:
        return c, b
    a = (a + int.from_bytes(data[pos : pos + 4], "little")) & _MASK
    b = (b + int.from_bytes(data[pos + 4 : pos + 8], "little")) & _MASK
    c = (c + int.from_bytes(data[pos + 8 : pos + 12], "little")) & _MASK
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotate(b, bits)) & _MASK
        a, b, c = b, c, a
    # Seven steps of a rotation by three leave the variables turned by one.
    return b, a


def partition_of_key(key: str, partitions: int) -> int:
    """The number of the partition of events with this key.

    Args:
        key: the partition key, not empty.
        partitions: number of partitions of the hub.
    """
    c, b = lookup3(key.encode("utf-8"))
    short = (c ^ b) & 0xFFFF
    signed = short - 0x10000 if short >= 0x8000 else short
    return abs(signed) % partitions
