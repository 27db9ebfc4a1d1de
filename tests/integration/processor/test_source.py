"""Both adapters against the emulator, beyond the contract of a hub: errors, positions, large events, progress."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.eventhub import EventData, EventHubProducerClient

from eventconsumer_api.v1alpha1 import Position
from eventconsumer_host.amqp import codec
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubNotFound, HubUnauthorized, HubUnreachable
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import Hub, Source
from eventconsumer_host.source.sdk import SdkHub
from tests.faults.raw import publish_raw
from tests.support.servers import EmulatorProcess
from tests.support.waiting import HANG_SECONDS


@pytest.fixture(params=[SdkHub, AmqpHub], ids=["sdk", "amqp"])
def adapter(request: pytest.FixtureRequest) -> type[SdkHub] | type[AmqpHub]:
    """The adapter through the SDK, then the one on our own receiver."""
    return request.param


@pytest.fixture
async def hub(emulator: EmulatorProcess, adapter: type[SdkHub] | type[AmqpHub]) -> AsyncIterator[Hub]:
    """A hub with one partition."""
    emulator.admin.create_hub("orders", partitions=1)
    found = adapter(HubAccess("localhost", "orders", "$Default", emulator.connection_string("orders")))
    yield found
    await found.close()


def send(emulator: EmulatorProcess, *bodies: bytes, **properties: Any) -> None:
    """Send events to partition 0."""
    with EventHubProducerClient.from_connection_string(emulator.connection_string("orders")) as producer:
        batch = producer.create_batch(partition_id="0")
        for body in bodies:
            event = EventData(body)
            for name, value in properties.items():
                event.properties[name] = value
            event.content_type = "text/plain"
            event.message_id = "m-1"
            event.correlation_id = "c-1"
            batch.add(event)
        producer.send_batch(batch)


async def receive(source: Source, count: int, seconds: float = 20) -> list[EventBatch]:
    """Receive until `count` events came."""
    batches: list[EventBatch] = []
    async with asyncio.timeout(HANG_SECONDS):
        while sum(map(len, batches)) < count:
            batches.append(await source.receive(300, 0.5))
    return [batch for batch in batches if len(batch)]


async def test_errors_have_names(emulator: EmulatorProcess, adapter: type[SdkHub] | type[AmqpHub]) -> None:
    emulator.admin.create_hub("orders", partitions=1)
    for access, error in (
        (HubAccess("h", "missing", "$Default", emulator.connection_string("missing")), HubNotFound),
        (HubAccess("h", "orders", "$Default", emulator.connection_string("orders", key="wrong")), HubUnauthorized),
        (
            HubAccess("h", "o", "$Default", "Endpoint=sb://localhost:1;SharedAccessKeyName=a;SharedAccessKey=b"),
            HubUnreachable,
        ),
    ):
        other = adapter(access)
        with pytest.raises(error):
            await other.describe()
        with pytest.raises(error):
            await other.open("0", -1, 1, 100)
        await other.close()
    group = adapter(HubAccess("h", "orders", "billing", emulator.connection_string("orders")))
    with pytest.raises(HubNotFound):
        await group.check_consumer_group("0")
    with pytest.raises(HubNotFound):
        await group.open("0", -1, 1, 100)
    await group.close()


async def test_positions_by_time_and_offset_are_found_by_the_hub_itself(hub: Hub, emulator: EmulatorProcess) -> None:
    def at(**position: Any) -> Position:
        return Position.model_validate(position)

    def by_time(when: datetime) -> Position:
        return at(type="EnqueuedTime", enqueuedTime=when.isoformat())

    assert await hub.locate("0", by_time(datetime(2020, 1, 1, tzinfo=UTC)), 1) == 0  # empty
    send(emulator, *[b"x"] * 3)
    await asyncio.sleep(0.1)
    between = datetime.now(UTC)
    await asyncio.sleep(0.1)
    send(emulator, *[b"y"] * 3)
    source = await hub.open("0", -1, 2, 300)
    offsets = [offset for batch in await receive(source, 6) for offset in batch.rows().offsets]
    await source.close()
    assert await hub.locate("0", by_time(datetime(2020, 1, 1, tzinfo=UTC)), 3) == 0
    assert await hub.locate("0", by_time(between), 4) == 3
    assert await hub.locate("0", by_time(between + timedelta(hours=1)), 5) == 6
    assert await hub.locate("0", at(type="Offset", offset=offsets[1]), 6) == 2
    assert await hub.locate("0", at(type="Offset", offset=offsets[5]), 7) == 6


async def test_order_and_credit_over_many_events_and_a_few_large_ones(hub: Hub, emulator: EmulatorProcess) -> None:
    for size in [900_000] * 12 + [0]:
        emulator.admin.put_event("orders", "0", b"z" * size)
    send(emulator, *[b"y" * 100] * 1000)
    source = await hub.open("0", -1, 1, 3000)
    batches = await receive(source, 1013)
    await source.close()
    numbers = [batch.numbers.tolist() for batch in batches]
    assert [number for batch in numbers for number in batch] == list(range(1013))
    assert max(sum(number < 12 for number in batch) for batch in numbers) <= 8  # whatever the prefetch


async def test_an_event_that_cannot_be_decoded_holds_no_other_back(emulator: EmulatorProcess) -> None:
    emulator.admin.create_hub("orders", partitions=1)
    deep = b"\x45"
    for _ in range(300):
        deep = b"\xd0" + (len(deep) + 4).to_bytes(4) + b"\x00\x00\x00\x01" + deep
    properties = codec.described(0x74, codec.mapping([(codec.string("deep"), deep)]))
    good, bad = codec.described(0x75, codec.binary(b"good")), properties + codec.described(0x75, codec.binary(b"bad"))
    publish_raw(emulator, "orders", "0", *[good] * 20, bad, *[good] * 20)
    hub = AmqpHub(
        HubAccess("localhost", "orders", "$Default", emulator.connection_string("orders")), runtime_metrics=True
    )
    source = await hub.open("0", -1, 1, 100)
    batch = EventBatch.joined(await receive(source, 41))
    await source.close()
    await hub.close()
    assert batch.numbers.tolist() == list(range(41))
    assert batch.undecoded == [20]
    rows = batch.rows()
    assert rows.bodies[:20] == rows.bodies[21:] == [b"good"] * 20
    kept = rows.bodies[20]
    assert kept is not None and kept.endswith(bad)
    assert rows.enqueued_ms == sorted(rows.enqueued_ms) and rows.enqueued_ms[0] > 0


async def test_events_carry_how_far_the_partition_has_come_where_that_is_asked_for(
    emulator: EmulatorProcess, adapter: type[SdkHub] | type[AmqpHub]
) -> None:
    emulator.admin.create_hub("orders", partitions=1)
    send(emulator, *[b"%d" % number for number in range(40)])
    access = HubAccess("localhost", "orders", "$Default", emulator.connection_string("orders"))
    plain, asking = adapter(access), adapter(access, runtime_metrics=True)
    end = await asking.partition("0")
    source = await asking.open("0", -1, 1, 100)
    batches = await receive(source, 40)
    await source.close()
    found = batches[-1].last_enqueued
    assert found is not None
    assert (found.sequence_number, found.offset) == (39, batches[-1].last_offset)
    assert found.enqueued_time == end.last_enqueued_time <= found.retrieval_time
    part = batches[-1].rising().after(batches[-1].first).head(3)  # as a pump cuts it
    assert part.last_enqueued == found
    source = await plain.open("0", -1, 2, 100)
    without = await receive(source, 40)
    await source.close()
    assert {batch.last_enqueued for batch in without} == {None}
    bodies = [[body for batch in found for body in batch.rows().bodies] for found in (batches, without)]
    assert bodies[0] == bodies[1] == [b"%d" % number for number in range(40)]
    await plain.close()
    await asking.close()
