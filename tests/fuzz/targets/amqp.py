"""What a hub sends, and what publishers send through it."""

import asyncio
from typing import Any

from eventconsumer_host.amqp import codec, frames
from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.connection import Connection
from eventconsumer_host.amqp.decode import by_rows, decode_compiled
from eventconsumer_host.amqp.link import Receiver
from eventconsumer_host.amqp.messages import decode_message, delivery_annotations, readable_annotations
from eventconsumer_host.amqp.requests import Sender
from eventconsumer_host.amqp.websocket import WebSocket
from eventconsumer_host.amqp.wire import Runs, messages_of
from eventhubs_emulator.framing import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from eventhubs_emulator.performatives import Attach, Begin, Open, SaslMechanisms, SaslOutcome
from eventhubs_emulator.values import Described, ULong
from tests.fuzz.targets.allow import allow
from tests.unit.host.amqp.pieces import piece

SEPARATOR = b"\xfe\xff"
_LOOP = asyncio.new_event_loop()


def messages(data: bytes) -> None:
    """Messages of one partition: both decoders give the same columns.

    Input: a byte with the size of heads (three bits) and of pieces (two bits), and messages between separators.
    """
    if not data:
        return
    sent, together = data[1:].split(SEPARATOR), (data[0] >> 3 & 3) + 1
    head = bytes(data[0] & 7)
    pieces = [piece(sent[start : start + together], head) for start in range(0, len(sent), together)]
    batch, left = decode_compiled(pieces)
    taken = [payload for index, payload in enumerate(sent) if index not in set(left.tolist())]
    if batch is not None:
        batch.columns.validate(full=True)
        assert batch.columns.equals(by_rows(taken).columns), "the decoders differ"
    assert len(by_rows(sent)) == len(sent)
    for payload in sent:
        readable_annotations(payload)
        for parse in (decode_message, delivery_annotations):
            allow(FrameError, parse, payload)


def values(data: bytes) -> None:
    """One AMQP value: where it can be read, it can be skipped, and both end at the same byte."""
    try:
        _, end = codec.decode(data, 0, len(data))
    except FrameError:
        allow(FrameError, codec.skip, data, 0, len(data))
    else:
        assert codec.skip(data, 0, len(data)) == end
    allow(FrameError, lambda: list(codec.entries(data, 0, len(data))))


_ENDS = {"source": Described(ULong(0x28), ["a"]), "target": Described(ULong(0x29), ["b"])}
_GREETING = (
    SASL_HEADER
    + frame(0, SaslMechanisms(("ANONYMOUS",)).encode(), SASL_FRAME)
    + frame(0, SaslOutcome(0).encode(), SASL_FRAME)
    + AMQP_HEADER
)
_OPENING = frame(0, Open("server", max_frame_size=65536).encode()) + frame(0, Begin(0, 5, 100, 100, 255).encode())
_ATTACHED = frame(0, Attach("receiver", 0, False, initial_delivery_count=0, **_ENDS).encode()) + frame(
    0, Attach("sender", 1, True, **_ENDS).encode()
)


def connection(data: bytes) -> None:
    """Bytes of a hub: the same deliveries however they are cut, with either decoder; any end ends all links.

    Input: a byte: 1: after the handshake, 2: the input is bodies of frames, between separators, other bits: bytes that
    arrive together; and the bytes.
    """
    if not data:
        return
    stream = data[1:]
    if data[0] & 2:
        stream = b"".join(frames.frame(body) for body in stream.split(SEPARATOR))
    plain, compiled = (
        _LOOP.run_until_complete(_connected(stream, opened=bool(data[0] & 1), size=size, plain=plain))
        for size, plain in (((data[0] >> 2) + 1, True), (1 << 20, False))
    )
    assert plain == compiled, f"{plain} != {compiled}"


async def _connected(data: bytes, *, opened: bool, size: int, plain: bool) -> tuple[list[bytes], str]:
    connection = Connection("hub")
    wire, socket = connection._wire, _Socket()
    if plain:
        wire._runs = Runs(wire._buffer, wire.max_frame_size)
    wire.start(socket)
    link = Receiver(connection, 300, lambda name, handle: b"")
    sender = Sender(connection, "$cbs")
    if opened:
        _receive(wire, _GREETING + _OPENING)
        link.name, sender.name = "receiver", "sender"
        link._handle, sender._handle = connection.session.attach(link), connection.session.attach(sender)
        _receive(wire, _ATTACHED)
        assert connection.error is link.error is sender.error is None
    for start in range(0, len(data), size):
        _receive(wire, data[start : start + size])
    if connection.error is not None:
        assert socket.is_closed
        assert not opened or (link.error and sender.error)
    elif link.error is None and opened:
        assert link._held >= sum(len(one.data) for one in link._pieces) >= 0
    if connection._timer is not None:
        connection._timer.cancel()
    waiting = messages_of(list(link._pieces))
    return waiting, f"{connection.error} {link.error} {sender.error}"


class _Socket:
    """A socket: its `transport`, and aiohttp's response that owns it."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    abort = close


def _receive(wire: Any, data: bytes) -> None:
    while data:
        room = wire.get_buffer(-1)
        count = min(len(room), len(data))
        assert count, "the buffer is full"
        room[:count] = data[:count]
        wire.buffer_updated(count)
        data = data[count:]


class _Stream:
    """The layer above a WebSocket."""

    def __init__(self) -> None:
        self.data = b""
        self.end_reason = ""
        self._buffer = memoryview(bytearray(512))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += bytes(self._buffer[:nbytes])

    def end(self, reason: str) -> None:
        self.end_reason = self.end_reason or reason


def websocket(data: bytes) -> None:
    """Bytes of a WebSocket: the same content and the same end however they are cut.

    Input: a byte: bytes that arrive together; and the bytes.
    """
    if not data:
        return
    first, second = (_unwrapped(data[1:], size) for size in (data[0] or 1, 1))
    assert first == second, f"{first} != {second}"


def _unwrapped(data: bytes, size: int) -> tuple[bytes, str]:
    stream, socket = _Stream(), _Socket()
    parts: Any = (stream, socket, socket)
    web = WebSocket(*parts)
    for start in range(0, len(data), size):
        if not stream.end_reason:
            _receive(web, data[start : start + size])
    if stream.end_reason.startswith("the hub sent an invalid"):
        # Content before the invalid frame is not passed on if it came in the same read.
        return b"", "invalid"
    return stream.data, stream.end_reason
