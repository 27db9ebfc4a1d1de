"""Assumptions about the events of an Event Hub: where a reader starts, for every filter that hosts use.

Without --send the checks use the events that a partition has, and never change the hub. With --send they publish
events of their own: 5 to one partition, and 1 to a partition that never had an event, if there is one.

The filters that the official clients send: Azure/azure-sdk-for-net, EventPosition and AmqpFilter.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_host.amqp.hub import events_at
from eventconsumer_host.errors import HubUnauthorized, LinkStolen, PositionRefused, SourceError
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import PartitionInfo, Source
from eventconsumer_tools.certify.hub import Namespace, ended
from eventconsumer_tools.certify.model import SEND, Assumption, Differs, Skipped

WAIT_SECONDS = 20.0  # for an event that is there
QUIET_SECONDS = 3.0  # without an event, where there is none
SAMPLE = 200  # of the newest events of a partition
PLACES = 4  # partitions that are read at several positions
SENT = 5
LARGE_BYTES = 900 * 1024  # below 1 MB, the limit of the standard tier
BEYOND = 1000
# Conditions of a refused filter; any other error leaves a check undecided.
_REFUSALS = ("com.microsoft:argument-error", "com.microsoft:argument-out-of-range", "amqp:invalid-field")
_BY_OFFSET = "amqp.annotation.x-opt-offset > '{}'"
_BY_NUMBER = "amqp.annotation.x-opt-sequence-number > '{}'"
_AT_NUMBER = "amqp.annotation.x-opt-sequence-number >= '{}'"


# --- publishing ---


async def publish(namespace: Namespace, partition: str, *bodies: bytes) -> None:
    """Send events to a partition, with Azure's client: hosts do not send.

    Raises:
        Skipped: The credential has no right to send.
        SourceError: The hub does not accept them.
    """
    from azure.eventhub import EventData  # hosts need neither

    from eventconsumer_host.source.sdk import source_error

    if namespace.may_send is False:
        raise Skipped("the credential has no right to send")
    try:
        async with _producer(namespace) as producer:
            await producer.send_batch([EventData(body) for body in bodies], partition_id=partition)
    except Exception as error:
        found = source_error(error)
        if isinstance(found, HubUnauthorized):
            namespace.may_send = False
            raise Skipped(f"the credential has no right to send: {found}") from error
        raise found from error
    namespace.may_send = True


@asynccontextmanager
async def _producer(namespace: Namespace) -> AsyncIterator[Any]:
    from azure.eventhub.aio import EventHubProducerClient

    access = namespace.access
    options: dict[str, Any] = {"retry_total": 1, "user_agent": "eventconsumer"}
    if access.connection_string is not None:
        client = EventHubProducerClient.from_connection_string(
            access.connection_string, eventhub_name=access.name, **options
        )
    else:
        assert access.identity is not None  # noqa: S101 - HubAccess holds one of the two
        client = EventHubProducerClient(access.host, access.name, access.identity, **options)
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # the events are sent, or the error is on its way
            await client.close()


async def _send(namespace: Namespace) -> str:
    partition = next((each for each, info in namespace.partitions.items() if not info.is_empty), namespace.spare)
    before = await namespace.hub.partition(partition)
    await publish(namespace, partition, *(b"eventconsumer certify %d" % number for number in range(SENT)))
    after = namespace.partitions[partition] = await namespace.hub.partition(partition)
    if after.last < before.last + SENT or after.is_empty:
        raise Differs(
            f"after {SENT} events the last number of partition {partition} is {after.last}, was {before.last}"
        )
    return f"{SENT} events are in partition {partition}: its last number was {before.last} and is {after.last}"


async def _large(namespace: Namespace) -> str:
    partition, _ = await _used(namespace, "")
    body = b"\x5a" * LARGE_BYTES
    end = (await namespace.hub.partition(partition)).last
    await publish(namespace, partition, body)
    found = await _first(namespace, namespace.hub.open(partition, end, 1, 1))
    if found is None or len(found.rows().bodies[0] or b"") != LARGE_BYTES:
        raise Differs(f"an event of {LARGE_BYTES} bytes is not delivered")
    namespace.partitions[partition] = await namespace.hub.partition(partition)
    return f"an event of {LARGE_BYTES} bytes is delivered"


# --- a partition that never had an event ---


async def _unused(namespace: Namespace) -> str:
    partition = next((each for each, info in namespace.partitions.items() if info.last < 0), None)
    if partition is None or (await namespace.hub.partition(partition)).last >= 0:
        raise Skipped("every partition has had events: use a new hub")
    source = await _opened(namespace, namespace.hub.open(partition, -1, 1, 1))
    await publish(namespace, partition, b"eventconsumer certify: the first event")
    namespace.partitions[partition] = await namespace.hub.partition(partition)
    if not len(await source.receive(1, WAIT_SECONDS)):
        raise Differs(f"the first event is not delivered within {WAIT_SECONDS:.0f} s")
    return "the first event ever is delivered"


# --- a partition with events ---


async def _earliest(namespace: Namespace) -> str:
    partition, info = await _used(namespace)
    found = await _first(namespace, namespace.hub.open(partition, -1, 1, 1))
    # Retention may have removed events since.
    return _is(found, "the first event", info.first, latest=(await namespace.hub.partition(partition)).earliest)


async def _after_number(namespace: Namespace) -> str:
    return await _numbers(namespace, "the event after {}", lambda number: _BY_NUMBER.format(number - 1), -1)


async def _at_number(namespace: Namespace) -> str:
    return await _numbers(namespace, "the event {}", _AT_NUMBER.format, 0)


async def _numbers(namespace: Namespace, what: str, selector: Callable[[int], str], shift: int) -> str:
    """Read the oldest, a middle and the newest of the sampled events of several partitions, each by its number."""
    seen = []
    for partition, info in await _several(namespace):
        numbers = (await _newest(namespace, partition, info)).numbers.tolist()
        for number in sorted({numbers[0], numbers[len(numbers) // 2], numbers[-1]}):
            found = await _first(namespace, namespace.hub.open_where(partition, selector(number), 1))
            seen.append(_is(found, f"partition {partition}: {what.format(number + shift)}", number))
    return "; ".join(seen)


async def _after_offset(namespace: Namespace) -> str:
    partition, batch = await _two(namespace)
    before = str(batch.columns.column("offset")[-2].as_py())
    where = Position(type=PositionType.OFFSET, offset=before)
    return _number(await namespace.hub.locate(partition, where, 1), f"after offset {before}", batch.last)


async def _at_offset(namespace: Namespace) -> str:
    partition, info = await _used(namespace)
    batch = await _newest(namespace, partition, info)
    where = events_at(batch.last_offset)
    return _is(await _first(namespace, namespace.hub.open_where(partition, where, 1)), "the event", batch.last)


async def _at_time(namespace: Namespace) -> str:
    partition, info = await _used(namespace)
    batch = await _newest(namespace, partition, info)
    times = batch.columns.column("enqueued_time")
    wanted = next(
        number for number, time in zip(batch.numbers.tolist(), times, strict=True) if time.value == times[-1].value
    )
    if wanted == batch.first and batch.first > info.first:
        raise Skipped(f"the newest {len(batch)} events have one time")
    where = Position(type=PositionType.ENQUEUED_TIME, enqueued_time=times[-1].as_py())
    return _number(await namespace.hub.locate(partition, where, 1), f"from {times[-1].as_py()}", wanted)


async def _at_end(namespace: Namespace) -> str:
    seen = []
    for partition, info in await _several(namespace):
        last = info.last
        source = await _opened(namespace, namespace.hub.open(partition, last, 1, 1))
        batch = await source.receive(1, QUIET_SECONDS)
        if len(batch) and batch.first <= last:
            raise Differs(f"partition {partition}: a reader after {last} gets event {batch.first}")
        seen.append(f"partition {partition}: a reader after the last event, {last}, is attached and waits")
    return "; ".join(seen)


async def _beyond_number(namespace: Namespace) -> str:
    partition, _ = await _used(namespace)
    number = (await namespace.hub.partition(partition)).last + BEYOND
    return await _beyond(namespace, partition, _BY_NUMBER.format(number), f"after number {number}")


async def _beyond_offset(namespace: Namespace) -> str:
    partition, info = await _used(namespace)
    offset = (await _newest(namespace, partition, info)).last_offset
    if not offset.isdecimal():
        raise Skipped(f"the offset {offset} is no number: the namespace is replicated")
    number = int(offset) + BEYOND * 1_000_000
    return await _beyond(namespace, partition, _BY_OFFSET.format(number), f"after offset {number}")


async def _beyond(namespace: Namespace, partition: str, where: str, what: str) -> str:
    error: SourceError | None
    try:
        error = await ended(await namespace.open(partition, where), QUIET_SECONDS)
    except SourceError as found:
        error = found
    if error is None:
        raise Differs(f"a reader {what} is attached")
    if isinstance(error, LinkStolen):
        raise error
    if not isinstance(error, PositionRefused):
        raise Differs(f"a reader {what} is refused with: {error}")
    return str(error)


async def _consecutive(namespace: Namespace) -> str:
    partition, info = await _used(namespace)
    batch = await _newest(namespace, partition, info)
    numbers = batch.numbers.tolist()
    if numbers != sorted(set(numbers)):
        raise Differs(f"numbers of partition {partition} do not rise: {numbers[:20]}")
    missing = numbers[-1] - numbers[0] + 1 - len(numbers)
    if missing:
        raise Differs(f"{missing} of the numbers {numbers[0]} to {numbers[-1]} of partition {partition} are missing")
    return f"{numbers[0]} to {numbers[-1]} of partition {partition}"


async def _end(namespace: Namespace) -> str:
    partition, _ = await _used(namespace)
    end = await namespace.hub.partition(partition)
    batch = await _newest(namespace, partition, end)
    time = batch.columns.column("enqueued_time")[-1].as_py()
    if batch.last != end.last:
        raise Skipped("an event arrived meanwhile")
    if int(end.last_enqueued_time.timestamp()) != int(time.timestamp()):
        raise Differs(f"the last event was enqueued at {time}, by the properties at {end.last_enqueued_time}")
    return f"number {end.last}, time {end.last_enqueued_time.isoformat()}"


async def _runtime_metrics(namespace: Namespace) -> str:
    partition, info = await _used(namespace)
    batch = await _newest(namespace, partition, info)
    hub = namespace.other(namespace.access, runtime_metrics=True)
    found = await _first(namespace, hub.open(partition, batch.last - 1, 1, 1))
    if found is None or found.last_enqueued is None:
        raise Differs("an event has no runtime metrics")
    return f"the last number of the partition is {found.last_enqueued.sequence_number}"


# --- parts of checks ---


async def _used(namespace: Namespace, remedy: str = "use --send, or a hub with events") -> tuple[str, PartitionInfo]:
    """A partition with events.

    Raises:
        Skipped: There is none.
    """
    for partition, info in namespace.partitions.items():
        if not info.is_empty:
            namespace.partitions[partition] = now = await namespace.hub.partition(partition)
            if not now.is_empty:
                return partition, now
    raise Skipped(": ".join(filter(None, ("no partition has events", remedy))))


async def _several(namespace: Namespace) -> list[tuple[str, PartitionInfo]]:
    """Partitions with events, at most `PLACES`.

    Raises:
        Skipped: There is none.
    """
    found = [await _used(namespace)]
    for partition, info in namespace.partitions.items():
        if len(found) < PLACES and partition != found[0][0] and not info.is_empty:
            now = namespace.partitions[partition] = await namespace.hub.partition(partition)
            found += [] if now.is_empty else [(partition, now)]
    return found


async def _newest(namespace: Namespace, partition: str, info: PartitionInfo) -> EventBatch:
    """The newest events of a partition, at most `SAMPLE`, up to its last one at the time of `info`.

    Raises:
        Differs: The position is refused, or no event is delivered.
    """
    after = max(info.first - 1, info.last - SAMPLE)
    source = await _opened(namespace, namespace.hub.open(partition, after, 1, SAMPLE))
    batches: list[EventBatch] = []
    while not batches or batches[-1].last < info.last:
        batch = await source.receive(SAMPLE, WAIT_SECONDS)
        if not len(batch):
            raise Differs(f"events after {after} of partition {partition} are not delivered: its last is {info.last}")
        batches.append(batch)
    await source.close()
    return EventBatch.joined(batches)


async def _two(namespace: Namespace) -> tuple[str, EventBatch]:
    partition, info = await _used(namespace)
    batch = await _newest(namespace, partition, info)
    if len(batch) < 2:
        raise Skipped(f"partition {partition} has one event: use --send")
    return partition, batch


async def _opened(namespace: Namespace, opening: Any) -> Source:
    """A reader at a position that exists.

    Raises:
        Differs: The position is refused.
        SourceError: The reader is not attached for another reason.
    """
    try:
        return await namespace.attach(opening)
    except SourceError as error:
        if isinstance(error, PositionRefused) or str(error).startswith(_REFUSALS):
            raise Differs(f"the position is refused: {error}") from error
        raise


async def _first(namespace: Namespace, opening: Any) -> EventBatch | None:
    """The first event of a reader, which is closed; None: it gets none."""
    source = await _opened(namespace, opening)
    batch = await source.receive(1, WAIT_SECONDS)
    await source.close()
    return batch if len(batch) else None


def _is(found: EventBatch | None, what: str, number: int, latest: int | None = None) -> str:
    if found is None:
        raise Differs(f"{what}, {number}, is not delivered within {WAIT_SECONDS:.0f} s")
    return _number(found.first, what, number, latest)


def _number(found: int, what: str, number: int, latest: int | None = None) -> str:
    if not number <= found <= (number if latest is None else latest):
        raise Differs(f"{what} is number {found}, expected {number}")
    return f"{what} is number {found}"


_REPORT = "report it with this output: until then, do not use the hub"
_LOST = "events are not read, or read twice, after a host opens a partition"
_PLACE = "a later start loses events; an earlier one costs time, as hosts drop the events before their position"

EVENTS: tuple[Assumption[Namespace], ...] = (
    Assumption("unused", "A reader from the beginning gets the first event of a partition that never had one.",
               "partitions that never had an event are not read", _REPORT, _unused, (SEND,)),
    Assumption("send", "The number of a partition's last event rises with each accepted event.",
               "lag and scaling are wrong", _REPORT, _send, (SEND,)),
    Assumption("earliest", "A reader from the beginning starts at the first retained event.",
               _LOST, _REPORT, _earliest),
    Assumption("after-number", "A reader after a number starts at the next event.", _PLACE, _REPORT, _after_number),
    Assumption("at-number", "A reader at a number starts at this event.", _PLACE, _REPORT, _at_number),
    Assumption("after-offset", "A reader after an offset starts at the next event.",
               "spec.startingPosition of type Offset starts at a wrong event", "use type SequenceNumber",
               _after_offset),
    Assumption("at-offset", "A reader at an offset starts at this event.",
               "the test of a position by offset fails", "use sequence numbers", _at_offset),
    Assumption("at-time", "A reader from a time starts at the first event enqueued at or after it.",
               "spec.startingPosition of type EnqueuedTime starts at a wrong event", "use type SequenceNumber",
               _at_time),
    Assumption("at-end", "A reader after the last event is attached, and waits.",
               "a host that has read everything opens its links again and again; an earlier event is dropped",
               _REPORT, _at_end),
    Assumption("beyond-end-by-number", "A reader after a number beyond the end is refused as a position error.",
               "the condition after a failover names another cause", _REPORT, _beyond_number),
    Assumption("beyond-end-by-offset", "A reader after an offset beyond the end is refused as a position error.",
               "the condition for a wrong spec.startingPosition names another cause", "use sequence numbers",
               _beyond_offset),
    Assumption("numbers", "Numbers of consecutive events rise by one.",
               "log compaction is on: hosts count the holes, and the files have fewer events than numbers",
               "no action is required", _consecutive),
    Assumption("end-properties", "The properties of a partition name the time of its last event.",
               "a consumer that starts at the end may report HubDiverged before its first file", _REPORT, _end),
    Assumption("runtime-metrics", "Events carry the runtime metrics of the partition if the reader requests them.",
               "handlers get no runtime metrics", "set spec.processing.runtimeMetrics to false", _runtime_metrics),
    Assumption("large-event", f"An event of {LARGE_BYTES // 1024} KB is delivered.",
               "a large event stops its partition", _REPORT, _large, (SEND,)),
)  # fmt: skip
