"""AMQP over WebSockets on the AMQP port: a client whose first bytes are an HTTP request gets a WebSocket.

Event Hubs has another port for it, 443. Here both share a port, so that a connection string serves both transports.
Sources: RFC 6455; path and subprotocol as the Azure SDKs use them.
"""

import asyncio
import base64
import hashlib
import struct
from typing import Protocol

PATH, SUBPROTOCOL = "/$servicebus/websocket", "AMQPWSB10"
MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of a frame from a client."""

_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE, _PING, _PONG = 8, 9, 10
_REFUSED = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Stream(Protocol):
    """Bytes of AMQP from and to a client."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""

    def write(self, data: bytes) -> None:
        """Writes whole frames."""


class Plain:
    """A socket.

    Args:
        reader: its bytes.
        writer: its output.
        head: bytes that were read already.
        size: bytes of a read.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, size: int) -> None:
        self._reader, self._head, self._size = reader, head, size
        self.write = writer.write

    async def read(self) -> bytes:
        """See `Stream`."""
        if self._head:
            head, self._head = self._head, b""
            return head
        return await self._reader.read(self._size)


class WebSocket:
    """A WebSocket. Each frame of AMQP is a message, the most expensive form for a client.

    Args:
        reader: the socket's bytes.
        writer: the socket's output.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        """See `Stream`; answers pings."""
        while True:
            try:
                opcode, payload = await self._frame()
            except asyncio.IncompleteReadError:
                return b""
            if opcode == _CLOSE:
                self._writer.write(_head(_CLOSE, len(payload)) + payload)
                return b""
            if opcode == _PING:
                self._writer.write(_head(_PONG, len(payload)) + payload)
            elif opcode in (0, 2) and payload:
                return payload

    def write(self, data: bytes) -> None:
        """See `Stream`."""
        pieces: list[bytes] = []
        pos = 0
        while pos < len(data):
            size = 8 if data.startswith(b"AMQP", pos) else int.from_bytes(data[pos : pos + 4], "big")
            pieces += (_head(2, size), data[pos : pos + size])
            pos += size
        self._writer.write(b"".join(pieces))

    async def _frame(self) -> tuple[int, bytes]:
        first, size = await self._reader.readexactly(2)
        masked, size = size & 0x80, size & 0x7F
        if size > 125:
            size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
        if not masked or size > MAX_MESSAGE:
            raise ConnectionError("the client broke the WebSocket protocol")
        key = await self._reader.readexactly(4)
        payload = await self._reader.readexactly(size)
        mask = int.from_bytes((key * (size // 4 + 1))[:size], "big")
        return first & 0x0F, (int.from_bytes(payload, "big") ^ mask).to_bytes(size, "big")


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> Stream | None:
    """The stream of a new client: of its WebSocket, if it asks for one; None if its request is refused.

    Args:
        reader: the socket's bytes.
        writer: the socket's output.
        size: bytes of a read.

    Raises:
        ConnectionError: the client has gone, or sent no request.
    """
    try:
        head = await reader.readexactly(4)
        if head != b"GET ":
            return Plain(reader, writer, head, size)
        request = (head + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise ConnectionError("the client sent no request") from None
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in request[1:])}
    key = headers.get("sec-websocket-key", "")
    offered = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
    if request[0].split(" ")[1] != PATH or not key or SUBPROTOCOL not in offered:
        writer.write(_REFUSED)
        return None
    digest = base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()
    writer.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {digest}\r\nSec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
    )
    return WebSocket(reader, writer)


def _head(opcode: int, size: int) -> bytes:
    if size < 126:
        return bytes((0x80 | opcode, size))
    if size < 1 << 16:
        return struct.pack(">BBH", 0x80 | opcode, 126, size)
    return struct.pack(">BBQ", 0x80 | opcode, 127, size)
