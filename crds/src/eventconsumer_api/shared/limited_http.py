"""HTTP servers and clients of aiohttp within the limits of `eventconsumer_api.shared.connections`.

The only module of this package that needs aiohttp: operator and hosts import it, the other programs do not.

aiohttp limits one header, one line and the number of headers, and a client's time; it does not limit the connections of
a server, the time that a client takes to read an answer, or the bytes before the body of an answer
(docs.aiohttp.org/en/stable/web_reference.html, client_reference.html).
"""

import asyncio
import functools
import logging
import socket
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, RawResponseMessage

from eventconsumer_api.shared import connections
from eventconsumer_api.shared.connections import Connections

_LIMITS: dict[str, Any] = {
    "max_line_size": connections.LINE_BYTES,
    "max_field_size": connections.LINE_BYTES,
    "max_headers": connections.HEADERS,
    "read_bufsize": connections.BUFFER_BYTES,
}
_PIECE_BYTES = 8 * 1024  # parsed at a time
_LINGER_SECONDS = 1.0  # for the rest of a body that nobody reads


class BadRequests(logging.Filter):
    """Leaves out requests that are not HTTP: any client could fill the log with them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_log = logging.getLogger("aiohttp.server")
_log.addFilter(BadRequests())


class LimitedRunner(web.AppRunner):
    """Serves an application; `cleanup` ends that."""

    def __init__(self, application: web.Application, request_bytes: int = connections.REQUEST_BYTES) -> None:
        """Create.

        Args:
            application: The application; it is changed.
            request_bytes: Size of a request, with its body.
        """
        super().__init__(
            application, access_log=None, shutdown_timeout=1, lingering_time=_LINGER_SECONDS, logger=_log, **_LIMITS
        )
        self.connections = Connections(request_bytes=request_bytes)

        async def answered(request: web.Request, _: web.StreamResponse) -> None:
            self.connections.answered(request.transport)

        application.on_response_prepare.append(answered)

    async def listen(self, port: int) -> int:
        """Listen on all addresses.

        Args:
            port: 0: any free port.

        Returns:
            The port.

        Raises:
            OSError: Another program uses the port, or the process may not use it.
        """
        await self.setup()
        listener = connections.listen(port)
        await LimitedSite(self, listener).start()
        return int(listener.getsockname()[1])


class LimitedSite(web.BaseSite):
    """A socket whose connections are limited."""

    def __init__(self, runner: LimitedRunner, listener: socket.socket) -> None:
        """Serve the connections of `listener`."""
        super().__init__(runner, backlog=connections.BACKLOG)
        self._listener = listener
        self._connections = runner.connections

    @property
    def name(self) -> str:
        """See `web.BaseSite`."""
        return f"http://*:{self._listener.getsockname()[1]}"

    async def start(self) -> None:
        """Accept connections."""
        await super().start()
        server = self._runner.server
        assert server is not None  # noqa: S101 - the runner is set up
        # asyncio takes `backlog` for the number that it accepts at a time, too (asyncio/selector_events.py).
        self._server = await asyncio.get_running_loop().create_server(
            self._connections.guarded(server), sock=self._listener, backlog=connections.ACCEPTED
        )
        self._listener.listen(self._backlog)


class BadAnswer(HttpProcessingError):
    """An answer that is beyond a limit before its body begins; aiohttp reports it as `ClientResponseError`."""

    def __init__(self, message: str) -> None:
        """Create; the message says what the answer is."""
        super().__init__(code=400, message=message)


class LimitedResponses(ResponseHandler):
    """Answers of a limited size, with few bytes before the body."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer_bytes: int, chunked: bool) -> None:
        """Create; see `limited_session`."""
        super().__init__(loop)
        self._answer_bytes = answer_bytes
        self._chunked = chunked
        self._received = 0
        self._begun = False  # the status of the answer has arrived
        self._bad = ""

    def set_response_params(self, **params: Any) -> None:
        """See `ResponseHandler`: called for each request, before its answer."""
        self._received, self._begun = 0, False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`. Small pieces are parsed, so the event loop does not wait for what is refused."""
        if not data or self.upgraded:
            super().data_received(data)
            return
        for start in range(0, len(data), _PIECE_BYTES):
            piece = data[start : start + _PIECE_BYTES]
            self._received += len(piece)
            if self._begun and self._payload is not None and self._payload.is_eof():
                self._bad = "bytes after the end of the answer"
            elif self._received > self._answer_bytes:
                self._bad = f"an answer of more than {self._answer_bytes} bytes"
            if not self._bad:
                super().data_received(piece)
                if not self._begun and self._received >= connections.HEAD_BYTES:
                    self._bad = f"more than {connections.HEAD_BYTES} bytes before the body of the answer"
            if self._bad:
                self._end()
                return

    def feed_data(self, data: tuple[RawResponseMessage, Any], size: int = 0) -> None:
        """See `DataQueue`: called for the head of each answer, informational ones included."""
        message, _ = data
        if not 100 <= message.code < 200 or message.code == 101:
            if self._begun:
                self._bad = "two answers"
            elif message.chunked and not self._chunked:
                self._bad = "an answer without Content-Length"
            self._begun = True
        if not self._bad:
            super().feed_data(data, size)

    def _end(self) -> None:
        if self.transport is not None:
            self.transport.abort()
        error = BadAnswer(self._bad)
        if self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(error)
        self.set_exception(error)


def limited_session(
    timeout: aiohttp.ClientTimeout, answer_bytes: int, *, chunked: bool = False, **connector: Any
) -> aiohttp.ClientSession:
    """A client session for servers that are not trusted.

    Args:
        timeout: Of a request.
        answer_bytes: Size of an answer with its head.
        chunked: Accept bodies whose size is not known before.
        **connector: Arguments of `aiohttp.TCPConnector`.
    """
    made = aiohttp.TCPConnector(socket_factory=_small_socket, **connector)
    loop = asyncio.get_running_loop()
    made._factory = functools.partial(LimitedResponses, loop, answer_bytes, chunked)  # type: ignore[assignment]
    return aiohttp.ClientSession(
        connector=made, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False,
        **_LIMITS,
    )  # fmt: skip


def _small_socket(info: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, _, _ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, connections.SOCKET_BYTES)
    return made
