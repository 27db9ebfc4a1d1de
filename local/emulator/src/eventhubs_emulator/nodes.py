"""The nodes of links: maps an address to a reader, a producer or a service.

    <hub>/ConsumerGroups/<group>/Partitions/<id>    a reader of a partition
    <hub>                                           a producer; the partition is chosen by key or round robin
    <hub>/Partitions/<id>                           a producer to one partition
    $cbs, $management                               a pair of links for requests and replies

The reader is the hot path: an event's bytes are not changed, a transfer's head is packed by one precompiled struct, and
a whole slice of the log is sent in one write.
"""

import struct
from typing import Any

from .contexts import SessionContext
from .errors import LinkFailed
from .faults import Endpoint
from .hub import Stored
from .links import TAG_SIZE, Incoming, Link, Outgoing
from .messages import parse_publication, runtime_metrics
from .performatives import Attach, address_of, selector_of
from .positions import parse_selector, start_of
from .services import SERVICES, ReplyLink, RequestLink
from .tokens import LISTEN, SEND

EPOCH = "com.microsoft:epoch"
RECEIVER_NAME = "com.microsoft:receiver-name"
RUNTIME_METRIC = "com.microsoft:enable-receiver-runtime-metric"
IDLE_SECONDS = 30 * 60
"""A reader without credit is detached after this time, as in Event Hubs."""
READ_AHEAD = 512
"""Events taken from the log at a time."""


def create_link(session: SessionContext, attach: Attach) -> Link:
    """The link for a client's attach.

    Raises:
        LinkFailed: the node does not exist, or the client may not use it.
    """
    address = address_of(attach.source if attach.role else attach.target) or ""
    path = (address.split("://", 1)[1].partition("/")[2] if "://" in address else address).strip("/")
    service = path.rsplit("/", 1)[-1].lower()
    if service in SERVICES:
        return ReplyLink(session, attach, service) if attach.role else RequestLink(session, attach, service)
    match path.split("/"):
        case [hub, groups, group, partitions, partition] if (
            attach.role and groups.lower() == "consumergroups" and partitions.lower() == "partitions"
        ):
            return Reader(session, attach, path, hub_name=hub, group=group, partition_id=partition)
        case [hub, partitions, partition] if not attach.role and partitions.lower() == "partitions":
            return Producer(session, attach, path, hub_name=hub, partition_id=partition)
        case [hub] if hub and not attach.role:
            return Producer(session, attach, path, hub_name=hub, partition_id=None)
    raise LinkFailed(
        "amqp:not-found",
        f"The messaging entity '{path}' could not be found: receive from <hub>/ConsumerGroups/<group>/Partitions/<id>, "
        "send to <hub> or <hub>/Partitions/<id>.",
    )


class Reader(Outgoing):
    """A reader of one partition in one consumer group."""

    def __init__(
        self, session: SessionContext, attach: Attach, path: str, *, hub_name: str, group: str, partition_id: str
    ) -> None:
        super().__init__(session, attach)
        connection, broker = self.connection, self.connection.broker
        self.path, self.right = path.lower(), LISTEN
        connection.authorize(self.path, self.right)
        hub, self.partition = broker.reader_partition(hub_name, group, partition_id)
        self.endpoint = Endpoint("reader", hub.name, partition_id, group, connection.number)
        epoch = (attach.properties or {}).get(EPOCH)
        self.epoch: int | None = epoch if isinstance(epoch, int) else None
        receiver_name = (attach.properties or {}).get(RECEIVER_NAME)
        self.receiver_name = receiver_name if isinstance(receiver_name, str) else ""
        self.metrics = RUNTIME_METRIC in attach.desired_capabilities
        start = start_of(parse_selector(selector_of(attach.source)), self.partition)
        self.position = max(0, start - broker.faults.early_by(self.endpoint))
        self.sent = 0
        self._credit_at = broker.clock() / 1000  # when the reader last had credit
        channel, handle = session.channel.to_bytes(2, "big"), self.handle.to_bytes(4, "big")
        # size | doff, type, channel, transfer list of 11: handle, | delivery-id | tag | format 0, settled, the rest
        before = b"\x02\x00" + channel + b"\x00\x53\x14\xc0\x25\x0b\x70" + handle + b"\x70"
        between, after = b"\xa0\x10" + bytes(TAG_SIZE - 4), b"\x43\x41\x42\x40\x40\x42\x42\x42"
        self._head = struct.Struct(f">I{len(before)}sI{len(between)}sI{len(after)}s")
        self._fixed = (before, between, after)
        broker.admit(self)
        self.partition.listeners.add(connection.wake)

    def attach_reply(self, attach: Attach) -> Attach:
        """Confirms the runtime metrics, if the client requested them."""
        reply = super().attach_reply(attach)
        reply.offered_capabilities = (RUNTIME_METRIC,) if self.metrics else ()
        return reply

    def pump(self, budget: int) -> int:
        """Sends events of the log while there are events, credit, window and budget."""
        size = self.flush()
        session, faults = self.session, self.connection.broker.faults
        if not self.attached or self.blocked or (faults.frozen and faults.is_frozen(self.endpoint)):
            return size
        while size < budget and not self.blocked and (count := min(self.credit, session.window, READ_AHEAD)) > 0:
            events = self.partition.read(self.position, count)
            if not events:
                break
            size += self._send(events, budget - size)
        if self.draining and self.partition.last_sequence_number < self.position:
            self.finish_drain()
        return size

    def _send(self, events: list[Stored], budget: int) -> int:
        """Sends events in order until the budget is used up or the window is closed."""
        output, pack, limit = self.connection.output, self._head.pack, self.connection.peer_max_frame_size
        before, between, after = self._fixed
        overhead, metrics = self._head.size, self._metrics() if self.metrics else b""
        session, size, sent = self.session, 0, 0
        delivery = session.take_delivery_id(0)
        for event in events:
            if size >= budget:
                break
            payload = event.payload
            if metrics:
                payload = payload[: event.insert] + metrics + payload[event.insert :]
            length = len(payload) + overhead
            if length > limit:
                break
            output.append(pack(length, before, delivery, between, delivery, after))
            output.append(payload)
            delivery = (delivery + 1) & 0xFFFFFFFF
            size += length
            sent += 1
        if sent:
            session.take_delivery_id(sent)
            session.take_window(sent)
            self.delivery_count = (self.delivery_count + sent) & 0xFFFFFFFF
            self.credit -= sent
        elif size < budget:
            event = events[0]
            payload = event.payload[: event.insert] + metrics + event.payload[event.insert :]
            self.enqueue(payload)
            size, sent = self.flush(), 1
        self.position = events[sent - 1].sequence_number + 1
        self.sent += sent
        self.connection.broker.counters["events_out"] += sent
        return size

    def _metrics(self) -> bytes:
        partition = self.partition
        return runtime_metrics(
            partition.last_sequence_number,
            partition.last_offset,
            partition.last_enqueued_ms,
            self.connection.broker.clock(),
        )

    def seek(self, sequence_number: int) -> None:
        """Continues from another sequence number, so that events are sent again or skipped."""
        self.position = sequence_number
        self.connection.wake()

    def tick(self, now: float) -> None:
        """Detaches the reader when its token has expired, or when it had no credit for a long time."""
        if self.credit:
            self._credit_at = now
        if now - self._credit_at > IDLE_SECONDS:
            self.detach(
                LinkFailed("amqp:link:detach-forced", f"The link had no credit for more than {IDLE_SECONDS} seconds.")
            )
            return
        _check_token(self, now)

    def describe(self) -> dict[str, Any]:
        """The reader's state for the admin API."""
        return {
            **_describe(self),
            "epoch": self.epoch,
            "name": self.receiver_name,
            "position": self.position,
            "events": self.sent,
        }

    def close(self) -> None:
        """Removes the reader from the partition's readers."""
        super().close()
        self.connection.broker.forget(self)
        if not any(
            link.partition is self.partition
            for session in self.connection.sessions.values()
            for link in session.links.values()
            if isinstance(link, Reader) and link.attached
        ):
            self.partition.listeners.discard(self.connection.wake)


class Producer(Incoming):
    """A producer to a hub or to one of its partitions."""

    epoch: int | None = None
    receiver_name = ""

    def __init__(
        self, session: SessionContext, attach: Attach, path: str, *, hub_name: str, partition_id: str | None
    ) -> None:
        super().__init__(session, attach)
        connection, broker = self.connection, self.connection.broker
        self.path, self.right = path.lower(), SEND
        connection.authorize(self.path, self.right)
        self.hub = broker.producer_hub(hub_name)
        self.partition = None if partition_id is None else broker.link_partition(self.hub, partition_id)
        self.endpoint = Endpoint("producer", self.hub.name, partition_id, None, connection.number)
        self.sent = 0
        broker.admit(self)

    def on_message(self, message: bytes, message_format: int) -> None:
        """Publishes an event or a batch."""
        broker = self.connection.broker
        broker.faults.check_busy(self.endpoint)
        events = parse_publication(message, message_format)
        broker.publish(self.hub, self.partition, events)
        self.sent += len(events)

    def seek(self, sequence_number: int) -> None:
        """A producer has no position."""

    def tick(self, now: float) -> None:
        """Detaches the producer when its token has expired."""
        _check_token(self, now)

    def describe(self) -> dict[str, Any]:
        """The producer's state for the admin API."""
        return {**_describe(self), "events": self.sent}

    def close(self) -> None:
        """Removes the producer."""
        super().close()
        self.connection.broker.forget(self)


def _check_token(link: Reader | Producer, now: float) -> None:
    """Detaches a link whose token has expired, with the condition and text of Event Hubs.

    Source: the trace in https://github.com/Azure/azure-sdk-for-python/issues/5314.
    """
    if not link.connection.has_right(link.path, link.right, now):
        link.detach(
            LinkFailed(
                "amqp:link:detach-forced",
                f"Unauthorized access. '{link.right}' claim(s) are required to perform this operation. "
                f"Resource: '{link.path}'.",
            )
        )


def _describe(link: Reader | Producer) -> dict[str, Any]:
    endpoint = link.endpoint
    return {
        "kind": endpoint.kind,
        "hub": endpoint.hub,
        "partition": endpoint.partition,
        "group": endpoint.group,
        "connection": endpoint.connection,
        "container": link.connection.container_id,
        "link": link.name,
        "credit": link.credit,
    }
