"""Recognition of transfers without decoding.

The heads of a sender's transfers differ only in delivery id and tag. A `Shape` is derived from a decoded transfer; a
frame with this shape is a whole, settled delivery on the same link.
"""

import struct
from array import array
from dataclasses import dataclass
from typing import Any, Protocol

from eventconsumer_processor.amqp.codec import skip
from eventconsumer_processor.amqp.performatives import Fields

_PLAIN, _LIST = b"\x02\x00", b"\x00\x53\x14\xc0"  # data offset and type; a transfer with a list in the short form
_SIZE = struct.Struct(">I").unpack_from
_ID_WIDTHS = {0x43: 0, 0x52: 1, 0x70: 4}
_HANDLE_WIDTHS = {0x43: 0, 0x52: 1, 0x70: 4}


class Unpack(Protocol):
    """`struct.Struct.unpack_from`."""

    def __call__(self, buffer: bytearray, offset: int, /) -> tuple[Any, ...]: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """The head of a transfer frame.

    Attributes:
        handle: The sender's handle of the link.
        size: Bytes before the payload, with the frame's header.
        unpack: Extracts the constant parts of the head.
        expected: The expected result of `unpack`.
        head, mask: The same as bytes, for the compiled decoder: a head, and ones at the constant bytes.
    """

    handle: int
    size: int
    unpack: Unpack
    expected: tuple[Any, ...]
    head: bytes
    mask: bytes

    def fits(self, data: bytearray, pos: int, size: int) -> bool:
        """Whether the frame of `size` bytes at `pos` has this shape."""
        return self.size <= size and self.unpack(data, pos) == self.expected


class Runs:
    """Finds consecutive deliveries of one shape.

    Args:
        buffer: Their buffer.
        most: Maximum size of a frame, bytes.
    """

    def __init__(self, buffer: bytearray, most: int) -> None:
        self._buffer = buffer
        self._most = most

    def find(self, shape: Shape, pos: int, end: int) -> "array[int]":
        """The ends of their frames, relative to `pos`.

        Args:
            shape: Their shape.
            pos: Position of the first one.
            end: End of the received bytes.
        """
        buffer, most = self._buffer, self._most
        unpack, expected, head = shape.unpack, shape.expected, shape.size
        stops = array("q")
        start = pos
        while end - pos >= head:
            size = _SIZE(buffer, pos)[0]
            if not head <= size <= min(most, end - pos) or unpack(buffer, pos) != expected:
                break
            pos += size
            stops.append(pos - start)
        return stops


def is_whole(fields: Fields) -> bool:
    """Whether a transfer is a complete delivery, settled and not aborted."""
    return fields[1] is not None and fields[4] is True and not fields[5] and not fields[9]


def key_of(data: bytearray, pos: int) -> bytes:
    """Key of the shape of the frame at `pos`, different for each link; empty if it cannot have a shape."""
    if data[pos + 8 : pos + 12] != _LIST or data[pos + 4 : pos + 6] != _PLAIN:
        return b""
    width = _HANDLE_WIDTHS.get(data[pos + 14])
    return b"" if width is None else bytes(data[pos + 12 : pos + 15 + width])


def shape_of(data: bytearray, pos: int, fields: Fields, end: int) -> Shape | None:
    """The shape of the transfer frame from `pos` to `end`; None if it has an unusual form."""
    if not key_of(data, pos) or not isinstance(fields[2], bytes):
        return None
    payload = pos + 13 + data[pos + 12]
    id_at = skip(data, pos + 14, end)
    width = _ID_WIDTHS.get(data[id_at])
    tag_at = id_at + 1 + (width or 0)
    if width is None or data[tag_at] != 0xA0:
        return None
    tail_at = tag_at + 2 + data[tag_at + 1]
    # (size), head, (delivery id), constructor and length of the tag, (tag), all bytes after it
    parts = (4, id_at + 1 - pos - 4, width, 2, data[tag_at + 1], payload - tail_at)
    layout = struct.Struct(">{}x{}s{}x{}s{}x{}s".format(*parts))
    mask = b"".join(bytes([index % 2 * 0xFF]) * count for index, count in enumerate(parts))
    head = bytes(data[pos:payload])
    return Shape(fields.number(0), len(head), layout.unpack_from, layout.unpack_from(head), head, mask)


NO_SHAPE = Shape(0, 1 << 62, struct.Struct("").unpack_from, (None,), b"", b"")
"""The shape of no frame."""
