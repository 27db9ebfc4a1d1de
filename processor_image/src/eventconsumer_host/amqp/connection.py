"""One connection to a hub: handshake, heartbeats, the end. It has one session.

Every cause of its end (the peer's close, silence, invalid bytes) ends all its links with the same error; this module
does not reconnect.
"""

import asyncio
import contextlib
import os
import ssl
from dataclasses import dataclass
from functools import lru_cache
from uuid import uuid4

from eventconsumer_host.amqp import frames, trace
from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.frames import Fields
from eventconsumer_host.amqp.session import HANDLE_MAX, WINDOW, Session
from eventconsumer_host.amqp.wire import Deliveries
from eventconsumer_host.errors import HubUnreachable, SourceError
from eventconsumer_host.source.conditions import error_for

CLOSE_SECONDS = 2.0
IDLE_SECONDS = 60.0  # a peer that is silent for longer is considered dead; half of this time is sent to it
MAX_FRAME_SIZE = 64 * 1024  # bytes
_MIN_FRAME_SIZE = 512


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a hub; without `tls` only for emulators."""

    host: str
    port: int
    tls: bool = True
    websocket: bool = False


def tls_context() -> ssl.SSLContext:
    """TLS context of all connections of this process: reading all authorities takes 40 ms of CPU."""
    return _tls_context(tuple(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@lru_cache(maxsize=1)
def _tls_context(_: tuple[str | None, ...]) -> ssl.SSLContext:
    return ssl.create_default_context()


class Connection:
    """A connection; created by `connect`.

    Attributes:
        session: Its links.
    """

    def __init__(self, host: str, idle_seconds: float = IDLE_SECONDS) -> None:
        self._host = host
        self._idle = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._wire = trace.wire(self, MAX_FRAME_SIZE)
        self.session = Session(self._wire)
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._error: SourceError | None = None
        self._sasl_done = False
        self._timer: asyncio.TimerHandle | None = None
        self._peer_idle = 0.0  # seconds; 0: the peer has no limit

    @property
    def is_usable(self) -> bool:
        """Whether links can be attached: the connection is open, and a handle is free."""
        return self._error is None and not self.session.is_full

    @property
    def error(self) -> SourceError | None:
        """Why it ended; None while it is open."""
        return self._error

    async def connect(self, endpoint: Endpoint, seconds: float) -> None:
        """Connect, sign in anonymously, open, begin.

        Raises:
            HubUnreachable: It did not succeed within `seconds`.
        """
        context = tls_context() if endpoint.tls else None
        try:
            async with asyncio.timeout(seconds):
                if endpoint.websocket:
                    from eventconsumer_host.amqp import websocket  # aiohttp is not needed otherwise

                    await websocket.connect(self._wire, endpoint.host, endpoint.port, context)
                else:
                    await self._loop.create_connection(lambda: self._wire, endpoint.host, endpoint.port, ssl=context)
                self._wire.send(frames.SASL_HEADER)
                await self._ready
        except TimeoutError:
            self._fail(HubUnreachable(f"{endpoint.host} did not respond within {seconds:.0f} s"))
        except OSError as error:  # TLS errors too
            self._fail(HubUnreachable(f"no connection to {endpoint.host}:{endpoint.port}: {error}"))
        except SourceError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(HubUnreachable("connecting was cancelled"))
            raise
        if self._error is not None:
            self._wire.abort()
            raise self._error

    async def close(self) -> None:
        """Close; never fails, at most two seconds."""
        if self._error is None and self._ready.done():
            self._wire.send(frames.close())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._closed
        self._fail(HubUnreachable("the connection was closed"))
        self._wire.abort()

    # --- received frames: see `wire.FrameReceiver` ---

    def header(self, data: bytes) -> None:
        """See `wire.FrameReceiver`."""
        if self._ready.done() or data != (frames.AMQP_HEADER if self._sasl_done else frames.SASL_HEADER):
            raise FrameError(f"the protocol header {data!r} is not expected")
        if self._sasl_done:
            container, idle_ms = f"eventconsumer-{uuid4()}", int(self._idle * 500)
            self._wire.send(frames.open_connection(container, self._host, MAX_FRAME_SIZE, idle_ms))
            self._wire.send(frames.begin(WINDOW, HANDLE_MAX))

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        """See `wire.FrameReceiver`."""
        if self._sasl_done != (kind == 0):
            raise FrameError(f"a frame of type {kind} is not expected now")
        match fields.code:
            case frames.SASL_MECHANISMS if not self._sasl_done:
                self._wire.send(frames.sasl_anonymous(self._host))
            case frames.SASL_OUTCOME if not self._sasl_done:
                if fields.number(0) != 0:
                    raise FrameError("the hub refuses anonymous SASL")
                self._sasl_done = True
                self._wire.send(frames.AMQP_HEADER)
            case frames.OPEN if not self._ready.done():
                self.session.limit_frames(max(_MIN_FRAME_SIZE, fields.number(2, 1 << 20)))
                self._peer_idle = fields.number(4, 0) / 1000
            case frames.BEGIN if not self._ready.done():
                self.session.begin(fields)
                self._ready.set_result(None)
                self._tick()
            case frames.END | frames.CLOSE:
                self._on_close(fields)
            case _ if self._ready.done() and self._sasl_done:
                self.session.frame(fields, payload)
            case _:
                raise FrameError(f"performative {fields.code:#04x} is not expected now")

    def deliveries(self, handle: int, found: Deliveries) -> None:
        """See `wire.FrameReceiver`."""
        self.session.deliveries(handle, found)

    def lost(self, reason: str) -> None:
        """See `wire.FrameReceiver`."""
        self._fail(HubUnreachable(reason))

    # --- life ---

    def _tick(self) -> None:
        """Send heartbeats, and check those of the peer."""
        now = self._loop.time()
        if now - self._wire.heard > self._idle:
            self._wire.abort()
            self._fail(HubUnreachable(f"the hub was silent for {self._idle:g} s"))
            return
        step = min(self._idle, self._peer_idle or self._idle) / 4
        if self._peer_idle and now - self._wire.said >= step:
            self._wire.send(frames.EMPTY_FRAME)
        self._timer = self._loop.call_later(step, self._tick)

    def _on_close(self, fields: Fields) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        self._wire.send(frames.close())
        condition, description = fields.error(0)
        text = f"{condition}: {description}" if condition else "the connection was closed by the hub"
        self._fail(error_for(condition, text))

    def _fail(self, error: SourceError) -> None:
        """End, with all links."""
        if self._error is not None:
            return
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
        self._wire.close()
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # retrieved, even where no task waits
        self.session.end(error)
