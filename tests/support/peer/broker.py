"""The broker: one Proton engine per connection.

Proton's engine has no sockets: bytes are pushed into its transport, and popped from it. A delivery is written with one
`stream` per transfer, with the transport flushed between them, so that its shape on the wire is known.
"""

import asyncio
import re
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import proton
from proton import Array, Collector, Condition, Data, Message, Transport, int32, symbol, timestamp, uint

from tests.support.peer import codec
from tests.support.peer.hub import Hub, Partition, Refused, offset_of, time_of
from tests.support.peer.wire import Wire

_PATH = re.compile(r"(?:amqps?://[^/]+/)?([^/]+)/ConsumerGroups/([^/]+)/Partitions/([^/]+)")
_EPOCH = symbol("com.microsoft:epoch")
_SERVICES = ("$cbs", "$management")
_ATTACH = 0x12
_AT_ONCE = 200  # events that are written before other work is done
_TICK_SECONDS = 1.0


class Reader:
    """A link that reads a partition."""

    def __init__(self, client: "Client", link: proton.Sender, partition: Partition, hub: str) -> None:
        self.client = client
        self.link = link
        self.partition = partition
        self.hub = hub
        self.epoch: int | None = (link.remote_properties or {}).get(_EPOCH)
        self.next = 0
        self.frozen = False
        self.sent = 0  # deliveries, with aborted ones
        self.skipped = 0  # credit that was drained without a delivery

    @property
    def credit(self) -> int:
        """Deliveries that it may get."""
        return self.link.credit - self.skipped

    def pump(self) -> None:
        """Send what there is credit for."""
        wire, partition = self.client.wire, self.partition
        for _ in range(_AT_ONCE):
            if self.frozen or self.client.is_full or self.credit <= 0 or self.next > partition.last:
                return
            self.next = max(self.next, partition.start)
            message = partition.message(self.next)
            if wire.abort_every and self.next % wire.abort_every == 0 and self.credit > 1:
                self._send(message, aborted=True)
            self._send(message)
            self.next += 1
        self.client.soon(self.client.work)

    def _send(self, message: bytes, *, aborted: bool = False) -> None:
        wire = self.client.wire
        tag = self.sent.to_bytes(8, "big").rjust(wire.tag_bytes, b"t")[-wire.tag_bytes :] if wire.tag_bytes else b""
        self.sent += 1
        delivery = self.link.delivery(tag)
        step = wire.split or len(message)
        for start in range(0, len(message), step):
            self.link.stream(message[start : start + step])
            if wire.split or aborted:
                self.client.flush()
            if aborted:
                delivery.abort()
                self.client.flush()
                return
        if wire.unsettled:
            self.link.advance()
        else:
            delivery.settle()  # which completes it; transfers that were flushed before are not settled

    def drain(self) -> None:
        """Use up all credit without deliveries, which the reader did not ask for."""
        credit = self.credit
        self.client.flush()
        self.skipped += credit
        flow = [
            uint(self.client.requests),
            uint(5000),
            uint(self.client.transfers),
            uint(5000),
            uint(self.client.handles[self.link.name]),
            uint(self.sent + self.skipped),
            uint(0),
            uint(0),
            True,
        ]
        self.client.write(codec.frame(codec.section(0x13, flow)))


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.wire = broker.wire
        self.readers: list[Reader] = []
        self.services: dict[str, list[proton.Link]] = {name: [] for name in _SERVICES}
        self.requests = 0  # transfers from the client
        self.transfers = 0  # transfers to the client
        self.handles: dict[str, int] = {}  # the broker's, by name of the link
        self.client_handles: list[int] = []  # the client's, in the order of its attaches
        self.is_full = False
        self.signed_in = False
        self.expired = False  # its token is no longer valid, whatever it puts
        self._socket: asyncio.WriteTransport | None = None
        self._loop = asyncio.get_running_loop()
        self._incoming, self._outgoing = _Frames(self._received), _Frames(self._sent)
        self._collector = Collector()
        self._engine = proton.Connection()
        self._engine.collect(self._collector)
        self._transport = Transport(Transport.SERVER)
        self._transport.sasl().allowed_mechs("ANONYMOUS")
        self._transport.max_frame_size = self.wire.max_frame
        self._transport.channel_max = 4999
        self._transport.idle_timeout = 240.0
        self._transport.bind(self._engine)

    # --- asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._socket = transport
        self.broker.clients.append(self)
        self._tick()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._socket = None
        if self in self.broker.clients:
            self.broker.clients.remove(self)
        self.readers.clear()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._incoming.feed(data)
        while data and (room := self._transport.capacity()) > 0:
            self._transport.push(data[:room])
            data = data[room:]
            self.work()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.is_full = True

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self.is_full = False
        self.work()

    def soon(self, work: Callable[[], None], seconds: float = 0.0) -> None:
        """Do something after other work."""
        self._loop.call_later(seconds, work)

    def _tick(self) -> None:
        if self._socket is not None:
            self._transport.tick(time.monotonic())
            self.work()
            self._loop.call_later(_TICK_SECONDS, self._tick)

    # --- the engine ---

    def work(self) -> None:
        """Handle all events, send what can be sent, and write it."""
        if self._socket is None:
            return
        while (event := self._collector.peek()) is not None:
            handle = getattr(self, event.type.method, None)
            if handle is not None:
                handle(event)
            self._collector.pop()
        for reader in self.readers:
            reader.pump()
        self.flush()

    def flush(self) -> None:
        """Write all that the engine has to say."""
        while (size := self._transport.pending()) > 0:
            data = bytes(self._transport.peek(size))
            self._transport.pop(len(data))
            self.write(data)
        if size < 0 and self._socket is not None:
            self._socket.close()

    def write(self, data: bytes) -> None:
        """Write bytes to the client."""
        self._outgoing.feed(data)
        if self._socket is not None:
            self._socket.write(data)

    def abort(self) -> None:
        """Lose the connection."""
        if self._socket is not None:
            self._socket.abort()

    def _received(self, code: int, body: bytes) -> None:
        if code == _ATTACH:
            self.client_handles.append(int(codec.decode(body)[0].value[1]))
        elif code == 0x14:
            self.requests += 1

    def _sent(self, code: int, body: bytes) -> None:
        if code == _ATTACH:
            fields = codec.decode(body)[0].value
            self.handles[fields[0]] = int(fields[1])
        elif code == 0x14:
            self.transfers += 1

    # --- events: the names are those of Proton ---

    def on_connection_remote_open(self, event: proton.Event) -> None:
        self._engine.container = f"{uuid4().hex}_G9"
        self._engine.open()

    def on_connection_remote_close(self, event: proton.Event) -> None:
        self._engine.close()

    def on_session_remote_open(self, event: proton.Event) -> None:
        session = event.session
        if self.wire.window:
            session.incoming_capacity = self.wire.window * self.wire.max_frame
        session.open()

    def on_session_remote_close(self, event: proton.Event) -> None:
        event.session.close()

    def on_link_remote_open(self, event: proton.Event) -> None:
        link = event.link
        address = (link.remote_source if link.is_sender else link.remote_target).address
        if address in _SERVICES:
            self._accept(link)
            self.services[address].append(link)
            if link.is_receiver:
                link.flow(100)
        elif link.is_sender:
            self.soon(lambda: self._attach(link, address), self.wire.late_seconds)
        else:
            self._refuse(link, Refused("amqp:not-found", f"The messaging entity '{address}' could not be found."))

    def on_link_remote_close(self, event: proton.Event) -> None:
        if event.link.state & proton.Endpoint.LOCAL_UNINIT:
            return  # its attach is answered later
        self._forget(event.link)
        event.link.close()

    def on_link_remote_detach(self, event: proton.Event) -> None:
        self._forget(event.link)
        event.link.detach()

    def on_delivery(self, event: proton.Event) -> None:
        delivery, link = event.delivery, event.link
        if link.is_sender:
            if delivery.updated:
                delivery.settle()
            return
        if delivery.partial or not delivery.readable:
            return
        encoded = link.recv(delivery.pending)
        link.advance()
        delivery.update(proton.Delivery.ACCEPTED)
        delivery.settle()
        link.flow(1)
        request = Message()
        request.decode(bytes(encoded))
        name = link.remote_target.address
        answer = self._put_token(request) if name == "$cbs" else self._describe(request)
        answer.correlation_id = request.id
        senders = [one for one in self.services[name] if one.is_sender]
        if senders:
            reply = senders[0].delivery(b"")
            senders[0].stream(answer.encode())
            senders[0].advance()
            reply.settle()

    # --- links ---

    def _accept(self, link: proton.Link) -> None:
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode, link.rcv_settle_mode = link.remote_snd_settle_mode, link.remote_rcv_settle_mode
        link.open()

    def _refuse(self, link: proton.Link, error: Refused) -> None:
        """As Event Hubs does: an attach without a source, and a detach with the error."""
        link.source.type = proton.Terminus.UNSPECIFIED
        link.open()
        self._close(link, error)

    def _close(self, link: proton.Link, error: Refused) -> None:
        link.condition = Condition(error.condition, error.description)
        link.close()
        self._forget(link)

    def _forget(self, link: proton.Link) -> None:
        for links in self.services.values():
            if link in links:
                links.remove(link)
        self.readers[:] = [reader for reader in self.readers if reader.link != link]

    def _attach(self, link: proton.Sender, address: str | None) -> None:
        """Answer the attach of a reader."""
        if self._socket is None:
            return
        try:
            reader, others = self._reader(link, address or "")
        except Refused as error:
            self._refuse(link, error)
        else:
            self._accept(link)
            if link.state & proton.Endpoint.REMOTE_CLOSED:
                link.close()
            elif self.expired:
                self._close(link, _EXPIRED)
            else:
                self.readers.append(reader)
            for other in others:
                other.client.close_reader(other, _STOLEN)
        self.work()

    def _reader(self, link: proton.Sender, address: str) -> tuple[Reader, list[Reader]]:
        """The reader for a link, and those that it displaces."""
        found = _PATH.fullmatch(address)
        hub = self.broker.hubs.get(found[1]) if found else None
        partition = hub.partitions.get(found[3]) if hub and found else None
        if hub is None or partition is None:
            raise Refused("amqp:not-found", f"The messaging entity '{address}' could not be found.")
        if not self.signed_in:
            raise Refused("amqp:unauthorized-access", f"Unauthorized access. 'Listen' is required for '{address}'.")
        reader = Reader(self, link, partition, hub.name)
        selector = link.remote_source.filter
        selector.rewind()
        filters = selector.get_object() if selector.next() else {}
        texts = [value.value if isinstance(value, proton.Described) else value for value in (filters or {}).values()]
        reader.next = max(0, (partition.start_of(texts[0]) if texts else partition.start) - partition.early)
        others = [one for one in self.broker.readers() if one.partition is partition and one.epoch is not None]
        if any(reader.epoch is None or one.epoch > reader.epoch for one in others):
            raise _STOLEN
        return reader, others

    def close_reader(self, reader: Reader, error: Refused) -> None:
        """Detach a reader with an error."""
        self._close(reader.link, error)
        self.soon(self.work)

    def close_service(self, name: str) -> None:
        """Detach both links of a service, as Event Hubs does after some idle time."""
        for link in tuple(self.services[name]):
            self._close(link, Refused("amqp:link:detach-forced", f"The link '{link.name}' is force detached: idle."))
        self.work()

    def expire(self) -> None:
        """Let the token expire: links end, and those that are attached later end at once."""
        self.expired = True
        for reader in tuple(self.readers):
            self._close(reader.link, _EXPIRED)
        self.close_service("$cbs")

    # --- services ---

    def _put_token(self, request: Message) -> Message:
        """See https://docs.oasis-open.org/amqp/amqp-cbs/v1.0/amqp-cbs-v1.0.html."""
        asked = request.properties or {}
        if asked.get("operation") != "put-token" or not isinstance(request.body, str):
            return _answer(400, "Bad request", None)
        self.signed_in = True
        self.broker.tokens += 1
        return _answer(202, "Accepted", None)

    def _describe(self, request: Message) -> Message:
        """See the READ operation of the SDKs, azure-eventhub/azure/eventhub/_client_base.py."""
        asked = request.properties or {}
        hub = self.broker.hubs.get(str(asked.get("name")))
        partition = hub.partitions.get(str(asked.get("partition"))) if hub else None
        if hub and asked.get("type") == "com.microsoft:eventhub":
            return _answer(200, "OK", _hub(hub))
        if hub and partition and asked.get("type") == "com.microsoft:partition":
            return _answer(200, "OK", _partition(hub, partition))
        return _answer(404, f"The messaging entity '{asked.get('name')}' could not be found.", {}, "amqp:not-found")


_EXPIRED = Refused("amqp:link:detach-forced", "Unauthorized access. 'Listen' claim(s) are required.")
_STOLEN = Refused("amqp:link:stolen", "New receiver was created with a higher epoch, so the current one is detached.")


def _answer(status: int, description: str, body: Any, condition: str | None = None) -> Message:
    properties: dict[str, Any] = {"status-code": int32(status), "status-description": description}
    if condition:
        properties["error-condition"] = symbol(condition)
    return Message(body=body, properties=properties)


def _hub(hub: Hub) -> dict[str, Any]:
    return {
        "name": hub.name,
        "type": "com.microsoft:eventhub",
        "created_at": timestamp(hub.created_ms),
        "partition_count": int32(len(hub.partitions)),
        "partition_ids": Array(proton.UNDESCRIBED, Data.STRING, *hub.partitions),
        "georeplication_factor": int32(1),
    }


def _partition(hub: Hub, partition: Partition) -> dict[str, Any]:
    last = partition.last
    return {
        "name": hub.name,
        "type": "com.microsoft:partition",
        "partition": partition.id,
        "begin_sequence_number": partition.start if last >= 0 else -1,
        "last_enqueued_sequence_number": last,
        "last_enqueued_offset": offset_of(last) if last >= 0 else "-1",
        "last_enqueued_time_utc": timestamp(time_of(last) if last >= 0 else 0),
        "is_partition_empty": not partition.events,
    }


class _Frames:
    """Splits a stream into frames, to look at them: calls `see` with the code and the body of each performative."""

    def __init__(self, see: Callable[[int, bytes], None]) -> None:
        self._see = see
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        buffer = self._buffer
        buffer += data
        pos = 0
        while len(buffer) - pos >= 8:
            if buffer.startswith(b"AMQP", pos):
                pos += 8
                continue
            (size,) = struct.unpack_from(">I", buffer, pos)
            if len(buffer) - pos < size:
                break
            if buffer[pos + 5] == 0 and size > 11:  # an AMQP frame with a performative: 0x00 0x53 and its code
                self._see(buffer[pos + 10], bytes(buffer[pos + 8 : pos + min(size, 4096)]))
            pos += size
        del buffer[:pos]


class Broker:
    """All connections and hubs."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.hubs: dict[str, Hub] = {}
        self.clients: list[Client] = []
        self.tokens = 0

    def readers(self) -> list[Reader]:
        """All readers."""
        return [reader for client in self.clients for reader in client.readers]

    def pump(self) -> None:
        """Send new events."""
        for client in tuple(self.clients):
            client.work()

    async def listen(self) -> tuple[asyncio.Server, int]:
        """Listen on a free port of this machine; returns it."""
        server = await asyncio.get_running_loop().create_server(lambda: Client(self), "127.0.0.1", 0)
        return server, server.sockets[0].getsockname()[1]

    def drop(self) -> None:
        """Lose all connections."""
        for client in tuple(self.clients):
            with suppress(OSError):
                client.abort()
