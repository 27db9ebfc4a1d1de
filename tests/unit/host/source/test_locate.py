"""The position of an offset or a time: of the first event that counts, also on a link that starts before it."""

from datetime import UTC, datetime, timedelta

import pytest

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import PartitionInfo
from eventconsumer_host.source.locate import locate
from eventconsumer_host.source.rows import EventRows
from tests.support.fakes.hub import FakePartition, FakeSource, append_event


class Source(FakeSource):
    """Its first event has sequence number 7 and a given offset."""

    def __init__(self, offset: str, time: datetime | None = None) -> None:
        super().__init__(FakePartition(), -1, 1)
        self._offset = offset
        self._time = int(time.timestamp() * 1000) if time else None

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`."""
        rows = EventRows()
        append_event(rows, 7, b"", time=self._time)
        rows.offsets[0] = self._offset
        return EventBatch.of(rows)


class Silent(Source):
    """It delivers nothing."""

    def __init__(self) -> None:
        super().__init__("")

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`."""
        return EventBatch.of(EventRows())


@pytest.mark.parametrize(
    ("wanted", "found", "number"),
    [
        ("30", "30", 8),
        ("29", "30", 7),
        ("1:22:30", "1:22:30", 8),
        ("1:22:29", "1:22:30", 7),
        ("30", "1:22:30", 7),  # perhaps the same event: it is read rather than left out
    ],
)
async def test_an_offset_is_compared_with_that_of_the_event_there(wanted: str, found: str, number: int) -> None:
    async def open_at(where: object) -> Source:
        assert where == wanted
        return Source(found)

    end = PartitionInfo(0, 9, datetime(2026, 1, 1, tzinfo=UTC), False)
    position = Position(type=PositionType.OFFSET, offset=wanted)
    assert await locate("0", position, end, open_at, 1) == number


@pytest.mark.parametrize(
    ("seconds", "offset", "number"),
    [
        (1.0, None, 10),  # after the last event: no link is opened
        (0.5, "30", 7),  # the properties may give whole seconds, so an event at this time may exist
        (0.5, "", 9),  # the last event is not delivered either
        (0.0, "30", 7),
    ],
)
async def test_a_time_is_compared_with_the_properties_to_the_second(
    seconds: float, offset: str | None, number: int
) -> None:
    last = datetime(2026, 1, 1, tzinfo=UTC)
    wanted = last + timedelta(seconds=seconds)

    async def open_at(where: object) -> Source:
        assert where == (8 if not offset and asked else wanted)
        assert offset is not None
        asked.append(where)
        return Source(offset, wanted) if offset else Silent()

    asked: list[object] = []
    position = Position(type=PositionType.ENQUEUED_TIME, enqueued_time=wanted)
    assert await locate("0", position, PartitionInfo(0, 9, last, False), open_at, 1) == number


async def test_a_link_that_delivers_nothing_at_an_existing_time_is_a_failure() -> None:
    async def open_at(where: object) -> Source:
        return Silent()

    last = datetime(2026, 1, 1, tzinfo=UTC)
    position = Position(type=PositionType.ENQUEUED_TIME, enqueued_time=last)
    with pytest.raises(HubUnreachable, match="delivered no event"):
        await locate("0", position, PartitionInfo(0, 9, last, False), open_at, 1)


# Ten events, one per millisecond from the start of 2026, with the offsets 0, 10, ... 90.
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("early", [0, 1, 4, 9])
@pytest.mark.parametrize(
    ("wanted", "link", "number"),
    [
        ("60", 6, 7),  # the offset of event 6; an inclusive link starts there
        ("90", 9, 10),
        (timedelta(milliseconds=6), 6, 6),
        (timedelta(milliseconds=9), 9, 9),
        (timedelta(milliseconds=9.5), 9, 9),  # compared by whole milliseconds, as the hub does
        (timedelta(milliseconds=400), 10, 10),  # after the last event: by its own time, not by whole seconds
    ],
)
async def test_a_link_may_start_before_the_position(
    wanted: str | timedelta, link: int, number: int, early: int
) -> None:
    partition = FakePartition()
    partition.add(*[b""] * 10)

    async def open_at(where: object) -> FakeSource:
        start = where + 1 if isinstance(where, int) else link
        return FakeSource(partition, start - 1 - early, 1)

    if isinstance(wanted, str):
        position = Position(type=PositionType.OFFSET, offset=wanted)
    else:
        position = Position(type=PositionType.ENQUEUED_TIME, enqueued_time=START + wanted)
    assert await locate("0", position, PartitionInfo(0, 9, START, False), open_at, 0.01) == number
