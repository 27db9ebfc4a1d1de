"""WebSocket frames: the same bytes however they are cut; control frames in between; one end for invalid ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.amqp.websocket import WebSocket, encode

pytestmark = pytest.mark.usefixtures("decoder")

CONTINUATION, BINARY, CLOSE, PING, PONG = 0, 2, 8, 9, 10
ROOM = 1000  # bytes of the buffer, of which an incomplete frame of AMQP takes a part


class Stream:
    """What a `Wire` does for a layer below."""

    def __init__(self) -> None:
        self.data = b""
        self.ends: list[str] = []
        self._buffer = memoryview(bytearray(ROOM))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[len(self.data) % 500 :]

    def buffer_updated(self, nbytes: int) -> None:
        start = len(self.data) % 500
        self.data += bytes(self._buffer[start : start + nbytes])

    def end(self, reason: str) -> None:
        self.ends.append(reason)


class Socket:
    """A transport, and the response of aiohttp that owns it."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True


def opened() -> tuple[WebSocket, Stream, Socket]:
    stream, socket = Stream(), Socket()
    args: Any = (stream, socket, socket)
    return WebSocket(*args), stream, socket


def frame(payload: bytes, opcode: int = BINARY, *, first: int | None = None) -> bytes:
    """A frame of a server, in the shortest form."""
    size = len(payload)
    width, mark = (0, size) if size < 126 else (2, 126) if size < 1 << 16 else (8, 127)
    marks = bytes((mark,)) + (size.to_bytes(width, "big") if width else b"")
    return bytes((0x80 | opcode if first is None else first,)) + marks + payload


def feed(socket: WebSocket, data: bytes, cuts: list[int]) -> None:
    """Read `data` in parts that end at `cuts`."""
    start = 0
    for stop in [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]:
        socket.feed(data[start:stop])
        start = stop


@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(0, 5000), max_size=12), st.booleans())
def test_the_bytes_are_the_same_however_they_are_cut(payloads: list[bytes], cuts: list[int], pings: bool) -> None:
    ping = frame(b"are you there", PING) if pings else b""
    socket, stream, out = opened()
    feed(socket, b"".join(ping + frame(payload) for payload in payloads), cuts)
    assert stream.data == b"".join(payloads)
    assert unmasked(out.written) == [(PONG, b"are you there")] * (len(payloads) if pings else 0)
    assert not stream.ends


def unmasked(data: bytes) -> list[tuple[int, bytes]]:
    """The frames of a client, with payloads below 126 bytes."""
    found = []
    while data:
        size, key = data[1] & 0x7F, data[2:6]
        assert data[0] & 0x80
        assert data[1] & 0x80
        found.append((data[0] & 0x0F, bytes(byte ^ key[i % 4] for i, byte in enumerate(data[6 : 6 + size]))))
        data = data[6 + size :]
    return found


def test_a_message_of_many_frames_and_one_that_exceeds_the_buffer() -> None:
    socket, stream, _ = opened()
    large = bytes(range(256)) * 300
    socket.feed(frame(b"first, ", first=BINARY) + frame(b"second", first=0x80 | CONTINUATION) + frame(large))
    assert stream.data == b"first, second" + large


def test_what_came_before_the_end_is_passed_on() -> None:
    socket, stream, out = opened()
    socket.feed(frame(b"last words") + frame(b"\x03\xe9upgrade", CLOSE) + frame(b"too late"))
    assert stream.data == b"last words"
    assert stream.ends == ["the WebSocket was closed by the hub (1001 upgrade)"]
    assert unmasked(out.written) == [(CLOSE, b"\x03\xe9")]


@pytest.mark.parametrize(
    "data",
    [
        frame(b"text", 1),
        frame(b"reserved bit", first=0xC2),
        encode(BINARY, b"masked"),
        frame(b"a ping in parts", first=PING),
        b"\x89\x7e\x00\x80" + bytes(128),
    ],
    ids=["text", "a reserved bit", "masked", "a ping in parts", "a long ping"],
)
def test_invalid_frames_end_the_connection(data: bytes) -> None:
    socket, stream, _ = opened()
    socket.feed(data)
    (reason,) = stream.ends
    assert reason.startswith("the hub sent an invalid WebSocket frame: ")
    assert stream.data == b""


def test_each_frame_of_ours_is_masked_with_its_own_key() -> None:
    socket, _, out = opened()
    for _ in range(2):
        socket.write(b"payload")
    one, other = out.written[:13], out.written[13:]
    assert one[2:6] != other[2:6]
    assert unmasked(out.written) == [(BINARY, b"payload")] * 2
    for size, head in ((126, b"\x82\xfe\x00\x7e"), (70_000, b"\x82\xff" + (70_000).to_bytes(8, "big"))):
        assert encode(BINARY, bytes(size)).startswith(head)
    socket.close()
    assert unmasked(out.written[26:]) == [(CLOSE, b"\x03\xe8")]
    assert out.closed
