"""A session: its links by handle, and the window of transfers that the client can take.

The server uses the client's handles and channels as its own: they are unique at the client. The client's window is
respected frame by frame, because clients refresh it only when it is used up; the server's own window is refreshed when
half of it is used, and not enforced: clients count messages, but the protocol counts frames.
"""

from .contexts import ConnectionContext
from .errors import AmqpError, ConnectionFailed, LinkFailed, SessionFailed
from .framing import frame
from .links import Link, Outgoing
from .nodes import create_link
from .performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
    error_value,
)

WINDOW = 5000
"""Transfer frames that a client may send ahead."""
HANDLE_MAX = 255
"""The highest handle, as in Event Hubs."""


class Session:
    """A session.

    Args:
        connection: the connection it belongs to.
        channel: its channel, in both directions.
        begin: the client's begin.
    """

    def __init__(self, connection: ConnectionContext, channel: int, begin: Begin) -> None:
        self.connection = connection
        self.channel = channel
        self.links: dict[int, Link] = {}
        self.ended = False
        self._detaching: set[int] = set()
        self._late: dict[int, Attach] = {}  # attaches without an answer yet, by handle
        self._late_detached: set[int] = set()  # those that the client has detached meanwhile
        self._next_incoming = begin.next_outgoing_id
        self._incoming_window = WINDOW
        self._next_outgoing = 1
        self._client_window = begin.incoming_window
        self._next_delivery = 0
        self.send(Begin(channel, self._next_outgoing, WINDOW, WINDOW, HANDLE_MAX))

    # Sending

    def send(self, performative: Performative) -> None:
        """Queues a frame."""
        self.connection.output.append(frame(self.channel, performative.encode()))

    def send_flow(
        self, handle: int | None = None, count: int | None = None, credit: int | None = None, drain: bool = False
    ) -> None:
        """Queues the session's window, and a link's credit if there is a handle."""
        self.send(
            Flow(
                next_incoming_id=self._next_incoming,
                incoming_window=self._incoming_window,
                next_outgoing_id=self._next_outgoing,
                outgoing_window=WINDOW,
                handle=handle,
                delivery_count=count,
                link_credit=credit,
                available=0,
                drain=drain,
                echo=False,
            )
        )

    @property
    def window(self) -> int:
        """Transfer frames that the client accepts now."""
        return self._client_window

    def take_window(self, frames: int = 1) -> bool:
        """Uses up some of the client's window, if it is large enough."""
        if self._client_window < frames:
            return False
        self._client_window -= frames
        self._next_outgoing = (self._next_outgoing + frames) & 0xFFFFFFFF
        return True

    def take_delivery_id(self, count: int = 1) -> int:
        """The first of ``count`` new delivery ids."""
        first = self._next_delivery
        self._next_delivery = (first + count) & 0xFFFFFFFF
        return first

    # Receiving

    def on_frame(self, performative: Performative, payload: bytes) -> None:
        """Handles a frame on this session's channel."""
        try:
            match performative:
                case Transfer():
                    self._on_transfer(performative, payload)
                case Flow():
                    self._on_flow(performative)
                case Attach():
                    self._on_attach(performative)
                case Detach():
                    self._on_detach(performative)
                case Disposition():
                    # All transfers of the server are settled already.
                    pass
                case End():
                    self.end()
                case _:
                    raise ConnectionFailed(
                        "amqp:not-allowed",
                        f"a {type(performative).__name__.lower()} is not allowed on the open channel {self.channel}",
                    )
        except SessionFailed as error:
            self.end(error)

    def _on_attach(self, attach: Attach) -> None:
        if attach.handle in self.links:
            raise SessionFailed("amqp:session:handle-in-use", f"handle {attach.handle} is in use")
        if attach.handle > HANDLE_MAX:
            raise ConnectionFailed("amqp:connection:framing-error", f"handle {attach.handle} exceeds {HANDLE_MAX}")
        self._detaching.discard(attach.handle)
        try:
            link = create_link(self, attach)
        except LinkFailed as error:
            # Attach with null source and target, then detach: the client does not use the link before it has read the
            # error.
            self.send(Attach(attach.name, attach.handle, not attach.role))
            self.send(Detach(attach.handle, True, error_value(error)))
            self._detaching.add(attach.handle)
            self.connection.log("link refused", attach, error)
            return
        self.links[attach.handle] = link
        self._late[attach.handle] = attach
        self.answer_late()

    def answer_late(self) -> None:
        """Answers the attaches that no fault delays any more, and the detaches that followed them."""
        faults = self.connection.broker.faults
        for handle in tuple(self._late):
            link = self.links[handle]
            endpoint = getattr(link, "endpoint", None)
            if endpoint is not None and faults.is_late(endpoint):
                continue
            self._answer(link)
            if handle in self._late_detached:
                self.detach(link, Detach(handle, True))

    def _answer(self, link: Link) -> None:
        attach = self._late.pop(link.handle, None)
        if attach is not None:
            self.send(link.attach_reply(attach))
            link.opened()
            self.connection.log("link attached", link)

    def _on_detach(self, detach: Detach) -> None:
        link = self.links.get(detach.handle)
        if detach.handle in self._late:
            self._late_detached.add(detach.handle)
            return
        if link is not None:
            self.detach(link, Detach(detach.handle, bool(detach.closed)))
            self.connection.log("link closed", link)
        self._detaching.discard(detach.handle)

    def detach(self, link: Link, detach: Detach) -> None:
        """Ends a link and notifies the client."""
        self._answer(link)  # an attach comes before its detach
        self._late_detached.discard(link.handle)
        del self.links[link.handle]
        self._detaching.add(link.handle)
        link.close()
        self.send(detach)

    def _link(self, handle: int) -> Link | None:
        link = self.links.get(handle)
        if link is None and handle not in self._detaching:
            raise SessionFailed("amqp:session:unattached-handle", f"no link is attached with handle {handle}")
        return link

    def _on_flow(self, flow: Flow) -> None:
        expected = 1 if flow.next_incoming_id is None else flow.next_incoming_id
        window = (expected + flow.incoming_window - self._next_outgoing) & 0xFFFFFFFF
        self._client_window = window if window < 1 << 31 else 0
        if flow.handle is not None:
            link = self._link(flow.handle)
            if link is not None:
                link.on_flow(flow)
        elif flow.echo:
            self.send_flow()

    def _on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        self._next_incoming = (self._next_incoming + 1) & 0xFFFFFFFF
        self._incoming_window -= 1
        if self._incoming_window <= WINDOW // 2:
            self._incoming_window = WINDOW
            self.send_flow()
        link = self._link(transfer.handle)
        if link is None:
            return
        try:
            link.on_transfer(transfer, payload)
        except LinkFailed as error:
            link.detach(error)

    def outgoing(self) -> list[Outgoing]:
        """The links on which the client receives."""
        return [link for link in self.links.values() if isinstance(link, Outgoing) and link.handle not in self._late]

    def end(self, error: AmqpError | None = None) -> None:
        """Ends the session and its links, and notifies the client."""
        if not self.ended:
            self.close()
            self.send(End(error_value(error) if error else None))
            if error is not None:
                self.connection.log("session ended", None, error)

    def close(self) -> None:
        """Closes every link."""
        self.ended = True
        for link in tuple(self.links.values()):
            link.close()
        self.links.clear()
        self._late.clear()
