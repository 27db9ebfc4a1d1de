"""Links, which transfer messages in one direction between a client and a node.

``Incoming`` joins transfers into messages, limited by the maximum message size, and gives credit; ``Outgoing`` sends
within the client's credit and the session's window, and splits large messages into frames. ``nodes`` handles the
messages.
"""

from collections import deque
from typing import Any

from .contexts import SessionContext
from .errors import DecodeError, LinkFailed
from .framing import frame
from .performatives import ACCEPTED, Attach, Detach, Disposition, Flow, Transfer, error_value, full_terminus, rejected

MAX_MESSAGE_SIZE = 20 * 1024 * 1024
"""Bytes; the limit of a dedicated cluster. It is 1 MB in the other tiers."""
CREDIT = 1000
"""Transfers that a client may send ahead."""
SETTLED = 1
"""The sender settle mode of Event Hubs for readers: no delivery waits for a disposition."""
TAG_SIZE = 16
"""Bytes of a delivery tag, as in Event Hubs."""


class Link:
    """A link, attached until ``detach`` or the client's own detach.

    Args:
        session: the session it belongs to.
        attach: the client's attach.
    """

    def __init__(self, session: SessionContext, attach: Attach) -> None:
        self.session = session
        self.connection = session.connection
        self.name = attach.name
        self.handle = attach.handle
        self.attached = True

    def attach_reply(self, attach: Attach) -> Attach:
        """The response to the client's attach: the same fields, with the opposite role.

        Source and target are never null: to clients, null means a refusal.
        """
        return Attach(
            name=attach.name,
            handle=attach.handle,
            role=not attach.role,
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=attach.rcv_settle_mode,
            source=full_terminus(attach.source, 0x28, 11),
            target=full_terminus(attach.target, 0x29, 7),
            initial_delivery_count=0 if attach.role else None,
            max_message_size=MAX_MESSAGE_SIZE,
            properties=attach.properties,
        )

    def opened(self) -> None:
        """Called after the response to the attach is queued."""

    def on_flow(self, flow: Flow) -> None:
        """Handles the client's credit or echo request."""

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Handles a message or a part of one."""
        raise LinkFailed("amqp:not-allowed", f"link '{self.name}' sends to the client and cannot receive")

    def pump(self, budget: int) -> int:
        """Sends pending deliveries, up to about ``budget`` bytes; returns the number of bytes."""
        return 0

    def tick(self, now: float) -> None:
        """Checks the clock (seconds since the epoch)."""

    def detach(self, error: LinkFailed) -> None:
        """Detaches the link with an error."""
        if self.attached:
            self.session.detach(self, Detach(self.handle, True, error_value(error)))
            self.connection.log("link detached", self, error)
            self.connection.wake()

    def close(self) -> None:
        """Releases all resources; called exactly once, on every end of the link."""
        self.attached = False


class Incoming(Link):
    """A link on which the client sends."""

    max_message_size = MAX_MESSAGE_SIZE

    def __init__(self, session: SessionContext, attach: Attach) -> None:
        super().__init__(session, attach)
        self.delivery_count = attach.initial_delivery_count or 0
        self.credit = 0
        self._first: Transfer | None = None
        self._parts: list[bytes] = []
        self._size = 0

    def opened(self) -> None:
        """Gives the first credit."""
        self._give_credit()

    def _give_credit(self) -> None:
        self.credit = CREDIT
        self.session.send_flow(self.handle, self.delivery_count, self.credit)

    def on_flow(self, flow: Flow) -> None:
        """Responds to an echo request."""
        if flow.echo:
            self.session.send_flow(self.handle, self.delivery_count, self.credit)

    def on_transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Collects the parts of a message and passes it on when it is complete."""
        if self._first is None:
            self._first = transfer
        first = self._first
        if transfer.aborted:
            self._clear()
            self._count()
            return
        self._size += len(payload)
        self.connection.hold(len(payload))
        if self._size > self.max_message_size:
            raise LinkFailed(
                "amqp:link:message-size-exceeded",
                f"The received message (delivery-id:{first.delivery_id}, size:{self._size} bytes) exceeds the limit "
                f"({self.max_message_size} bytes) currently allowed on the link.",
            )
        self._parts.append(payload)
        if transfer.more:
            return
        message = payload if len(self._parts) == 1 else b"".join(self._parts)
        self._clear()
        self._count()
        settled = bool(first.settled or transfer.settled)
        outcome: Any = ACCEPTED
        try:
            self.on_message(message, first.message_format or 0)
        except (LinkFailed, DecodeError) as error:
            outcome = rejected(error)
        if not settled and first.delivery_id is not None and self.attached:
            self.session.send(Disposition(True, first.delivery_id, first.delivery_id, True, outcome))

    def on_message(self, message: bytes, message_format: int) -> None:
        """Handles a complete message.

        Raises:
            LinkFailed: the delivery is rejected with this error; the link stays.
            DecodeError: the same.
        """
        raise NotImplementedError

    def _count(self) -> None:
        self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF
        self.credit -= 1
        if self.credit <= CREDIT // 2:
            self._give_credit()

    def _clear(self) -> None:
        self.connection.hold(-self._size)
        self._first, self._parts, self._size = None, [], 0

    def close(self) -> None:
        """Drops an unfinished message."""
        super().close()
        self._clear()


class Outgoing(Link):
    """A link on which the client receives."""

    def __init__(self, session: SessionContext, attach: Attach) -> None:
        super().__init__(session, attach)
        self.credit = 0
        self.delivery_count = 0
        self.draining = False
        self._frames: deque[bytes] = deque()

    def attach_reply(self, attach: Attach) -> Attach:
        """Event Hubs uses the settled mode for receivers."""
        reply = super().attach_reply(attach)
        reply.snd_settle_mode = SETTLED
        return reply

    def on_flow(self, flow: Flow) -> None:
        """Handles the client's credit."""
        if flow.link_credit is not None:
            limit = (flow.delivery_count or 0) + flow.link_credit
            credit = (limit - self.delivery_count) & 0xFFFFFFFF
            # A client that lowered its credit below the deliveries in flight has none left.
            self.credit = credit if credit < 1 << 31 else 0
        self.draining = bool(flow.drain)
        if flow.echo:
            self.session.send_flow(self.handle, self.delivery_count, self.credit)

    def enqueue(self, payload: bytes) -> int:
        """Splits a message into frames and queues them; uses one credit.

        Returns:
            Bytes queued.
        """
        session = self.session
        delivery = session.take_delivery_id()
        tag = delivery.to_bytes(TAG_SIZE, "big")
        room = self.connection.peer_max_frame_size - 64
        size = 0
        for start in range(0, len(payload) or 1, room):
            part = payload[start : start + room]
            more = start + room < len(payload)
            head = Transfer(self.handle, delivery, tag, 0, True, more, None, None, False, False, False)
            self._frames.append(frame(session.channel, head.encode() + part))
            size += len(part)
        self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF
        self.credit -= 1
        return size

    def flush(self) -> int:
        """Sends queued frames within the session's window; returns the number of bytes."""
        size = 0
        while self._frames and self.session.take_window():
            size += len(self._frames[0])
            self.connection.output.append(self._frames.popleft())
        return size

    @property
    def blocked(self) -> bool:
        """Whether frames wait for the session's window."""
        return bool(self._frames)

    def finish_drain(self) -> None:
        """Returns the remaining credit of a draining client."""
        if self.draining and not self.blocked:
            self.draining = False
            self.delivery_count = (self.delivery_count + self.credit) & 0xFFFFFFFF
            self.credit = 0
            self.session.send_flow(self.handle, self.delivery_count, 0, drain=True)
