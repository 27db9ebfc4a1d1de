"""The session of a connection: its windows, and the links on it.

The window is renewed when half of it is used; the credit of a link limits its waiting deliveries, not the window. All
methods for received frames raise FrameError if a frame is invalid.
"""

import asyncio
from typing import Protocol

from eventconsumer_host.amqp import frames
from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.frames import Fields
from eventconsumer_host.amqp.wire import Deliveries, Wire
from eventconsumer_host.errors import HubUnreachable, SourceError
from eventconsumer_host.source.conditions import error_for

WINDOW = 64 * 1024  # window: transfer frames that the peer may send
HANDLE_MAX = 1023
_WRAP = 0xFFFFFFFF


class Link(Protocol):
    """Interface of a link for its session."""

    name: str

    def attach_frame(self, handle: int) -> bytes:
        """The frame that attaches it."""

    def on_attach(self, fields: Fields) -> None:
        """The peer's attach."""

    def on_flow(self, fields: Fields) -> None:
        """The peer's flow for this link."""

    def on_transfer(self, fields: Fields, payload: bytes) -> None:
        """A transfer of any shape."""

    def on_deliveries(self, found: Deliveries) -> None:
        """Whole, settled deliveries."""

    def on_outcome(self, first: int, last: int, outcome: object) -> None:
        """The outcome of the sent messages with the delivery ids `first` to `last`."""

    def on_window(self) -> None:
        """The peer's window has opened: messages can be sent again."""

    def on_detach(self, error: SourceError) -> None:
        """The link has ended; called once."""


class Session:
    """The one session of a connection."""

    def __init__(self, wire: Wire) -> None:
        self._peer_frame_size = 0  # bytes that the peer accepts in a frame
        self._wire = wire
        self._error: SourceError | None = None
        self._handle_max = HANDLE_MAX
        self._links: dict[int, Link] = {}  # by our handle
        self._handles: dict[int, int] = {}  # ours, by the peer's
        # Links that we detached and the peer did not yet, by our handle: their names, and futures of the peer's detach.
        self._leaving: dict[int, tuple[str, asyncio.Future[None]]] = {}
        self._next_incoming = 0
        self._window = WINDOW  # remaining transfers of the peer's window
        self._next_outgoing = 0
        self._peer_window = 0

    def limit_frames(self, size: int) -> None:
        """Record how many bytes the peer accepts in a frame."""
        self._peer_frame_size = size

    @property
    def is_full(self) -> bool:
        """Whether no handle is free."""
        return len(self._links) + len(self._leaving) > self._handle_max

    def begin(self, fields: Fields) -> None:
        """The peer's begin."""
        self._next_incoming = fields.number(1) & _WRAP
        self._peer_window = fields.number(2)
        self._handle_max = min(HANDLE_MAX, fields.number(4, HANDLE_MAX))

    def end(self, error: SourceError) -> None:
        """The connection has ended, and every link with it."""
        self._error = error
        links, self._links = self._links, {}
        for link in links.values():
            link.on_detach(error)
        for _, left in self._leaving.values():
            if not left.done():
                left.set_result(None)
        self._leaving.clear()

    # --- for links ---

    def attach(self, link: Link) -> int:
        """Attach a link; returns its handle.

        Raises:
            SourceError: The connection has ended, or has no free handle.
        """
        if self._error is not None:
            raise self._error
        used = self._links.keys() | self._leaving.keys()
        handle = next((number for number in range(self._handle_max + 1) if number not in used), None)
        if handle is None:
            raise HubUnreachable(f"a connection has at most {self._handle_max + 1} links")
        self._links[handle] = link
        self._wire.send(link.attach_frame(handle))
        return handle

    def detach(self, handle: int, link: Link) -> asyncio.Future[None] | None:
        """Close a link; returns a future of the peer's detach, None if it has already ended."""
        if self._links.get(handle) is not link:
            return None
        del self._links[handle]
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leaving[handle] = link.name, left
        self._wire.send(frames.detach(handle))
        return left

    def flow(self, handle: int, delivery_count: int, credit: int) -> None:
        """Set a link's credit; also renews the window."""
        self._send_flow((handle, delivery_count, credit))

    @property
    def can_send(self) -> bool:
        """Whether the peer's window is open; when it opens, `Link.on_window` is called."""
        return self._peer_window > 0

    def transfer(self, handle: int, payload: bytes) -> int:
        """Send a complete message while `can_send`; returns its delivery id.

        Raises:
            HubUnreachable: The message exceeds a frame.
        """
        delivery = self._next_outgoing
        data = frames.transfer(handle, delivery, payload)
        if len(data) > self._peer_frame_size:
            raise HubUnreachable(f"a request of {len(data)} bytes exceeds the frame size of {self._peer_frame_size}")
        self._next_outgoing = (delivery + 1) & _WRAP
        self._peer_window -= 1
        self._wire.send(data)
        return delivery

    def accept(self, delivery: int) -> None:
        """Settle a delivery."""
        self._wire.send(frames.accept(delivery))

    # --- incoming frames ---

    def deliveries(self, handle: int, found: Deliveries) -> None:
        """Whole, settled deliveries on the link with the peer's handle `handle`."""
        self._count(len(found))
        link = self._by_peer(handle)
        if link is not None:
            link.on_deliveries(found)

    def frame(self, fields: Fields, payload: bytes) -> None:
        """A frame of the session or of a link."""
        match fields.code:
            case frames.TRANSFER:
                self._count(1)
                link = self._by_peer(fields.number(0))
                if link is not None:
                    link.on_transfer(fields, payload)
            case frames.FLOW:
                self._on_flow(fields)
            case frames.ATTACH:
                self._on_attach(fields)
            case frames.DETACH:
                self._on_detach(fields)
            case frames.DISPOSITION:
                if fields[0] is True:  # from a receiver: outcome of our messages
                    first = fields.number(1)
                    for link in list(self._links.values()):
                        link.on_outcome(first, fields.number(2, first), fields[4])
            case _:
                raise FrameError(f"unknown performative {fields.code:#04x}")

    def _count(self, transfers: int) -> None:
        self._next_incoming = (self._next_incoming + transfers) & _WRAP
        self._window -= transfers
        if self._window < 0:
            raise FrameError("more transfers than the session's window allows")
        if self._window <= WINDOW // 2:
            self._send_flow()

    def _send_flow(self, link: tuple[int, int, int] | None = None) -> None:
        self._window = WINDOW
        self._wire.send(frames.flow(self._next_incoming, WINDOW, self._next_outgoing, link))

    def _by_peer(self, peer_handle: int) -> Link | None:
        """The link with the peer's handle; None if it is being closed."""
        handle = self._handles.get(peer_handle)
        if handle is None:
            raise FrameError(f"no link is attached with handle {peer_handle}")
        return self._links.get(handle)

    def _on_flow(self, fields: Fields) -> None:
        window = (fields.number(0, 0) + fields.number(1) - self._next_outgoing) & _WRAP
        was_closed, self._peer_window = not self.can_send, window if window <= _WRAP // 2 else 0  # it may shrink
        if was_closed and self.can_send:
            for sender in list(self._links.values()):
                sender.on_window()
        if fields[4] is None:
            if fields[9]:
                self._send_flow()
            return
        link = self._by_peer(fields.number(4))
        if link is not None:
            link.on_flow(fields)

    def _on_attach(self, fields: Fields) -> None:
        known = {link.name: number for number, link in self._links.items()}
        late = {name: number for number, (name, _) in self._leaving.items()}
        handle = {**late, **known}.get(fields.text(0))
        if handle is None:
            raise FrameError("the hub attaches a link that was not requested")
        self._handles[fields.number(1)] = handle
        link = self._links.get(handle)
        if link is not None:
            link.on_attach(fields)
        # Else we detached it before this late answer. The peer's detach follows, and frees the handle.

    def _on_detach(self, fields: Fields) -> None:
        handle = self._handles.pop(fields.number(0), None)
        if handle is None:
            return
        leaving = self._leaving.pop(handle, None)
        if leaving is not None:
            if not leaving[1].done():
                leaving[1].set_result(None)
            return
        link = self._links.pop(handle, None)
        if link is not None:
            self._wire.send(frames.detach(handle))
            condition, description = fields.error(2)
            link.on_detach(error_for(condition, f"{condition}: {description}" if condition else "the link was closed"))
