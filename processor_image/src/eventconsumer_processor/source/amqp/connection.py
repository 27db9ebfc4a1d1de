"""One connection to a hub with one session: handshake, windows, heartbeats, and the links on it.

Whatever ends it (the peer's close, silence, bytes that are no AMQP) ends all its links with the same error; nothing is
opened again here. The session's window is refreshed when half of it is used; what a link has waiting is bounded by its
credit, not by the window.
"""

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from eventconsumer_processor.errors import HubUnreachable, SourceError
from eventconsumer_processor.source.amqp import performatives as amqp
from eventconsumer_processor.source.amqp.codec import FrameError
from eventconsumer_processor.source.amqp.performatives import Fields
from eventconsumer_processor.source.amqp.wire import Wire
from eventconsumer_processor.source.conditions import error_for

CLOSE_SECONDS = 2.0
IDLE_SECONDS = 60.0  # a peer that is silent for longer is dead; half of it is what it is told
MAX_FRAME_SIZE = 64 * 1024  # bytes
WINDOW = 64 * 1024  # transfer frames that the peer may send ahead
HANDLE_MAX = 1023
_MIN_FRAME_SIZE = 512
_WRAP = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a hub listens; without `tls` only for emulators."""

    host: str
    port: int
    tls: bool = True


class Link(Protocol):
    """What a connection needs from a link."""

    name: str

    def attach_frame(self, handle: int) -> bytes:
        """The frame that attaches it."""

    def on_attach(self, fields: Fields) -> None:
        """The peer's attach."""

    def on_flow(self, fields: Fields) -> None:
        """The peer's flow for this link."""

    def on_transfer(self, fields: Fields, payload: bytes) -> None:
        """A transfer of any shape."""

    def on_deliveries(self, payloads: list[bytes]) -> None:
        """Whole, settled deliveries."""

    def on_outcome(self, delivery: int, outcome: object) -> None:
        """What became of a message that was sent."""

    def on_detach(self, error: SourceError) -> None:
        """The link is gone; said once."""


class Connection:
    """A connection; made by `connect`."""

    def __init__(self, host: str, idle_seconds: float = IDLE_SECONDS) -> None:
        self._host = host
        self._idle = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._wire = Wire(self, MAX_FRAME_SIZE)
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._error: SourceError | None = None
        self._sasl_done = False
        self._timer: asyncio.TimerHandle | None = None
        self._peer_idle = 0.0  # seconds; 0: the peer does not care
        self._peer_frame_size = _MIN_FRAME_SIZE
        self._handle_max = HANDLE_MAX
        self._links: dict[int, Link] = {}  # by our handle
        self._handles: dict[int, int] = {}  # ours, by the peer's
        self._leaving: dict[int, asyncio.Future[None]] = {}  # detached by us, not yet by the peer; by our handle
        self._next_incoming = 0
        self._window = WINDOW  # transfers that the peer may still send
        self._next_outgoing = 0
        self._peer_window = 0

    @property
    def is_usable(self) -> bool:
        """Whether links can be attached: it is open, and a handle is free."""
        return self._error is None and len(self._links) + len(self._leaving) <= self._handle_max

    @property
    def error(self) -> SourceError | None:
        """Why it ended; None while it has not."""
        return self._error

    async def connect(self, endpoint: Endpoint, seconds: float) -> None:
        """Connect, sign in anonymously, open, begin.

        Raises:
            HubUnreachable: It did not work out within `seconds`.
        """
        context = ssl.create_default_context() if endpoint.tls else None
        try:
            async with asyncio.timeout(seconds):
                await self._loop.create_connection(lambda: self._wire, endpoint.host, endpoint.port, ssl=context)
                self._wire.send(amqp.SASL_HEADER)
                await self._ready
        except TimeoutError:
            self._fail(HubUnreachable(f"{endpoint.host} did not answer within {seconds:.0f} s"))
        except OSError as error:  # TLS errors too
            self._fail(HubUnreachable(f"no connection to {endpoint.host}:{endpoint.port}: {error}"))
        except SourceError:
            pass  # it is in `_error`
        except asyncio.CancelledError:
            self._fail(HubUnreachable("connecting was cancelled"))
            raise
        if self._error is not None:
            self._wire.abort()
            raise self._error

    async def close(self) -> None:
        """Close; never fails, at most two seconds."""
        if self._error is None and self._ready.done():
            self._wire.send(amqp.close())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._closed
        self._fail(HubUnreachable("the connection was closed"))
        self._wire.abort()

    # --- for links ---

    def attach(self, link: Link) -> int:
        """Attach a link; its handle.

        Raises:
            SourceError: The connection is gone, or has no handle left.
        """
        if self._error is not None:
            raise self._error
        used = self._links.keys() | self._leaving.keys()
        handle = next((number for number in range(self._handle_max + 1) if number not in used), None)
        if handle is None:
            raise HubUnreachable(f"a connection takes at most {self._handle_max + 1} links")
        self._links[handle] = link
        self._wire.send(link.attach_frame(handle))
        return handle

    def detach(self, handle: int, link: Link) -> asyncio.Future[None] | None:
        """Close a link; what to wait for until the peer has closed it too, None where it is gone already."""
        if self._links.get(handle) is not link:
            return None
        del self._links[handle]
        left = self._leaving[handle] = self._loop.create_future()
        self._wire.send(amqp.detach(handle))
        return left

    def flow(self, handle: int, delivery_count: int, credit: int) -> None:
        """Set a link's credit; refreshes the window by the way."""
        self._send_flow((handle, delivery_count, credit))

    def transfer(self, handle: int, payload: bytes) -> int:
        """Send a whole message; its delivery id.

        Raises:
            HubUnreachable: The peer does not take it: its window is used up, or the message is larger than a frame.
        """
        if self._peer_window <= 0:
            raise HubUnreachable("the hub takes no more messages on this connection")
        delivery = self._next_outgoing
        data = amqp.transfer(handle, delivery, payload)
        if len(data) > self._peer_frame_size:
            raise HubUnreachable(f"a request of {len(data)} bytes does not fit a frame of {self._peer_frame_size}")
        self._next_outgoing = (delivery + 1) & _WRAP
        self._peer_window -= 1
        self._wire.send(data)
        return delivery

    def accept(self, delivery: int) -> None:
        """Settle a delivery that the peer wants settled."""
        self._wire.send(amqp.accept(delivery))

    # --- what comes: see `wire.Peer` ---

    def header(self, data: bytes) -> None:
        """See `wire.Peer`."""
        if self._ready.done() or data != (amqp.AMQP_HEADER if self._sasl_done else amqp.SASL_HEADER):
            raise FrameError(f"the protocol header {data!r} is not expected")
        if self._sasl_done:
            container, idle_ms = f"eventconsumer-{uuid4()}", int(self._idle * 500)
            self._wire.send(amqp.open_connection(container, self._host, MAX_FRAME_SIZE, idle_ms))
            self._wire.send(amqp.begin(WINDOW, HANDLE_MAX))

    def frame(self, kind: int, fields: Fields, payload: bytes) -> None:
        """See `wire.Peer`."""
        if self._sasl_done != (kind == 0):
            raise FrameError(f"a frame of type {kind} is not expected now")
        match fields.code:
            case amqp.SASL_MECHANISMS if not self._sasl_done:
                self._wire.send(amqp.sasl_anonymous(self._host))
            case amqp.SASL_OUTCOME if not self._sasl_done:
                if fields.number(0) != 0:
                    raise FrameError("the hub refuses to sign in without a name")
                self._sasl_done = True
                self._wire.send(amqp.AMQP_HEADER)
            case amqp.OPEN if not self._ready.done():
                self._peer_frame_size = max(_MIN_FRAME_SIZE, fields.number(2, 1 << 20))
                self._peer_idle = fields.number(4, 0) / 1000
            case amqp.BEGIN if not self._ready.done():
                self._next_incoming = fields.number(1) & _WRAP
                self._peer_window = fields.number(2)
                self._handle_max = min(HANDLE_MAX, fields.number(4, HANDLE_MAX))
                self._ready.set_result(None)
                self._tick()
            case amqp.END | amqp.CLOSE:
                self._on_close(fields)
            case _ if self._ready.done() and self._sasl_done:
                self._of_session(fields, payload)
            case _:
                raise FrameError(f"performative {fields.code:#04x} is not expected now")

    def deliveries(self, handle: int, payloads: list[bytes]) -> None:
        """See `wire.Peer`."""
        self._count(len(payloads))
        link = self._by_peer(handle)
        if link is not None:
            link.on_deliveries(payloads)

    def lost(self, reason: str) -> None:
        """See `wire.Peer`."""
        self._fail(HubUnreachable(reason))

    # --- the session ---

    def _of_session(self, fields: Fields, payload: bytes) -> None:
        match fields.code:
            case amqp.TRANSFER:
                self._count(1)
                link = self._by_peer(fields.number(0))
                if link is not None:
                    link.on_transfer(fields, payload)
            case amqp.FLOW:
                self._on_flow(fields)
            case amqp.ATTACH:
                self._on_attach(fields)
            case amqp.DETACH:
                self._on_detach(fields)
            case amqp.DISPOSITION:
                if fields[0] is True:  # of a receiver: about what we sent
                    for link in list(self._links.values()):
                        link.on_outcome(fields.number(1), fields[4])
            case _:
                raise FrameError(f"performative {fields.code:#04x} is not known")

    def _count(self, transfers: int) -> None:
        self._next_incoming = (self._next_incoming + transfers) & _WRAP
        self._window -= transfers
        if self._window < 0:
            raise FrameError("more transfers than the session's window allows")
        if self._window <= WINDOW // 2:
            self._send_flow()

    def _send_flow(self, link: tuple[int, int, int] | None = None) -> None:
        self._window = WINDOW
        self._wire.send(amqp.flow(self._next_incoming, WINDOW, self._next_outgoing, link))

    def _by_peer(self, peer_handle: int) -> Link | None:
        """The link that the peer calls so; None for one that is being closed."""
        handle = self._handles.get(peer_handle)
        if handle is None:
            raise FrameError(f"no link is attached with handle {peer_handle}")
        return self._links.get(handle)

    def _on_flow(self, fields: Fields) -> None:
        expected = fields.number(0, 0)
        self._peer_window = (expected + fields.number(1) - self._next_outgoing) & _WRAP
        if fields[4] is None:
            if fields[9]:
                self._send_flow()
            return
        link = self._by_peer(fields.number(4))
        if link is not None:
            link.on_flow(fields)

    def _on_attach(self, fields: Fields) -> None:
        name = fields.text(0)
        handle = next((number for number, link in self._links.items() if link.name == name), None)
        if handle is None:
            if not self._leaving:
                raise FrameError("the hub attaches a link that was not asked for")
            return  # of a link that was given up meanwhile
        self._handles[fields.number(1)] = handle
        self._links[handle].on_attach(fields)

    def _on_detach(self, fields: Fields) -> None:
        handle = self._handles.pop(fields.number(0), None)
        if handle is None:
            return
        left = self._leaving.pop(handle, None)
        if left is not None:
            if not left.done():
                left.set_result(None)
            return
        link = self._links.pop(handle, None)
        if link is not None:
            self._wire.send(amqp.detach(handle))
            condition, description = fields.error(2)
            link.on_detach(error_for(condition, f"{condition}: {description}" if condition else "the link was closed"))

    # --- life ---

    def _tick(self) -> None:
        """Say something when it is time, and see whether the peer still does."""
        now = self._loop.time()
        if now - self._wire.heard > self._idle:
            self._wire.abort()
            self._fail(HubUnreachable(f"the hub was silent for {self._idle:g} s"))
            return
        step = min(self._idle, self._peer_idle or self._idle) / 4
        if self._peer_idle and now - self._wire.said >= step:
            self._wire.send(amqp.EMPTY_FRAME)
        self._timer = self._loop.call_later(step, self._tick)

    def _on_close(self, fields: Fields) -> None:
        if not self._closed.done():
            self._closed.set_result(None)
        self._wire.send(amqp.close())
        condition, description = fields.error(0)
        text = f"{condition}: {description}" if condition else "the connection was closed by the hub"
        self._fail(error_for(condition, text))

    def _fail(self, error: SourceError) -> None:
        """End, with everything on it."""
        if self._error is not None:
            return
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
        self._wire.close()
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # seen, even where nobody waits
        links, self._links = self._links, {}
        for link in links.values():
            link.on_detach(error)
        for left in self._leaving.values():
            if not left.done():
                left.set_result(None)
        self._leaving.clear()
