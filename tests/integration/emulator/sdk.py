"""The unmodified azure-eventhub SDK, sync and aio, behind two functions with the same arguments."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.aio import EventHubConsumerClient as AsyncConsumerClient

from tests.support.servers import EmulatorProcess
from tests.support.waiting import HANG_SECONDS

# Fewer retries than the SDK's three and less waiting between them: errors are expected here.
FAST: dict[str, Any] = {"retry_total": 1, "retry_backoff_factor": 0.1}


@dataclass
class Hub:
    """A hub of an emulator."""

    server: EmulatorProcess
    name: str

    @property
    def connection_string(self) -> str:
        """With EntityPath."""
        return self.server.connection_string(self.name)

    def producer(self, **options: Any) -> EventHubProducerClient:
        """A producer client."""
        return EventHubProducerClient.from_connection_string(self.connection_string, **{**FAST, **options})

    def put(self, count: int, partition: str = "0", start: int = 0) -> None:
        """Publishes numbered events to a partition, in one batch."""
        with self.producer() as producer:
            producer.send_batch([EventData(str(start + number)) for number in range(count)], partition_id=partition)

    def wait_for_readers(self, count: int, timeout: float = 15, **selection: Any) -> list[dict[str, Any]]:
        """Waits until so many readers are attached; returns them."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            readers = self.server.admin.links(kind="reader", hub=self.name, **selection)
            if len(readers) == count or time.monotonic() > deadline:
                assert len(readers) == count, readers
                return readers
            time.sleep(0.05)


@dataclass
class Received:
    """What a consumer got."""

    events: list[EventData] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    last_enqueued: dict[str, Any] | None = None

    @property
    def bodies(self) -> list[str]:
        """The bodies as text."""
        return [event.body_as_str() for event in self.events]

    @property
    def numbers(self) -> list[int]:
        """The sequence numbers."""
        return [int(event.sequence_number or 0) for event in self.events]

    def add(self, context: Any, event: EventData | None) -> None:
        """Takes an event as both clients hand it over."""
        if event is not None:
            self.events.append(event)
            self.partitions.append(context.partition_id)
            self.last_enqueued = context.last_enqueued_event_properties


Until = Callable[[Received], bool]


def receive_sync(hub: Hub, until: Until, timeout: float = 15, group: str = "$Default", **options: Any) -> Received:
    """Receives with the blocking client until the condition holds or the time is over."""
    received, done = Received(), threading.Event()

    def check() -> None:
        if until(received):
            done.set()

    def on_event(context: Any, event: EventData | None) -> None:
        received.add(context, event)
        check()

    def on_error(_: Any, error: Exception) -> None:
        received.errors.append(error)
        check()

    client = EventHubConsumerClient.from_connection_string(hub.connection_string, group, **FAST)
    thread = threading.Thread(
        target=client.receive, kwargs={"on_event": on_event, "on_error": on_error, "partition_id": "0", **options}
    )
    thread.start()
    done.wait(timeout)
    client.close()
    thread.join(10)
    assert not thread.is_alive()
    return received


async def receive_aio(
    hub: Hub, until: Until, timeout: float = 15, group: str = "$Default", client: Any = None, **options: Any
) -> Received:
    """Receives with the asyncio client until the condition holds or the time is over."""
    received, done = Received(), asyncio.Event()

    def check() -> None:
        if until(received):
            done.set()

    async def on_event(context: Any, event: EventData | None) -> None:
        received.add(context, event)
        check()

    async def on_error(_: Any, error: Exception) -> None:
        received.errors.append(error)
        check()

    client = client or AsyncConsumerClient.from_connection_string(hub.connection_string, group, **FAST)
    async with client:
        task = asyncio.create_task(
            client.receive(on_event=on_event, on_error=on_error, **{"partition_id": "0", **options})
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), timeout)
    # A closed client's receive() sleeps out its load-balancing interval (30 s) before it returns.
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return received


async def attach(hub: Hub, position: Any = "-1", group: str = "$Default", partition: str = "0") -> None:
    """Opens one link, as the SDK does inside; raises what the SDK's own loop keeps to itself.

    Event Hubs answers a refused attach with a null source and target. For the SDK the consumer is then not running
    yet, which its loop takes for a close: it tries again for ever and tells no one (but for amqp:link:stolen).
    """

    async def unused(*_: Any) -> None:
        pass

    async with AsyncConsumerClient.from_connection_string(hub.connection_string, group, **FAST) as client:
        consumer = client._create_consumer(group, partition, position, unused)
        try:
            await asyncio.wait_for(consumer._open(), HANG_SECONDS)
        finally:
            await consumer.close()


def count(number: int) -> Until:
    """Holds once so many events have come."""
    return lambda received: len(received.events) >= number
