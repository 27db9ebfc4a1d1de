"""AMQP values and message sections in bytes, by Proton's codec.

Proton encodes each value in its shortest form. The forms that it never writes are written by hand, from the
specification: https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-types-v1.0-os.html
"""

import struct
from typing import Any

from proton import Data, Described, symbol, ulong

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)
"""Descriptors of a message's sections."""


def encode(value: Any) -> bytes:
    """The bytes of a value."""
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def decode(encoded: bytes) -> tuple[Any, int]:
    """The first value, and its number of bytes."""
    data = Data()
    size = data.decode(encoded)
    data.rewind()
    data.next()
    return data.get_object(), size


def section(descriptor: int | str, value: Any) -> bytes:
    """A section of a message, described by its number or by its name."""
    return encode(Described(symbol(descriptor) if isinstance(descriptor, str) else ulong(descriptor), value))


def described(descriptor: int, encoded: bytes) -> bytes:
    """A section whose value is already encoded."""
    return b"\x00\x53" + bytes((descriptor,)) + encoded


def frame(performative: bytes) -> bytes:
    """An AMQP frame on channel 0."""
    return struct.pack(">IBBH", len(performative) + 8, 2, 0, 0) + performative


def nested(depth: int) -> bytes:
    """A null in lists in lists, `depth` of them."""
    value = b"\x40"
    for _ in range(depth):
        value = b"\xd0" + struct.pack(">II", len(value) + 4, 1) + value
    return value


def booleans(count: int) -> bytes:
    """An array of `count` booleans that are all true, none of which has a byte of its own (type 0x41)."""
    return b"\xf0" + struct.pack(">IIB", 5, count, 0x41)
