"""A client for tests of the protocol: speaks in performatives to a connection without sockets."""

from typing import Any, TypeVar

from eventhubs_emulator.broker import Broker
from eventhubs_emulator.codec import encode
from eventhubs_emulator.connection import Connection
from eventhubs_emulator.framing import AMQP_HEADER, SASL_FRAME, SASL_HEADER, FrameReader, frame
from eventhubs_emulator.messages import encode_event
from eventhubs_emulator.performatives import AMQP, Attach, Begin, Flow, Open, Performative, SaslInit, Transfer, parse
from eventhubs_emulator.values import Described, Symbol, ULong

P = TypeVar("P", bound=Performative)


class Clock:
    """Milliseconds that tests move."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


class Peer:
    """One client of a namespace."""

    def __init__(self, broker: Broker, number: int = 1, idle_ms: int = 60_000) -> None:
        self.woken = 0
        self.dropped = False
        self.connection = Connection(broker, number, self._wake, self._drop, idle_ms)
        broker.connections[number] = self.connection
        self._frames = FrameReader(1 << 24)
        self.heartbeats = 0

    def _wake(self) -> None:
        self.woken += 1

    def _drop(self) -> None:
        self.dropped = True

    def open(self, **fields: Any) -> "Peer":
        """SASL PLAIN with the default policy, open, begin; checks the answers and leaves nothing to read."""
        self.connection.receive(SASL_HEADER)
        init = SaslInit("PLAIN", b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE")
        self.connection.receive(frame(0, init.encode(), SASL_FRAME))
        self.connection.receive(AMQP_HEADER)
        greeting = self.connection.take_output(0)
        assert greeting.startswith(SASL_HEADER)
        assert greeting.endswith(AMQP_HEADER)
        self.send(Open("test", **{"max_frame_size": 1 << 20, **fields}))
        self.send(Begin(None, 0, 1000, 1000))
        assert [type(got) for got, _ in self.read()] == [Open, Begin]
        return self

    def send(self, performative: Performative, payload: bytes = b"", channel: int = 0) -> None:
        """Sends one frame."""
        self.connection.receive(frame(channel, performative.encode() + payload))

    def read(self, budget: int = 1 << 20) -> list[tuple[Performative, bytes]]:
        """Everything the server has to say: performatives with their payloads."""
        got = []
        while data := self.connection.take_output(budget):
            self._frames.feed(data)
            while (received := self._frames.next()) is not None:
                if not received.body:
                    self.heartbeats += 1
                    continue
                performative, end = parse(received.body, AMQP)
                got.append((performative, received.body[end:]))
        return got

    def expect(self, kind: type[P]) -> P:
        """The only performative of a kind among what the server has to say."""
        found = [performative for performative, _ in self.read() if isinstance(performative, kind)]
        assert len(found) == 1, found
        return found[0]

    def attach_reader(
        self, address: str, handle: int = 0, selector: str | None = None, epoch: int | None = None, credit: int = 0
    ) -> None:
        """Attaches a reader and gives it credit."""
        filters = {Symbol("apache.org:selector-filter:string"): selector} if selector else None
        source = Described(ULong(0x28), [address, None, None, None, None, None, None, filters])
        target = Described(ULong(0x29), ["me"])
        properties = None if epoch is None else {Symbol("com.microsoft:epoch"): epoch}
        self.send(Attach(f"reader-{handle}", handle, True, source=source, target=target, properties=properties))
        if credit:
            self.give_credit(handle, credit)

    def give_credit(self, handle: int, credit: int, count: int = 0, **fields: Any) -> None:
        """Gives a reader credit."""
        self.send(Flow(1, 1000, 0, 1000, handle, count, credit, **fields))

    def attach_producer(self, address: str, handle: int = 0) -> None:
        """Attaches a producer."""
        source, target = Described(ULong(0x28), ["me"]), Described(ULong(0x29), [address])
        self.send(Attach(f"producer-{handle}", handle, False, source=source, target=target, initial_delivery_count=0))

    def publish(self, body: bytes, handle: int = 0, delivery: int = 0, settled: bool = False) -> None:
        """Sends one event in one frame."""
        self.send(Transfer(handle, delivery, b"t", 0, settled, False), message(body))


def message(body: bytes) -> bytes:
    """An encoded message with a data section."""
    return encode(Described(ULong(0x75), body))


def fill(broker: Broker, hub: str, partition: int, count: int, size: int = 10) -> None:
    """Enqueues events."""
    broker.hub(hub).partitions[partition].append([encode_event(b"x" * size) for _ in range(count)], broker.clock())
