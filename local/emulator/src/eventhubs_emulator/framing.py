"""Frames: eight bytes of header, then a body.

The reader is incremental and bounded: it keeps at most the bytes of one frame in addition to its last input, and an
invalid size is an error before the frame's bytes have arrived.
"""

import struct
from dataclasses import dataclass

from .errors import ConnectionFailed

AMQP_FRAME, SASL_FRAME = 0, 1
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
EMPTY_FRAME = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""The heartbeat."""

_HEAD = struct.Struct(">IBBH")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; an empty body is a heartbeat."""

    kind: int
    channel: int
    body: bytes


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME) -> bytes:
    """A frame as bytes."""
    return _HEAD.pack(len(body) + 8, 2, kind, channel) + body


class FrameReader:
    """Cuts a byte stream into protocol headers and frames.

    Args:
        max_size: the largest frame the peer may send, in bytes.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._data = b""
        self._pos = 0

    def feed(self, data: bytes) -> None:
        """Adds bytes from the peer."""
        self._data = self._data[self._pos :] + data if self._pos < len(self._data) else data
        self._pos = 0

    def header(self) -> bytes | None:
        """The next eight bytes; None until they have arrived."""
        if len(self._data) - self._pos < 8:
            return None
        self._pos += 8
        return self._data[self._pos - 8 : self._pos]

    def next(self) -> Frame | None:
        """The next frame; None until it has arrived.

        Raises:
            ConnectionFailed: the header is invalid.
        """
        pos = self._pos
        if len(self._data) - pos < 8:
            return None
        size, offset, kind, channel = _HEAD.unpack_from(self._data, pos)
        if size < 8 or offset < 2 or offset * 4 > size:
            raise ConnectionFailed(
                "amqp:connection:framing-error", f"a frame cannot have size {size} and data offset {offset}"
            )
        if size > self.max_size:
            raise ConnectionFailed(
                "amqp:connection:framing-error",
                f"a frame of {size} bytes exceeds the maximum frame size of {self.max_size}",
            )
        if len(self._data) - pos < size:
            return None
        self._pos = pos + size
        return Frame(kind, channel, self._data[pos + offset * 4 : pos + size])
