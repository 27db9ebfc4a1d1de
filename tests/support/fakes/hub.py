"""An Event Hub in memory: partitions with retained events, readers fenced by epoch, and faults of links."""

import asyncio
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from eventconsumer_api.v1alpha1 import Position
from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_host.errors import HubUnreachable, LinkStolen, PositionRefused
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import HubInfo, PartitionInfo
from eventconsumer_host.source.rows import EventRows, PropertyKind

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
NO_EVENTS = EventBatch.of(EventRows())  # most answers; to make one takes long


@dataclass
class FakePartition:
    """Events by sequence number."""

    events: dict[int, bytes] = field(default_factory=dict)
    last: int = -1
    reader: "FakeSource | None" = None
    era: int = 0  # by one with each failover that loses events: events behind it have other times and offsets
    eras: dict[int, int] = field(default_factory=dict)  # of events, where it is not 0
    opened: int = 0  # links
    early: int = 0  # by how many numbers new links start before their position
    undecoded: set[int] = field(default_factory=set)  # events that no reader can decode
    clock: Callable[[], int] | None = None  # of its broker, milliseconds since 1970; None: times follow from numbers
    times: dict[int, int] = field(default_factory=dict)  # of events, where there is a clock

    def add(self, *bodies: bytes) -> None:
        """Enqueue events."""
        for body in bodies:
            self.last += 1
            self.events[self.last] = body
            self.eras[self.last] = self.era
            if self.clock:
                self.times[self.last] = self.clock()

    def time(self, number: int) -> int:
        """Enqueued time of an event, milliseconds since 1970."""
        return self.times.get(number, enqueued_ms(number, self.eras.get(number, 0)))

    def retain_from(self, number: int) -> None:
        """Remove all events below."""
        for old in [n for n in self.events if n < number]:
            del self.events[old]

    def compact(self, numbers: Iterable[int]) -> None:
        """Remove events at any position."""
        for number in numbers:
            self.events.pop(number, None)

    def forget_last(self, count: int) -> None:
        """Lose the newest events; their numbers are used again."""
        self.last -= count
        self.era += 1
        for lost in [number for number in self.events if number > self.last]:
            del self.events[lost]
        if self.reader:
            self.reader.broken = True

    def batch(self, numbers: Collection[int]) -> EventBatch:
        """Events as readers get them."""
        if not numbers:
            return NO_EVENTS
        rows = EventRows()
        for number in numbers:
            era, time = self.eras.get(number, 0), self.times.get(number)
            append_event(rows, number, self.events[number], era, time, undecoded=number in self.undecoded)
        return EventBatch.of(rows)


class FakeHub:
    """`source.hub.Hub` in memory."""

    def __init__(self, partitions: int = 1) -> None:
        self.partitions = {str(number): FakePartition() for number in range(partitions)}
        self.created_at = CREATED
        self.tells_time = False  # whether properties of partitions have the time of the hub

    def recreate(self) -> None:
        """Delete the hub and create it again, empty, with as many partitions."""
        for name, partition in self.partitions.items():
            if partition.reader:
                partition.reader.broken = True
            self.partitions[name] = FakePartition(era=partition.era + 1)
        self.created_at += timedelta(hours=1)

    def promote(self) -> None:
        """Fail over without a loss: the creation time is another one."""
        self.created_at += timedelta(hours=1)
        for partition in self.partitions.values():
            if partition.reader:
                partition.reader.broken = True

    def add_partition(self) -> None:
        """Add an empty partition."""
        self.partitions[str(len(self.partitions))] = FakePartition()

    async def describe(self) -> HubInfo:
        """See `Hub`."""
        return HubInfo("shop.example", "orders", self.created_at, tuple(self.partitions))

    async def partition(self, partition: str) -> PartitionInfo:
        """See `Hub`."""
        found = self.partitions[partition]
        newest = found.time(found.last) / 1000 if found.last >= 0 else 0
        return PartitionInfo(
            min(found.events, default=found.last),
            found.last,
            datetime.fromtimestamp(newest, UTC),
            not found.events,
            datetime.fromtimestamp(found.clock() / 1000, UTC) if found.clock and self.tells_time else None,
        )

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> "FakeSource":
        """See `Hub`."""
        found = self.partitions[partition]
        if after > found.last:
            raise PositionRefused(f"The supplied sequence number '{after}' is invalid.")
        found.opened += 1
        if found.reader and not found.reader.closed and found.reader.epoch > epoch:
            raise LinkStolen("a reader with a higher epoch is there")
        if found.reader:
            found.reader.stolen = True
        found.reader = FakeSource(found, after - found.early, epoch)
        return found.reader

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """See `Hub`."""
        found = self.partitions[partition]
        for number in sorted(found.events):
            if position.enqueued_time is not None and found.time(number) >= position.enqueued_time.timestamp() * 1000:
                return number
            if position.offset is not None and number * 10 > int(position.offset):
                return number
        return found.last + 1

    async def check_consumer_group(self, partition: str) -> None:
        """See `Hub`."""

    async def close(self) -> None:
        """See `Hub`."""


class FakeSource:
    """`source.hub.Source` in memory."""

    def __init__(self, partition: FakePartition, after: int, epoch: int) -> None:
        self.epoch = epoch
        self.stolen = False
        self.broken = False
        self.frozen = False
        self.closed = False
        self.hurried = False
        self.position = after  # set it back to redeliver
        self._partition = partition

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`."""
        if self.stolen:
            raise LinkStolen("stolen")
        if self.broken:
            raise HubUnreachable("connection lost")
        found = sorted(n for n in self._partition.events if n > self.position)[:max_events] if not self.frozen else []
        batch = self._partition.batch(found)
        if found:
            self.position = found[-1]
        # A wait below the resolution of virtual time would never end.
        await asyncio.sleep(0 if len(batch) else max(max_wait, 0.001))
        return batch

    def hurry(self) -> None:
        """See `Source`."""
        self.hurried = True

    async def close(self) -> None:
        """See `Source`."""
        self.closed = True

    async def abandon(self) -> None:
        """See `Source`."""
        await self.close()


def enqueued_ms(number: int, era: int = 0) -> int:
    """Enqueued time of an event: one event per millisecond; an hour later after each failover."""
    return 1_767_225_600_000 + number + era * 3_600_000


def append_event(
    rows: EventRows, number: int, body: bytes, era: int = 0, time: int | None = None, *, undecoded: bool = False
) -> None:
    """Add one event to rows; its time in milliseconds follows from its number, unless it is given."""
    rows.sequence_numbers.append(number)
    rows.offsets.append(str(number * 10 + era))
    rows.enqueued_ms.append(enqueued_ms(number, era) if time is None else time)
    rows.partition_keys.append("key")
    rows.bodies.append(body)
    rows.properties.keys.append("number")
    rows.properties.values.append(str(number))
    rows.properties.kinds.append(PropertyKind.INTEGER)
    rows.properties.ends.append(len(rows.properties.keys))
    if undecoded:
        rows.system_properties.keys.append(UNDECODED)
        rows.system_properties.values.append("cause")
        rows.system_properties.kinds.append(PropertyKind.TEXT)
    rows.system_properties.ends.append(len(rows.system_properties.keys))
    rows.content_types.append(None)
    rows.message_ids.append(None)
    rows.correlation_ids.append(None)


def rows_of(events: Iterable[tuple[int, bytes]]) -> EventRows:
    """Events, by number and body."""
    rows = EventRows()
    for number, body in events:
        append_event(rows, number, body)
    return rows


def batch_of(events: Iterable[tuple[int, bytes]], undecoded: Container[int] = ()) -> EventBatch:
    """The same as columns; the numbers of those that could not be decoded."""
    rows = EventRows()
    for number, body in events:
        append_event(rows, number, body, undecoded=number in undecoded)
    return EventBatch.of(rows)
