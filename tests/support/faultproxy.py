"""An HTTP proxy before Azurite that simulates failures of a network and a storage service.

    host ──► FaultProxy ──► Azurite

It forwards the bytes of every request unchanged, so that signatures stay valid (storage signs the path, not the host),
each over a separate connection. A test adds faults: the matching requests (`Match`), their number, and the action (see
faultactions). Every request is kept in `exchanges`, with storage's status. A proxy for each host makes only one host
fail. The proxy runs on a thread, so tests are sequential code.
"""

import asyncio
import contextlib
import re
import threading
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.support.waiting import HANG_SECONDS
from tests.support.wire import Reply, Request, read_message

_HEAD_LIMIT = 1 << 20
_SLICE_SECONDS = 0.05  # how often a slow exchange moves a piece


@dataclass
class Exchange:
    """A request and its result."""

    request: Request
    replies: list[Reply] = field(default_factory=list)  # of storage: none where it never arrived, two where replayed
    fault: str = ""  # name of the action that met it


@dataclass(frozen=True)
class Match:
    """A filter of requests; absent fields match everything.

    Args:
        method: Such as PUT.
        path: A regular expression to be found in the decoded path.
        query: Exact values by parameter; None where it must be absent.
        headers: Regular expressions for whole values by name in lower case; None where it must be absent.
        body: A regular expression to be found in the body.
    """

    method: str = ""
    path: str = ""
    query: Mapping[str, str | None] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: bytes = b""

    def meets(self, request: Request) -> bool:
        """Whether the request matches."""
        query, headers = request.query, request.headers
        return (
            self.method in ("", request.method)
            and re.search(self.path, request.path) is not None
            and all(query.get(name) == value for name, value in self.query.items())
            and all(_fits(headers.get(name), pattern) for name, pattern in self.headers.items())
            and re.search(self.body, request.body) is not None
        )


class Handling(Protocol):
    """The operations of an action on its request."""

    @property
    def request(self) -> Request:
        """The request."""

    @property
    def fault(self) -> "Fault":
        """The fault that applies to it."""

    async def through(self) -> None:
        """Forward the request to storage, and its response to the client."""

    async def forward(self, bytes_per_second: float = 0) -> Reply:
        """Send the request to storage, and return its complete response."""

    async def forward_part(self, size: int) -> None:
        """Send the head and `size` bytes of the body to storage, then cut that connection."""

    async def answer(self, data: bytes, bytes_per_second: float = 0) -> None:
        """Send bytes to the client; a disconnected client is no error."""

    def cut(self) -> None:
        """Reset the client's connection."""


class Action(Protocol):
    """The action for the requests of a fault."""

    async def apply(self, handling: Handling) -> None:
        """Execute the action; the connection stays open unless it was cut."""


class Fault:
    """A fault that was added; `FaultProxy.add` makes it.

    Attributes:
        requests: The affected requests, in order.
    """

    def __init__(self, proxy: "FaultProxy", match: Match, action: Action, times: int | None, skip: int) -> None:
        self.requests: list[Request] = []
        self._proxy = proxy
        self._match = match
        self.action = action
        self._left = times
        self._skip = skip
        self._go: asyncio.Future[bool] | None = None
        self._freed: bool | None = None
        self._changed = threading.Condition()

    def wait(self, seconds: float = HANG_SECONDS, *, count: int = 1) -> None:
        """Wait until it has affected `count` requests.

        Raises:
            AssertionError: Timeout.
        """
        with self._changed:
            met = self._changed.wait_for(lambda: len(self.requests) >= count, seconds)
        assert met, f"{self.action} met {len(self.requests)} requests of {count} within {seconds} s"

    def release(self) -> None:
        """Release all present and later held requests."""
        self._free(True)

    def discard(self) -> None:
        """Cut all present and later held requests: storage never gets them."""
        self._free(False)

    def remove(self) -> None:
        """Affect no further requests; held ones stay held."""
        self._left = 0

    @property
    def over(self) -> bool:
        """Whether it was released or discarded: slow requests then continue at full speed."""
        return self._freed is not None

    async def freed(self) -> bool:
        """Wait for release (True) or discard (False); for actions."""
        if self._go is None:
            self._go = asyncio.get_running_loop().create_future()
        if self._freed is not None:
            return self._freed
        return await asyncio.shield(self._go)

    def takes(self, request: Request) -> bool:
        """Whether this request matches; counts it."""
        if self._left == 0 or not self._match.meets(request):
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self._left is not None:
            self._left -= 1
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        return True

    def _free(self, value: bool) -> None:
        def free() -> None:
            self._freed = value
            if self._go is not None and not self._go.done():
                self._go.set_result(value)

        self._proxy.call(free)


class FaultProxy:
    """The proxy; `start` it, `add` faults, `close` it.

    Args:
        upstream_port: Storage's port on loopback.
        upstream_string: A connection string whose endpoint has that port.
    """

    def __init__(self, upstream_port: int, upstream_string: str) -> None:
        self.exchanges: list[Exchange] = []
        self.port = 0
        self._upstream_port = upstream_port
        self._upstream_string = upstream_string
        self._faults: list[Fault] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._server: asyncio.Server | None = None

    @property
    def connection_string(self) -> str:
        """The connection string of storage through this proxy."""
        return self._upstream_string.replace(f":{self._upstream_port}", f":{self.port}")

    def start(self) -> None:
        """Listen on a free loopback port."""
        self._thread.start()
        self._run(self._listen())

    def add(self, match: Match, action: Action, times: int | None = None, skip: int = 0) -> Fault:
        """Add a fault; of several that match, the first one added takes a request.

        Args:
            match: The requests.
            action: The action.
            times: Number of requests; None: all.
            skip: Number of matching requests that pass before.
        """
        fault = Fault(self, match, action, times, skip)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults and release all held requests."""
        for fault in self._faults:
            fault.remove()
            fault.release()
        self._faults = []

    def met(self, match: Match) -> list[Exchange]:
        """All exchanges so far whose requests match."""
        return [exchange for exchange in [*self.exchanges] if match.meets(exchange.request)]

    def call(self, action: Any) -> None:
        """Call a function on the proxy's thread."""
        self._loop.call_soon_threadsafe(action)

    def close(self) -> None:
        """Cut all connections and stop."""
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in [*self._connections]:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # transports close on the next turn

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    head, body = await read_message(reader)
                    await self._handle(Request(head, body, time.monotonic()), writer)
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _handle(self, request: Request, writer: asyncio.StreamWriter) -> None:
        exchange = Exchange(request)
        self.exchanges.append(exchange)
        fault = next((fault for fault in [*self._faults] if fault.takes(request)), None)
        if fault is None:
            await _Handling(self._upstream_port, exchange, None, writer).through()
        else:
            exchange.fault = type(fault.action).__name__
            await fault.action.apply(_Handling(self._upstream_port, exchange, fault, writer))


class _Handling:
    """See `Handling`."""

    def __init__(self, port: int, exchange: Exchange, fault: Fault | None, client: asyncio.StreamWriter) -> None:
        self._fault = fault
        self._port = port
        self._exchange = exchange
        self._client = client

    @property
    def request(self) -> Request:
        """See `Handling`."""
        return self._exchange.request

    @property
    def fault(self) -> Fault:
        """See `Handling`."""
        assert self._fault is not None
        return self._fault

    async def forward(self, bytes_per_second: float = 0) -> Reply:
        """See `Handling`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_HEAD_LIMIT)
        try:
            writer.write(self.request.head)
            await self._write(writer, self.request.body, bytes_per_second)
            reply = Reply(*await read_message(reader, of=self.request.method))
        finally:
            writer.transport.abort()
        self._exchange.replies.append(reply)
        return reply

    async def forward_part(self, size: int) -> None:
        """See `Handling`."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(self.request.head + self.request.body[:size])
            await writer.drain()
            await asyncio.sleep(_SLICE_SECONDS)  # storage has begun to read it
        finally:
            writer.transport.abort()

    async def answer(self, data: bytes, bytes_per_second: float = 0) -> None:
        """See `Handling`."""
        with contextlib.suppress(OSError):
            await self._write(self._client, data, bytes_per_second)

    async def through(self) -> None:
        """See `Handling`."""
        reply = await self.forward()
        await self.answer(reply.head + reply.body)

    def cut(self) -> None:
        """See `Handling`."""
        self._client.transport.abort()

    async def _write(self, writer: asyncio.StreamWriter, data: bytes, bytes_per_second: float) -> None:
        sent = 0
        while bytes_per_second and sent < len(data) and not (self._fault and self._fault.over):
            piece = max(1, int(bytes_per_second * _SLICE_SECONDS))
            writer.write(data[sent : sent + piece])
            await writer.drain()
            sent += piece
            await asyncio.sleep(_SLICE_SECONDS)
        writer.write(data[sent:])
        await writer.drain()


def _fits(value: str | None, pattern: str | None) -> bool:
    if pattern is None or value is None:
        return pattern is value
    return re.fullmatch(pattern, value) is not None
