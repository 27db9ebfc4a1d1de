"""Sets a constant time in the entries of a Java trust store: equal certificates give equal bytes.

    python3 truststore.py FILE

A JKS file is a magic number, a version, the number of entries, each entry (its kind, an alias, a time, the kind of the
certificate, the certificate), and a SHA-1 over all of it and the password.
"""

import hashlib
import struct
import sys
from pathlib import Path

PASSWORD = "changeit"  # noqa: S105 - what every Java has; it protects nothing
TIME = 315_532_800_000  # milliseconds since 1970
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2


def timeless(store: bytes) -> bytes:
    """The same store, with all entries dated 1980.

    Raises:
        ValueError: It is not a JKS store of trusted certificates only.
    """
    magic, version, count = struct.unpack_from(">III", store)
    if (magic, version) != (_MAGIC, _VERSION):
        raise ValueError("not a JKS store, version 2")
    data, at = bytearray(store[:-20]), 12
    for _ in range(count):
        (kind,) = struct.unpack_from(">I", data, at)
        if kind != _TRUSTED:
            raise ValueError("the store has entries other than trusted certificates")
        at = _behind(data, at + 4, ">H")
        struct.pack_into(">Q", data, at, TIME)
        at = _behind(data, _behind(data, at + 8, ">H"), ">I")
    if at != len(data):
        raise ValueError("the store is longer than its entries")
    return bytes(data) + hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + data).digest()  # noqa: S324


def _behind(data: bytearray, at: int, size: str) -> int:
    """End of a field that begins with its length."""
    (length,) = struct.unpack_from(size, data, at)
    return at + struct.calcsize(size) + int(length)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_bytes(timeless(file.read_bytes()))
