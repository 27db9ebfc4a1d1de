"""Bytes from a socket to frames, and frames to the socket.

The stream is split by frame sizes: a size above the limit is an error before its bytes arrive, so at most one frame is
buffered. Deliveries of a known shape are copied from the buffer together; every other frame is passed on whole. An
error in received bytes, or in their processing, ends the connection with a `FrameError`; no exception leaves this
class.
"""

import asyncio
import struct
from typing import Protocol

from eventconsumer_processor.amqp import compiled
from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.deliveries import Deliveries
from eventconsumer_processor.amqp.performatives import TRANSFER, Fields, parse
from eventconsumer_processor.amqp.transfers import NO_SHAPE, Runs, Shape, is_whole, key_of, shape_of

READ_BYTES = 112 * 1024  # maximum per read: a copy of this size reuses memory, a larger one is mapped again
_MAX_SHAPES = 1024
_SIZE = struct.Struct(">I").unpack_from


class Peer(Protocol):
    """Receiver of frames; all methods except `lost` may raise FrameError."""

    def header(self, data: bytes) -> None:
        """A protocol header."""

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        """A frame with a performative."""

    def deliveries(self, handle: int, found: Deliveries) -> None:
        """Whole, settled deliveries on a link."""

    def lost(self, reason: str) -> None:
        """The connection has ended; called once."""


class Wire(asyncio.BufferedProtocol):
    """One socket.

    Attributes:
        max_frame_size: Maximum size of a peer's frame, bytes; at most `READ_BYTES`.
        heard, said: Times of the last received and sent bytes, on the loop's clock.
    """

    def __init__(self, peer: Peer, max_frame_size: int) -> None:
        self.max_frame_size = max_frame_size
        self._clock = asyncio.get_running_loop().time
        self.heard = self.said = self._clock()
        self._peer = peer
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)
        self._runs = (compiled.Runs if compiled.find() else Runs)(self._buffer, max_frame_size)
        self._filled = 0  # bytes of an incomplete frame, at the start of the buffer
        self._shape = NO_SHAPE  # of the last delivery
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
            self._end(f"the hub sent invalid AMQP: {error}")
            return
        self._filled = end - taken
        if taken:
            self._view[: self._filled] = self._view[taken:end]

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

    def _end(self, reason: str) -> None:
        self.abort()
        self._peer.lost(reason)

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
