"""AMQP over WebSockets: bytes on port 443, directly or through an HTTP proxy.

aiohttp connects: proxy, TLS, upgrade. Then this module takes over the socket, because the objects that aiohttp makes of
each message cost as much as an event. `Wire` gets its bytes as from a plain socket: one read of the socket fills the
buffer of `Wire`, and the heads of the WebSocket frames are removed there. So one read still gives many deliveries.

Sources: RFC 6455; path and subprotocol as in azure-eventhub 5.15.1, `_configuration.py` and `_pyamqp/constants.py`.
"""

import asyncio
import base64
import ctypes
import hashlib
import os
import ssl
import struct

import aiohttp

from eventconsumer_api.errors import Blocked
from eventconsumer_host.amqp import compiled
from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.wire import Wire
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_storage.proxy import EnvironmentProxy, proxy_for, proxy_refusal

PATH, SUBPROTOCOL = "/$servicebus/websocket", "AMQPWSB10"
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG = 0, 2, 8, 9, 10
_FINAL, _MASKED, _OPCODE = 0x80, 0x80, 0x7F  # a reserved bit makes an opcode that is not known
_TWO_BYTES, _EIGHT_BYTES = 126, 127  # marks of a length that follows
_CLOSE_NORMAL = b"\x03\xe8"
_MEDIUM_HEAD = struct.Struct(">BBH").unpack_from


async def connect(wire: Wire, host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Connect a `Wire`, through the proxy of the environment if there is one for the host.

    Args:
        wire: Gets the bytes.
        host: Host name of the namespace.
        port: 443, except for emulators.
        tls: None only for emulators.

    Raises:
        HubUnreachable: The hub or the proxy is not reachable, or refuses.
    """
    scheme = "http" if tls is None else "https"
    try:
        proxy = proxy_for(scheme, host)
    except Blocked as error:
        raise HubUnreachable(str(error)) from None
    where = f"{host}:{port}"
    connector = aiohttp.TCPConnector(ssl=tls if tls is not None else False, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        try:
            response = await _upgraded(session, f"{scheme}://{where}{PATH}", proxy)
        except aiohttp.ClientHttpProxyError as error:
            assert proxy is not None  # noqa: S101 - it answered
            raise HubUnreachable(
                f"no connection to {where}: {proxy_refusal(error.status, where, proxy.address)}"
            ) from None
        except (aiohttp.ClientError, OSError) as error:  # TLS errors too
            raise HubUnreachable(f"no connection to {where}{_through(proxy)}: {_reason(error)}") from error
        session.detach()  # the connection outlives the session
    _take_over(wire, response)


async def _upgraded(session: aiohttp.ClientSession, url: str, proxy: EnvironmentProxy | None) -> aiohttp.ClientResponse:
    key = base64.b64encode(os.urandom(16)).decode()
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
    }
    given = None if proxy is None else proxy.url
    response = await session.get(url, headers=headers, proxy=given, allow_redirects=False)
    expected = base64.b64encode(hashlib.sha1(f"{key}{_MAGIC}".encode()).digest()).decode()  # noqa: S324 - RFC 6455
    if response.status != 101 or response.headers.get("Sec-WebSocket-Accept") != expected:
        response.close()
        raise HubUnreachable(
            f"{response.url.host} answered {response.status} {response.reason} instead of opening a WebSocket"
            f"{_through(proxy)}: a proxy or gateway must forward WebSockets on port 443"
        )
    return response


def _take_over(wire: Wire, response: aiohttp.ClientResponse) -> None:
    connection, early = response.connection, _Early()
    transport, protocol = (connection.transport, connection.protocol) if connection else (None, None)
    if transport is None or protocol is None or transport.is_closing():
        response.close()
        raise HubUnreachable("the WebSocket was closed by the hub")
    protocol.set_parser(early, early)  # gives the bytes that came together with the response
    socket = WebSocket(wire, transport, response)
    transport.set_protocol(socket)
    wire.start(socket)
    socket.feed(early.data)


class _Early:
    """A parser of aiohttp that keeps bytes."""

    data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""


class WebSocket(asyncio.BufferedProtocol):
    """An open WebSocket: `asyncio`'s protocol of a socket, and the `wire.WireOutput` of a `Wire`.

    The messages of the peer are a stream: a frame of AMQP may begin in one and end in another.

    Args:
        wire: Gets the bytes.
        transport: The socket.
        response: Owner of the socket in aiohttp.
    """

    def __init__(self, wire: Wire, transport: asyncio.Transport, response: aiohttp.ClientResponse) -> None:
        self._wire = wire
        self._transport = transport
        self._response = response
        self._view = memoryview(b"")
        self._kept = b""  # an incomplete head, or an incomplete control frame
        self._left = 0  # bytes that the current frame still has
        self._closed_by_peer = ""
        self._messages = (CompiledMessages if compiled.find() else Messages)()

    # --- asyncio ---

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        self._view = view = self._wire.get_buffer(sizehint)
        kept = len(self._kept)
        if kept:
            view[:kept] = self._kept
            return view[kept:]
        return view

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        end, self._kept = len(self._kept) + nbytes, b""
        try:
            size = self._unpack(self._view, end)
        except FrameError as error:
            self._wire.end(f"the hub sent an invalid WebSocket frame: {error}")
            return
        if size:
            self._wire.buffer_updated(size)
        if self._closed_by_peer:
            self._wire.end(self._closed_by_peer)

    def feed(self, data: bytes) -> None:
        """Take bytes that were not read into the buffer."""
        while data:
            view = self.get_buffer(len(data))
            part = data[: len(view)]
            view[: len(part)] = part
            self.buffer_updated(len(part))
            data = data[len(part) :]

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._response.close()
        self._wire.connection_lost(exc)

    # --- wire.Output ---

    def write(self, data: bytes) -> None:
        """See `wire.WireOutput`."""
        self._transport.write(encode(_BINARY, data))

    def close(self) -> None:
        """See `wire.WireOutput`."""
        self._transport.write(encode(_CLOSE, _CLOSE_NORMAL))
        self._response.close()

    def abort(self) -> None:
        """See `wire.WireOutput`."""
        self._transport.abort()
        self._response.close()

    # --- frames ---

    def _unpack(self, view: memoryview, end: int) -> int:
        """Remove all that is not data from the first `end` bytes; returns the size of the data."""
        pos = size = 0
        while pos < end:
            if self._left:
                count = min(self._left, end - pos)
                view[size : size + count] = view[pos : pos + count]
                size, pos, self._left = size + count, pos + count, self._left - count
                continue
            pos, size = self._messages.join(view, pos, size, end)
            start = self._head(view, pos, end)
            if start is None:  # not yet, or nothing is left
                self._kept = bytes(view[pos:end])
                break
            opcode = view[pos] & _OPCODE
            pos = start
            if opcode in (_CONTINUATION, _BINARY):
                continue
            pos, self._left = start + self._left, 0
            if opcode == _CLOSE:
                self._close(bytes(view[start:pos]))
                break
            if opcode == _PING:
                self._transport.write(encode(_PONG, bytes(view[start:pos])))
        return size

    def _head(self, view: memoryview, pos: int, end: int) -> int | None:
        """Position behind a head, and the size of the payload in `_left`; None if more bytes are needed.

        A control frame needs its payload too.
        """
        if end - pos < 2:
            return None
        opcode, length, start = view[pos] & _OPCODE, view[pos + 1], pos + 2
        if length >= _TWO_BYTES:
            if length & _MASKED:
                raise FrameError("it is masked")
            start += 2 if length == _TWO_BYTES else 8
            if start > end:
                return None
            length = int.from_bytes(view[pos + 2 : start], "big")
        if opcode not in (_CONTINUATION, _BINARY):
            if opcode not in (_CLOSE, _PING, _PONG) or not view[pos] & _FINAL or view[pos + 1] >= _TWO_BYTES:
                raise FrameError(f"its first bytes are {bytes(view[pos : pos + 2]).hex()}")
            if start + length > end:
                return None
        self._left = length
        return start

    def _close(self, payload: bytes) -> None:
        code = int.from_bytes(payload[:2], "big")
        text = payload[2:].decode(errors="replace")
        self._closed_by_peer = f"the WebSocket was closed by the hub ({code} {text})".replace(" )", ")")
        self._transport.write(encode(_CLOSE, payload[:2]))


class Messages:
    """Removes the heads of whole messages. The service may send one for each event, so this is the cost of an event."""

    def join(self, view: memoryview, head: int, size: int, end: int) -> tuple[int, int]:
        """Move the payloads of messages of 126 to 65,535 bytes from `head` to `size`; returns both behind the last one.

        Args:
            view: The buffer.
            head: Position of the next head.
            size: Bytes before it that are data.
            end: End of the received bytes.
        """
        while end - head > 4:
            first, mark, length = _MEDIUM_HEAD(view, head)
            stop = head + 4 + length
            if first != _FINAL | _BINARY or mark != _TWO_BYTES or stop > end:
                break
            view[size : size + length] = view[head + 4 : stop]
            size, head = size + length, stop
        return head, size


class CompiledMessages(Messages):
    """The same for messages of any size, by the compiled decoder; see `compiled.find`."""

    def __init__(self) -> None:
        library = compiled.library()
        self._join, self._place = library.join, library.Place()

    def join(self, view: memoryview, head: int, size: int, end: int) -> tuple[int, int]:
        """See `Messages`."""
        place = self._place
        place.head, place.end = head, size
        self._join(ctypes.addressof(ctypes.c_char.from_buffer(view)), end, place)
        return place.head, place.end


def encode(opcode: int, payload: bytes) -> bytes:
    """A frame of a client, which is masked: RFC 6455, section 5.3."""
    size, key = len(payload), os.urandom(4)
    if size < _TWO_BYTES:
        head = bytes((_FINAL | opcode, _MASKED | size))
    elif size < 1 << 16:
        head = bytes((_FINAL | opcode, _MASKED | _TWO_BYTES)) + size.to_bytes(2, "big")
    else:
        head = bytes((_FINAL | opcode, _MASKED | _EIGHT_BYTES)) + size.to_bytes(8, "big")
    mask = int.from_bytes((key * (size // 4 + 1))[:size], "big")
    return head + key + (int.from_bytes(payload, "big") ^ mask).to_bytes(size, "big")


def _through(proxy: EnvironmentProxy | None) -> str:
    return "" if proxy is None else f" through the proxy {proxy.address} (spec.proxy, or HTTPS_PROXY)"


def _reason(error: Exception) -> str:
    """The cause, without the URLs and object names of aiohttp's texts."""
    cause = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    return str(cause) or type(cause).__name__
