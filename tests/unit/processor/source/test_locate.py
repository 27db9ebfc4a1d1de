"""The position of an offset: behind the event with this offset, and at the next event if there is none."""

from datetime import UTC, datetime

import pytest

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.hub import PartitionInfo
from eventconsumer_processor.source.locate import locate
from eventconsumer_processor.source.rows import EventRows
from tests.support.fakes.hub import FakePartition, FakeSource, append_event


class Source(FakeSource):
    """Its first event has sequence number 7 and a given offset."""

    def __init__(self, offset: str) -> None:
        super().__init__(FakePartition(), -1, 1)
        self._offset = offset

    async def receive(self, max_events: int, max_wait: float) -> EventBatch:
        """See `Source`."""
        rows = EventRows()
        append_event(rows, 7, b"")
        rows.offsets[0] = self._offset
        return EventBatch.of(rows)


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
