"""What the unmodified SDK publishes, it reads: properties, positions, keys, batches, large events, every type."""

import asyncio
import datetime
import uuid
from typing import Any

import pytest
from azure.eventhub import EventData, EventHubConsumerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage
from azure.eventhub.exceptions import EventHubError

from eventhubs_emulator.keys import partition_of_key
from tests.integration.emulator.sdk import Hub, count, receive_aio, receive_sync
from tests.support.waiting import HANG_SECONDS

EARLIEST = {"starting_position": "-1"}


# Properties


def test_properties_sync(hub: Hub) -> None:
    hub.put(3, partition="1")
    with EventHubConsumerClient.from_connection_string(hub.connection_string, "$Default") as client:
        found = client.get_eventhub_properties()
        assert found["eventhub_name"] == hub.name
        assert found["partition_ids"] == ["0", "1"]
        age = datetime.datetime.now(datetime.UTC) - found["created_at"]
        assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=2)
        empty, full = client.get_partition_properties("0"), client.get_partition_properties("1")
    assert (empty["is_empty"], empty["beginning_sequence_number"], empty["last_enqueued_sequence_number"]) == (
        True,
        -1,
        -1,
    )
    assert empty["last_enqueued_offset"] == "-1"
    assert empty["last_enqueued_time_utc"].year == 1
    assert (full["is_empty"], full["beginning_sequence_number"], full["last_enqueued_sequence_number"]) == (False, 0, 2)
    assert full["last_enqueued_offset"] not in ("-1", "2")


def test_a_partition_that_does_not_exist_has_no_properties(hub: Hub) -> None:
    client = EventHubConsumerClient.from_connection_string(hub.connection_string, "$Default", retry_total=0)
    with client, pytest.raises(EventHubError, match="Status code: 400"):
        client.get_partition_properties("9")


# Starting positions


async def test_starting_positions(hub: Hub) -> None:
    """Every position at once; a later event tells that nothing before it was left out or is still to come."""
    hub.put(5)
    await asyncio.sleep(0.02)
    between = datetime.datetime.now(datetime.UTC)
    await asyncio.sleep(0.02)
    hub.put(5, start=5)
    third = (await receive_aio(hub, count(4), **EARLIEST)).events[3]
    cases: list[tuple[Any, bool, int]] = [
        ("-1", False, 0),
        (third.offset, False, 4),
        (third.offset, True, 3),
        (third.sequence_number, False, 4),
        (third.sequence_number, True, 3),
        (between, False, 5),
        (between, True, 5),
        (9, False, 10),
        ("@latest", False, 10),
    ]
    readings = [
        asyncio.create_task(
            receive_aio(
                hub,
                count(11 - first),
                group=f"g{number}",
                starting_position=start,
                starting_position_inclusive=inclusive,
            )
        )
        for number, (start, inclusive, first) in enumerate(cases)
    ]
    await asyncio.to_thread(hub.wait_for_readers, len(cases))
    await asyncio.to_thread(hub.server.admin.put_event, hub.name, "0", b"later")
    for (start, inclusive, first), received in zip(cases, await asyncio.gather(*readings), strict=True):
        assert received.numbers == list(range(first, 11)), (start, inclusive)


async def test_a_new_partition_is_read_from_its_first_event(hub: Hub) -> None:
    reading = asyncio.create_task(receive_aio(hub, count(1), starting_position="-1"))
    await asyncio.to_thread(hub.wait_for_readers, 1)
    await asyncio.to_thread(hub.put, 1)
    assert (await reading).numbers == [0]


# Where events go


async def test_a_key_has_one_partition_and_readers_see_it(hub: Hub) -> None:
    keys = [f"key-{number}" for number in range(6)]
    with hub.producer() as producer:
        for key in keys * 2:
            producer.send_batch([EventData(key)], partition_key=key)
        batch = producer.create_batch(partition_key="ключ")
        batch.add(EventData("a"))
        batch.add(EventData("b"))
        producer.send_batch(batch)
    received = await receive_aio(hub, count(14), partition_id=None, **EARLIEST)
    assert len(received.events) == 14
    assert {event.partition_key.decode() for event in received.events if event.partition_key} == {*keys, "ключ"}
    for event, partition in zip(received.events, received.partitions, strict=True):
        assert event.partition_key is not None
        assert partition == str(partition_of_key(event.partition_key.decode(), 2))


def test_without_a_key_batches_go_round(hub: Hub) -> None:
    with hub.producer() as producer:
        for _ in range(6):
            producer.send_batch([EventData("x"), EventData("y")])
    assert [partition["events"] for partition in hub.server.admin.hub(hub.name)["partitions"]] == [6, 6]


# What events carry


async def test_every_property_type_survives(hub: Hub) -> None:
    properties: dict[Any, Any] = {
        "none": None,
        "bool": True,
        "int": 42,
        "negative": -(1 << 31),
        "float": 2.5,
        "text": "naïve ☃",
        "bytes": b"\x00\xff",
        "uuid": uuid.UUID(int=7),
        "time": datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC),
        "list": [1, "two", [3]],
        "map": {"a": {"b": 1}},
    }
    message = AmqpAnnotatedMessage(
        data_body=[b"body"],
        application_properties=properties,
        annotations={"x-mine": "annotation"},
        header={"durable": True, "priority": 3},
        properties={
            "message_id": "id-1",
            "user_id": b"user",
            "to": "to",
            "subject": "subject",
            "reply_to": "reply",
            "correlation_id": "corr",
            "content_type": "text/plain",
            "content_encoding": "utf-8",
            "group_id": "group",
            "group_sequence": 5,
            "reply_to_group_id": "rg",
        },
    )
    with hub.producer() as producer:
        producer.send_batch([message], partition_id="0")
    event = (await receive_aio(hub, count(1), **EARLIEST)).events[0]
    got = {key.decode(): value for key, value in event.properties.items()}
    assert got["text"].decode() == "naïve ☃"
    assert got["time"] == 1714564800000
    assert got["list"] == [1, b"two", [3]]
    assert got["map"] == {b"a": {b"b": 1}}
    for name in ("none", "bool", "int", "negative", "float", "bytes", "uuid"):
        assert got[name] == properties[name], name
    raw = event.raw_amqp_message
    assert raw.header is not None
    assert (raw.header.durable, raw.header.priority) == (True, 3)
    assert raw.annotations[b"x-mine"] == b"annotation"
    assert raw.properties is not None
    assert (raw.properties.message_id, raw.properties.group_sequence) == (b"id-1", 5)
    assert (event.content_type, event.correlation_id, event.body_as_str()) == ("text/plain", "corr", "body")


async def test_every_kind_of_body_survives(hub: Hub) -> None:
    data, value, sequence = [b"one", b"two"], {"a": [1, 2.5]}, [[1, 2], [b"x"]]
    with hub.producer() as producer:
        for body in ({"data_body": data}, {"value_body": value}, {"sequence_body": sequence}):
            producer.send_batch([AmqpAnnotatedMessage(**body)], partition_id="0")
    messages = [event.raw_amqp_message for event in (await receive_aio(hub, count(3), **EARLIEST)).events]
    assert [message.body_type.value for message in messages] == ["data", "value", "sequence"]
    assert list(messages[0].body) == data
    assert messages[1].body == {b"a": [1, 2.5]}
    assert list(messages[2].body) == sequence


async def test_events_of_every_size(hub: Hub) -> None:
    bodies = [bytes(number % 251 for number in range(size)) for size in (0, 1, 300_000, 1_048_000)]
    with hub.producer() as producer:
        for body in bodies:
            batch = producer.create_batch(partition_id="0")
            assert batch.max_size_in_bytes == 20 * 1024 * 1024
            batch.add(EventData(body))
            producer.send_batch(batch)
    received = await receive_aio(hub, count(4), **EARLIEST)
    assert [b"".join(event.body) for event in received.events] == bodies


def test_an_event_above_the_limit_is_refused(hub: Hub) -> None:
    """The SDK checks a batch's size itself, so the event goes as a single message."""
    with hub.producer(retry_total=0) as producer, pytest.raises(EventHubError):  # its socket may time out first
        producer.send_event(EventData(b"x" * (20 << 20)), partition_id="0")
    with hub.producer() as producer:
        producer.send_event(EventData(b"small"), partition_id="0")
    assert hub.server.admin.hub(hub.name)["partitions"][0]["last_enqueued_sequence_number"] == 0


# Volume


async def test_five_thousand_events_in_order_with_a_large_prefetch(hub: Hub) -> None:
    with hub.producer() as producer:
        for start in range(0, 5_000, 1000):
            producer.send_batch([EventData(b"%d" % (start + number)) for number in range(1000)], partition_id="0")
    received = await receive_aio(hub, count(5_000), timeout=HANG_SECONDS, prefetch=3000, **EARLIEST)
    assert received.numbers == list(range(5_000))
    assert received.bodies == [str(number) for number in range(5_000)]


async def test_events_with_keys_are_read_by_several_consumers_while_they_are_published(hub: Hub) -> None:
    def publish() -> None:
        with hub.producer() as producer:
            for number in range(40):
                batch = producer.create_batch(partition_key=f"key-{number % 7}")
                for index in range(50):
                    batch.add(EventData(f"{number}-{index}"))
                producer.send_batch(batch)

    readers = [
        receive_aio(hub, count(2000), partition_id=None, group=group, timeout=HANG_SECONDS, **EARLIEST)
        for group in ("$Default", "second")
    ]
    first, second, _ = await asyncio.gather(*readers, asyncio.to_thread(publish))
    for received in (first, second):
        assert len(set(received.bodies)) == len(received.bodies) == 2000


def test_several_groups_read_the_same_events_sync(hub: Hub) -> None:
    hub.put(3)
    for group in ("$Default", "$default", "second"):
        assert receive_sync(hub, count(3), group=group, **EARLIEST).bodies == ["0", "1", "2"]


async def test_each_event_tells_how_far_the_log_has_come(hub: Hub) -> None:
    hub.put(5)
    received = await receive_aio(hub, count(2), track_last_enqueued_event_properties=True, **EARLIEST)
    found = received.last_enqueued
    assert found is not None
    assert found["sequence_number"] == 4
    assert int(found["offset"]) > 4
    assert found["enqueued_time"] <= found["retrieval_time"]
    assert received.bodies[:2] == ["0", "1"]
