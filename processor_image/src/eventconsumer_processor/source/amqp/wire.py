"""Bytes from a socket to frames, and frames to the socket.

The stream is cut at frame sizes: a size above the limit is an error before its bytes are waited for, so at most one
frame is held. Deliveries of a known shape are handed on as payloads, many at a time; every other frame is handed on
whole. An error in what comes, or in taking it, ends the connection with a `FrameError`; nothing leaves this class.
"""

import asyncio
import struct
from typing import Protocol

from eventconsumer_processor.source.amqp.codec import FrameError
from eventconsumer_processor.source.amqp.performatives import TRANSFER, Fields, parse
from eventconsumer_processor.source.amqp.transfers import Shape, is_whole, key_of, shape_of

READ_BYTES = 112 * 1024  # at a time: such a block comes from memory that was used before, a larger one is mapped anew
_MAX_SHAPES = 1024
_SIZE = struct.Struct(">I").unpack_from


class Peer(Protocol):
    """Who takes what comes; FrameError may be raised by all methods but `lost`."""

    def header(self, data: bytes) -> None:
        """A protocol header."""

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        """A frame with a performative."""

    def deliveries(self, handle: int, payloads: list[bytes]) -> None:
        """Whole, settled deliveries on a link."""

    def lost(self, reason: str) -> None:
        """The connection is gone; said once."""


class Wire(asyncio.BufferedProtocol):
    """One socket.

    Attributes:
        max_frame_size: Bytes that a frame of the peer may have.
        heard, said: When something came and was sent, on the loop's clock.
    """

    def __init__(self, peer: Peer, max_frame_size: int) -> None:
        self.max_frame_size = max_frame_size
        self._clock = asyncio.get_running_loop().time
        self.heard = self.said = self._clock()
        self._peer = peer
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._waiting: list[bytes] = []  # a part of a frame
        self._waiting_size = 0
        self._needed = 0  # bytes that the frame in `_waiting` has
        self._shape = Shape(0, 1 << 62, struct.Struct("").unpack_from, (None,))  # of the last delivery; none yet
        self._shapes: dict[bytes, Shape] = {}

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BufferedProtocol`."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - a stream
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BufferedProtocol`."""
        if self._transport is not None:
            self._transport = None
            self._peer.lost(f"the connection was lost: {exc}" if exc else "the connection was closed by the hub")

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self._transport is None:
            return
        self.heard = self._clock()
        try:
            start = 0
            while self._waiting and start < len(data):  # twice where not even its size was there
                start += self._complete(data, start)
            if start < len(data) and self._transport is not None:
                self._take(data, start)
        except FrameError as error:
            self._end(f"the hub sent what is no AMQP: {error}")

    def _complete(self, data: bytes, start: int) -> int:
        """Give the frame that waits what it lacks, and hand it on once it is whole; how many bytes it took."""
        missing = self._needed - self._waiting_size
        part = data[start : start + missing]
        self._waiting.append(part)
        self._waiting_size += len(part)
        if self._waiting_size >= self._needed:
            whole = b"".join(self._waiting)
            self._waiting.clear()
            self._take(whole, 0)
        return len(part)

    # --- for the peer ---

    def send(self, data: bytes) -> None:
        """Send bytes; nothing happens on a connection that is gone."""
        if self._transport is not None:
            self.said = self._clock()
            self._transport.write(data)

    def close(self) -> None:
        """Close once everything is sent; `lost` is not called any more."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.close()

    def abort(self) -> None:
        """Close at once; `lost` is not called any more."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()

    def _end(self, reason: str) -> None:
        self.abort()
        self._peer.lost(reason)

    # --- frames ---

    def _take(self, data: bytes, pos: int) -> None:
        """Hand on every frame from `pos` on, and keep what is left."""
        end = len(data)
        shape = self._shape
        unpack, expected, head = shape.unpack, shape.expected, shape.size
        run: list[bytes] = []  # payloads of the last shape
        while end - pos >= 8:
            size = _SIZE(data, pos)[0]
            stop = pos + size
            if head <= size and stop <= end and size <= self.max_frame_size and unpack(data, pos) == expected:
                run.append(data[pos + head : stop])
                pos = stop
                continue
            if run:
                self._peer.deliveries(shape.handle, run)
                run = []
            if data[pos : pos + 4] == b"AMQP":
                self._peer.header(data[pos : pos + 8])
                pos += 8
                continue
            if not 8 <= size <= self.max_frame_size:
                raise FrameError(f"a frame of {size} bytes, where 8 to {self.max_frame_size} are allowed")
            if stop > end:
                break
            known = self._shapes.get(key_of(data, pos)) if size > 20 else None
            if known is not None and known.size <= size and known.unpack(data, pos) == known.expected:
                self._shape = shape = known
                run.append(data[pos + known.size : stop])
            else:
                self._frame(data, pos, stop)
                shape = self._shape
            unpack, expected, head = shape.unpack, shape.expected, shape.size
            pos = stop
            if self._transport is None:  # the frame ended the connection
                return
        if run:
            self._peer.deliveries(shape.handle, run)
        if pos < end:
            self._waiting.append(data[pos:])
            self._waiting_size = end - pos
            self._needed = max(8, _SIZE(data, pos)[0]) if end - pos >= 8 else 8

    def _frame(self, data: bytes, pos: int, stop: int) -> None:
        """Hand on a frame that has no known shape."""
        offset, kind = data[pos + 4], data[pos + 5]
        start = pos + 4 * offset
        if offset < 2 or start > stop:
            raise FrameError(f"a frame's data offset is {offset}")
        if start == stop:
            return  # a heartbeat
        body = data[start:stop]
        fields, payload_at = parse(body)
        if fields.code == TRANSFER and kind == 0 and is_whole(fields):
            shape = shape_of(data, pos, fields, stop)
            if shape is not None:
                if len(self._shapes) > _MAX_SHAPES:
                    self._shapes.clear()
                self._shapes[key_of(data, pos)] = self._shape = shape
        self._peer.frame(kind, fields, body[payload_at:])
