"""Limits of the connections of HTTP servers and clients: how many, how long, and how many bytes.

Any pod may connect where no network policy is enforced, and a host runs code of users. So each server has room for a
fixed number of connections. When it is full, the address with the most connections gives one up: that which has been
without a complete request for the longest time. Kubelet, Prometheus and the operator have a few connections each, so a
flood from one pod, or from some, closes only its own.
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable

CONNECTIONS = 32  # of a server
BACKLOG = 128  # connections that the kernel accepts before the server does
ACCEPTED = 16  # of these at a time: others, which are open, wait for that
# From the last complete request, or from the connection: to send a request, to read the answer, or to be idle. Clients
# of aiohttp close an idle connection after 15 s (docs.aiohttp.org, `keepalive_timeout`): before the server does.
REQUEST_SECONDS = 20.0
REQUEST_BYTES = 32 * 1024  # of a request without a body
HEAD_BYTES = 16 * 1024  # of the status line and the headers of an answer, with informational answers before it
LINE_BYTES = 8190  # of a request line, a status line or one header
HEADERS = 64
BUFFER_BYTES = 16 * 1024  # of a body, before its sender has to wait
FRESH_SECONDS = 1.0
SOCKET_BYTES = 64 * 1024  # the kernel's buffer of what was received; the kernel doubles it: tcp(7), socket(7)


def listen(port: int) -> socket.socket:
    """A listening socket for IPv4 and IPv6: a free port is then the same for both.

    Args:
        port: TCP port; 0: any free port.

    Raises:
        OSError: Another program listens on the port, or the process may not use it.
    """
    if socket.has_dualstack_ipv6():
        listener = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=BACKLOG)
    else:
        listener = socket.create_server(("", port), backlog=BACKLOG)
    # Accepted connections inherit it.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    return listener


class Fresh:
    """An answer that is made at most once a second: many requests cost no more than one."""

    def __init__(self, make: Callable[[], bytes], clock: Callable[[], float] = time.monotonic) -> None:
        """Create; `make` makes the answer, and `clock` returns seconds."""
        self._make = make
        self._clock = clock
        self._made: tuple[float, bytes] | None = None

    def get(self) -> bytes:
        """The answer."""
        now = self._clock()
        if self._made is None or now - self._made[0] >= FRESH_SECONDS:
            self._made = (now, self._make())
        return self._made[1]


class Connections:
    """The open connections of one server."""

    def __init__(
        self, *, most: int = CONNECTIONS, seconds: float = REQUEST_SECONDS, request_bytes: int = REQUEST_BYTES
    ) -> None:
        """Create.

        Args:
            most: Number of connections.
            seconds: From one complete request to the next.
            request_bytes: Size of a request, with its body.
        """
        self.seconds = seconds
        self.request_bytes = request_bytes
        self._most = most
        self._open: set[_Guarded] = set()

    def guarded(self, factory: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """The protocol factory of a server with these limits, for `loop.create_server`."""
        return lambda: _Guarded(self, factory())

    def answered(self, transport: asyncio.BaseTransport | None) -> None:
        """The request of a connection is complete, and its answer is about to be sent."""
        if isinstance(transport, asyncio.Transport) and isinstance(guarded := transport.get_protocol(), _Guarded):
            guarded.answered()

    def add(self, connection: "_Guarded") -> None:
        """A connection was opened; close one if there are too many."""
        self._open.add(connection)
        if len(self._open) > self._most:
            crowds = Counter(each.address for each in self._open)
            max(self._open, key=lambda each: (crowds[each.address], -each.since)).abort()

    def remove(self, connection: "_Guarded") -> None:
        """A connection is closed, or about to be."""
        self._open.discard(connection)


class _Guarded(asyncio.Protocol):
    """One connection: passes everything on to the server's protocol, within the limits."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._connections = connections
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._received = 0
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.since = self._loop.time()
        self.address = ""

    def answered(self) -> None:
        """A complete request has arrived: the limits of the next one begin."""
        self.since = self._loop.time()
        self._received = 0

    def abort(self) -> None:
        """Close without sending what the client has not read."""
        self._connections.remove(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a TCP server makes no others
        self._transport = transport
        self.address = str((transport.get_extra_info("peername") or ("",))[0])
        self._connections.add(self)
        self._inner.connection_made(transport)
        self._check()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._received += len(data)
        if self._received > self._connections.request_bytes:
            self.abort()
        else:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """See `asyncio.Protocol`."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._connections.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        self._inner.connection_lost(exc)
        self._transport = None

    def _check(self) -> None:
        """Close the connection if its time is over; otherwise look again when it is."""
        due = self.since + self._connections.seconds
        if due <= self._loop.time():
            self.abort()
        else:
            self._timer = self._loop.call_at(due, self._check)
