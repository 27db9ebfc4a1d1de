"""Bytes from a socket to frames and deliveries, and frames to the socket.

The stream is split by frame sizes: a size above the limit is an error before its bytes arrive, so at most one frame is
buffered. An error in received bytes, or in their processing, ends the connection with a `FrameError`; no exception
leaves `Wire`.

The heads of a sender's transfers differ only in delivery id and tag. A `Shape` is derived from a decoded transfer; a
frame with this shape is a whole, settled delivery on the same link. One read returns many of them: they are copied
from the buffer together, so each costs one copy and a number instead of an object. Every other frame is passed on
whole.

Arrow is not imported here: connections also serve programs that only query a few numbers.
"""

import asyncio
import ctypes
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eventconsumer_host.amqp import compiled
from eventconsumer_host.amqp.codec import FrameError, skip
from eventconsumer_host.amqp.frames import TRANSFER, Fields, parse

READ_BYTES = 112 * 1024  # maximum per read: a copy of this size reuses memory, a larger one is mapped again
_MAX_SHAPES = 1024
_SIZE = struct.Struct(">I").unpack_from
_PLAIN, _LIST = b"\x02\x00", b"\x00\x53\x14\xc0"  # data offset and type; a transfer with a list in the short form
_ID_WIDTHS = {0x43: 0, 0x52: 1, 0x70: 4}
_HANDLE_WIDTHS = {0x43: 0, 0x52: 1, 0x70: 4}
_NO_STOPS = array("q")


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Whole deliveries of one link, in the order of arrival: each has a head and a message.

    Attributes:
        data: Their bytes, from the first head to the end of the last message.
        head: Bytes before each message.
        stops: End of each message in `data`; signed, 64 bits.
    """

    data: bytes
    head: int
    stops: "array[int]"

    @classmethod
    def of(cls, message: bytes) -> "Deliveries":
        """A single message."""
        return cls(message, 0, array("q", (len(message),)))

    def __len__(self) -> int:
        return len(self.stops)

    @property
    def last(self) -> bytes:
        """The last message."""
        return self.data[(self.stops[-2] if len(self.stops) > 1 else 0) + self.head :]

    def messages(self) -> list[bytes]:
        """Each message's bytes."""
        data, head, found, start = self.data, self.head, [], 0
        for stop in self.stops:
            found.append(data[start + head : stop])
            start = stop
        return found

    def split(self) -> "tuple[bytes, Deliveries]":
        """The first message, and the remaining deliveries."""
        first = self.stops[0]
        behind = array("q", (stop - first for stop in self.stops[1:]))
        return self.data[self.head : first], Deliveries(self.data[first:], self.head, behind)


def messages_of(pieces: Sequence[Deliveries]) -> list[bytes]:
    """The messages of several, in order."""
    return [message for piece in pieces for message in piece.messages()]


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


class CompiledRuns(Runs):
    """The same as `Runs`, by the compiled decoder; see `compiled.find`."""

    def __init__(self, buffer: bytearray, most: int) -> None:
        super().__init__(buffer, most)
        self._scan = compiled.library().scan
        self._bytes = ctypes.c_char.from_buffer(buffer)  # this reference keeps the buffer at its address
        self._address = ctypes.addressof(self._bytes)
        self._stops = array("q", bytes(len(buffer)))  # a frame has at least eight bytes

    def find(self, shape: Shape, pos: int, end: int) -> "array[int]":
        """See `Runs`."""
        if end - pos < shape.size:
            return _NO_STOPS
        stops = self._stops
        found = self._scan(
            self._address + pos, end - pos, head=shape.head, mask=shape.mask, most=self._most, stops=stops
        )
        return stops[:found]


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


class FrameReceiver(Protocol):
    """Receiver of frames; all methods except `lost` may raise FrameError."""

    def header(self, data: bytes) -> None:
        """A protocol header."""

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        """A frame with a performative."""

    def deliveries(self, handle: int, found: Deliveries) -> None:
        """Whole, settled deliveries on a link."""

    def lost(self, reason: str) -> None:
        """The connection has ended; called once."""


class WireOutput(Protocol):
    """Destination of a `Wire`'s bytes: the socket, or a WebSocket on it."""

    def write(self, data: bytes, /) -> None:
        """Send, without waiting."""

    def close(self) -> None:
        """Close after all bytes are sent."""

    def abort(self) -> None:
        """Close at once."""


class Wire(asyncio.BufferedProtocol):
    """One socket.

    Attributes:
        max_frame_size: Maximum size of a peer's frame, bytes; at most `READ_BYTES`.
        heard, said: Times of the last received and sent bytes, on the loop's clock.
    """

    def __init__(self, peer: FrameReceiver, max_frame_size: int) -> None:
        self.max_frame_size = max_frame_size
        self._clock = asyncio.get_running_loop().time
        self.heard = self.said = self._clock()
        self._peer = peer
        self._transport: WireOutput | None = None
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._runs = (CompiledRuns if compiled.find() else Runs)(self._buffer, max_frame_size)
        self._filled = 0  # bytes of an incomplete frame, at the start of the buffer
        self._shape = NO_SHAPE  # of the last delivery
        self._shapes: dict[bytes, Shape] = {}

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BufferedProtocol`."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - a stream
        self.start(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BufferedProtocol`."""
        if self._transport is not None:
            self._transport = None
            self._peer.lost(f"the connection was lost: {exc}" if exc else "the connection was closed by the hub")

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        return self._view[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        if self._transport is None:
            return
        self.heard = self._clock()
        end = self._filled + nbytes
        try:
            taken = self._take(end)
        except FrameError as error:
            self.end(f"the hub sent invalid AMQP: {error}")
            return
        self._filled = end - taken
        if taken:
            self._view[: self._filled] = self._view[taken:end]

    # --- for a layer below ---

    def start(self, output: WireOutput) -> None:
        """Begin to send."""
        self._transport = output

    def end(self, reason: str) -> None:
        """Close at once, and report the reason; no effect after the connection has ended."""
        if self._transport is not None:
            self.abort()
            self._peer.lost(reason)

    # --- for the peer ---

    def send(self, data: bytes) -> None:
        """Send bytes; no effect after the connection has ended."""
        if self._transport is not None:
            self.said = self._clock()
            self._transport.write(data)

    def close(self) -> None:
        """Close after all bytes are sent; `lost` is no longer called."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.close()

    def abort(self) -> None:
        """Close at once; `lost` is no longer called."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()

    # --- frames ---

    def _take(self, end: int) -> int:
        """Pass on every whole frame in the first `end` bytes of the buffer; returns the start of the rest."""
        buffer, pos = self._buffer, 0
        while self._transport is not None:  # until a frame ended the connection
            shape = self._shape
            stops = self._runs.find(shape, pos, end)
            if stops:
                start, pos = pos, pos + stops[-1]
                self._peer.deliveries(shape.handle, Deliveries(bytes(self._view[start:pos]), shape.size, stops))
            if end - pos < 8:
                break
            if buffer.startswith(b"AMQP", pos):
                self._peer.header(bytes(self._view[pos : pos + 8]))
                pos += 8
                continue
            size = _SIZE(buffer, pos)[0]
            if not 8 <= size <= self.max_frame_size:
                raise FrameError(f"a frame of {size} bytes, where 8 to {self.max_frame_size} are allowed")
            if size > end - pos:
                break
            known = self._shapes.get(key_of(buffer, pos)) if size > 20 else None
            if known is not None and known is not shape and known.fits(buffer, pos, size):
                self._shape = known
                continue
            self._frame(pos, pos + size)
            pos += size
        return pos

    def _frame(self, pos: int, stop: int) -> None:
        """Pass on a frame without a known shape."""
        buffer = self._buffer
        offset, kind = buffer[pos + 4], buffer[pos + 5]
        start = pos + 4 * offset
        if offset < 2 or start > stop:
            raise FrameError(f"a frame's data offset is {offset}")
        if start == stop:
            return  # a heartbeat
        body = bytes(self._view[start:stop])
        fields, payload_at = parse(body)
        if fields.code == TRANSFER and kind == 0 and is_whole(fields):
            shape = shape_of(buffer, pos, fields, stop)
            if shape is not None:
                if len(self._shapes) > _MAX_SHAPES:
                    self._shapes.clear()
                self._shapes[key_of(buffer, pos)] = self._shape = shape
        self._peer.frame(kind, fields, body[payload_at:])
