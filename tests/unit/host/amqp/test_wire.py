"""Bytes to frames: the same deliveries however the bytes are cut; one kind of end for invalid bytes."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.amqp import frames as amqp
from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.frames import Fields
from eventconsumer_host.amqp.wire import Deliveries, Wire
from eventhubs_emulator.codec import encode
from eventhubs_emulator.performatives import Detach, Flow, Transfer
from eventhubs_emulator.values import Described, UInt, ULong

LIMIT = 4096
pytestmark = pytest.mark.usefixtures("decoder")


class Taken:
    """A peer that keeps what comes: deliveries by handle, put together, and the codes of other frames."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.fast = 0
        self.parts = b""
        self.ends: list[str] = []

    def header(self, data: bytes) -> None:
        self.events.append(data)

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        if fields.code != amqp.TRANSFER:
            self.events.append((kind, fields.code))
            return
        self.parts += payload
        if not fields[5]:
            self.events.append((fields.number(0), self.parts))
            self.parts = b""

    def deliveries(self, handle: int, found: Deliveries) -> None:
        self.fast += len(found)
        for payload in found.messages():
            self.events.append((handle, self.parts + payload))
            self.parts = b""

    def lost(self, reason: str) -> None:
        self.ends.append(reason)


class Socket:
    """A transport that notes how it was closed."""

    def __init__(self) -> None:
        self.written = b""
        self.state = "open"

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.state = "closed"

    def abort(self) -> None:
        self.state = "aborted"


def wired() -> tuple[Wire, Taken, Socket]:
    """A wire without a network."""
    peer, socket = Taken(), Socket()
    wire = Wire(peer, LIMIT)
    wire._transport = socket  # type: ignore[assignment]
    return wire, peer, socket


def frame(body: bytes, kind: int = 0, channel: int = 0) -> bytes:
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


def transfer(
    handle: int, delivery: int, payload: bytes, *, more: bool = False, short: bool = False, tag: int = 4
) -> bytes:
    """As one of two services writes it: with all fields in their wide form, or with what is needed in the shortest."""
    if short:
        fields = [UInt(handle), UInt(delivery), delivery.to_bytes(tag, "big"), UInt(0), True, more]
        return frame(encode(Described(ULong(0x14), fields)) + payload, channel=3)
    whole = Transfer(handle, delivery, delivery.to_bytes(tag, "big"), 0, True, more, None, None, False, False, False)
    return frame(whole.encode() + payload)


def feed(wire: Wire, data: bytes) -> None:
    """Have bytes come."""
    while data:
        room = wire.get_buffer(-1)
        count = min(len(room), len(data))
        assert count  # an empty buffer would be an error to asyncio
        room[:count] = data[:count]
        wire.buffer_updated(count)
        data = data[count:]


def cut(wire: Wire, data: bytes, sizes: list[int]) -> None:
    """Feed the bytes in pieces."""
    pos = 0
    for size in sizes:
        feed(wire, data[pos : pos + size])
        pos += size
    if pos < len(data):
        feed(wire, data[pos:])


deliveries = st.lists(
    st.tuples(st.integers(0, 2), st.binary(max_size=300), st.booleans(), st.integers(1, 3), st.booleans()), max_size=25
)


@given(deliveries, st.lists(st.integers(1, 700), max_size=20), st.integers(0, 400))
async def test_the_same_deliveries_however_bytes_are_cut(
    found: list[tuple[int, bytes, bool, int, bool]], sizes: list[int], first: int
) -> None:
    data, expected = b"", []
    for number, (handle, payload, short, parts, other) in enumerate(found, start=first):
        for part in range(parts):
            piece = payload if part == 0 else b"more"
            data += transfer(handle, number, piece, more=part < parts - 1, short=short)
        expected.append((handle, payload + b"more" * (parts - 1)))
        if other:
            data += amqp.EMPTY_FRAME + frame(Flow(0, 1, 0, 1).encode())
            expected.append((0, amqp.FLOW))
    wire, peer, _ = wired()
    cut(wire, data, sizes)
    assert peer.events == expected
    assert not peer.ends


@pytest.mark.parametrize("short", [True, False])
async def test_deliveries_of_one_shape_are_recognized(short: bool) -> None:
    wire, peer, _ = wired()
    for handle in (0, 1, 300):
        feed(wire, b"".join(transfer(handle, number, b"x", short=short) for number in range(300, 310)))
    feed(wire, b"".join(transfer(number % 2, number, b"y", short=short) for number in range(400, 420)))
    assert len(peer.events) == 50
    assert peer.fast == 47  # all but the first of each link
    assert [handle for handle, _ in peer.events[30:]] == [0, 1] * 10


async def test_a_tag_of_another_length_is_another_shape() -> None:
    wire, peer, _ = wired()
    feed(wire, b"".join(transfer(5, number, b"%d" % number, tag=2 + number % 3) for number in range(30)))
    assert peer.events == [(5, b"%d" % number) for number in range(30)]


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\x02\x00\x00\x00",  # larger than allowed
        struct.pack(">I", LIMIT + 1) + b"\x02\x00\x00\x00",
        b"\x00\x00\x00\x07\x02\x00\x00\x00",  # smaller than a header
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x00\x00\x00\x08\x01\x00\x00\x00",  # a data offset inside the header
        b"\x00\x00\x00\x08\x03\x00\x00\x00",  # and one behind the end
        frame(b"\x40"),
        frame(encode("text")),
        frame(encode(Described(ULong(0x14), "no list"))),
        frame(b"\x00\x53\x14\xc0\x05\x02\x43"),
    ],
)
async def test_an_invalid_frame_ends_the_connection(data: bytes) -> None:
    wire, peer, socket = wired()
    feed(wire, data)
    assert len(peer.ends) == 1
    assert "invalid AMQP" in peer.ends[0]
    assert socket.state == "aborted"
    feed(wire, transfer(0, 1, b"late"))
    assert not peer.events


async def test_an_error_in_taking_a_frame_ends_the_connection() -> None:
    wire, peer, socket = wired()

    def refuse(*_: Any) -> None:
        raise FrameError("not expected")

    peer.frame = refuse  # type: ignore[method-assign]
    feed(wire, frame(Detach(0, True).encode()) * 2)
    assert (len(peer.ends), socket.state) == (1, "aborted")


@given(st.none() | st.lists(st.binary(max_size=60), max_size=4), st.data())
async def test_damaged_frames_end_the_connection_or_are_frames(
    payloads: list[bytes] | None, data: st.DataObject
) -> None:
    """None stands for random bytes."""
    frames = [transfer(0, number, payload) for number, payload in enumerate(payloads or [])]
    stream = bytearray(b"".join(frames) + b"\x00" if payloads is not None else data.draw(st.binary(max_size=200)))
    for _ in range(data.draw(st.integers(1, 4)) if stream else 0):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    wire, peer, _ = wired()
    cut(wire, bytes(stream), data.draw(st.lists(st.integers(1, 50), max_size=9)))
    assert len(peer.ends) <= 1


async def test_less_than_a_frame_is_buffered() -> None:
    wire, peer, _ = wired()
    data = transfer(0, 1, b"z" * 3000) * 2
    for byte in data[:-1]:
        feed(wire, bytes([byte]))
        assert wire._filled <= LIMIT
    assert len(peer.events) == 1
    feed(wire, data[-1:])
    assert len(peer.events) == 2


async def test_the_end_is_reported_once_and_not_after_closing() -> None:
    wire, peer, _ = wired()
    wire.connection_lost(None)
    wire.connection_lost(OSError("reset"))
    assert len(peer.ends) == 1
    wire, peer, socket = wired()
    wire.send(b"a")
    wire.close()
    wire.send(b"b")
    wire.connection_lost(None)
    assert (peer.ends, socket.state, socket.written) == ([], "closed", b"a")
