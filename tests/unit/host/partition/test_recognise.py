"""A hub is recognised by the last event that was read: failovers that lose events, promotions, hubs created again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host.partition import marks
from tests.support.fakes.hub import FakeHub, FakeSource
from tests.support.fakes.virtual import virtual
from tests.unit.host.stage import CONFIG, PumpWorld, Running, eventually

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOLD = CONFIG | {"roll": {"maxBytes": 1_000_000, "maxSeconds": 300, "maxEvents": 1000}}


def bodies(first: int, last: int, era: str = "old") -> list[bytes]:
    return [b"%s %d" % (era.encode(), number) for number in range(first, last + 1)]


def in_files(stage: PumpWorld) -> list[bytes]:
    """Bodies in files, in chain order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = sorted(name for name in stage.sink.blobs if "/from=" in name)
    tables = [pq.read_table(pa.BufferReader(stage.sink.blobs[name].data)) for name in names]
    return [body for table in tables for body in table["body"].to_pylist()]


def diverged(running: Running) -> bool:
    return Reason.HUB_DIVERGED in running.reasons()


async def drained(stage: PumpWorld, count: int) -> Running:
    running = await stage.pump()
    stage.partition.add(*bodies(0, count - 1))
    await eventually(lambda: len(stage.rows()) == count)
    return running


@pytest.mark.parametrize("new", [0, 2, 3, 9, 50])
@virtual
async def test_a_hub_that_lost_events_in_files_is_not_read_however_many_new_ones_it_has(new: int) -> None:
    stage = PumpWorld()
    running = await drained(stage, 20)
    stage.partition.forget_last(3)
    stage.partition.add(*bodies(17, 16 + new, "new"))
    if not new:
        stage.partition.reader.broken = True  # type: ignore[union-attr]
    await eventually(lambda: diverged(running))
    message = running.problem(Reason.HUB_DIVERGED).message
    assert "number 19, offset 190, enqueued 2026-01-01T00:00:00.019+00:00" in message
    assert f"the last event in the Event Hub is number {16 + new}, " in message
    assert "kubectl eventconsumer hub accept" in message
    for _ in range(20):
        stage.partition.add(b"more")
        await eventually(lambda: True)
    assert in_files(stage) == bodies(0, 19)
    await running.stop()
    again = await stage.pump("host-b")
    await eventually(lambda: diverged(again))
    await again.stop()
    assert in_files(stage) == bodies(0, 19)


@pytest.mark.parametrize("new", [0, 1, 5])
@virtual
async def test_a_hub_that_lost_the_event_before_an_empty_chain_is_not_read(new: int) -> None:
    """No file names an event, so the genesis record does: new events under its number would be left out."""
    stage = PumpWorld(overrides={"startingPosition": {"type": "Latest"}})
    stage.partition.add(*bodies(0, 9))
    running = await stage.pump()
    await eventually(lambda: stage.partition.reader is not None)
    await running.stop()
    stage.partition.forget_last(1)
    stage.partition.add(*bodies(9, 8 + new, "new"))
    again = await stage.pump("host-b")
    await eventually(lambda: diverged(again))
    assert "number 9, enqueued 2026-01-01T00:00:00.009+00:00" in again.problem(Reason.HUB_DIVERGED).message
    await again.stop()
    assert in_files(stage) == []


@virtual
async def test_the_problem_goes_away_when_the_hub_comes_back() -> None:
    stage = PumpWorld()
    running = await drained(stage, 20)
    events, eras = dict(stage.partition.events), dict(stage.partition.eras)
    stage.partition.forget_last(3)
    stage.partition.add(*bodies(17, 30, "new"))
    await eventually(lambda: diverged(running))
    stage.partition.events, stage.partition.eras, stage.partition.last = events, eras, 19
    stage.partition.add(*bodies(20, 29))
    await eventually(lambda: len(stage.rows()) == 30)
    assert running.pump.problems() == []
    assert in_files(stage) == bodies(0, 29)
    await running.stop()


@pytest.mark.parametrize("lost", [1, 5, 10])
@virtual
async def test_received_events_that_vanish_before_a_file_is_made_are_dropped(lost: int) -> None:
    """They are read again, as what they are now: nothing is lost, doubled or mixed."""
    stage = PumpWorld(overrides={"roll": HOLD["roll"]})
    running = await stage.pump()
    stage.partition.add(*bodies(0, 9))
    await eventually(lambda: running.pump.report().sequence_number == 9)
    stage.partition.forget_last(lost)
    stage.partition.add(*bodies(10 - lost, 20, "new"))
    await eventually(lambda: running.pump.report().sequence_number == 20)
    assert not diverged(running)
    await running.stop()
    assert in_files(stage) == [*bodies(0, 9 - lost), *bodies(10 - lost, 20, "new")]


@virtual
async def test_events_in_a_file_and_in_memory_vanish_together() -> None:
    stage = PumpWorld(overrides={"roll": {"maxBytes": 1_000_000, "maxSeconds": 300, "maxEvents": 10}})
    running = await stage.pump()
    stage.partition.add(*bodies(0, 14))  # ten in a file, five in memory
    await eventually(lambda: running.pump.report().sequence_number == 14 and len(stage.rows()) == 10)
    stage.partition.forget_last(6)
    stage.partition.add(*bodies(9, 30, "new"))
    await eventually(lambda: diverged(running))
    assert "number 9, offset 90" in running.problem(Reason.HUB_DIVERGED).message
    await running.stop()
    assert in_files(stage) == bodies(0, 9)


@virtual
async def test_a_promotion_that_keeps_all_events_is_read_on() -> None:
    stage = PumpWorld()
    running = await drained(stage, 10)
    stage.hub.promote()
    stage.partition.add(*bodies(10, 29))
    await eventually(lambda: len(stage.rows()) == 30)
    assert in_files(stage) == bodies(0, 29)
    await running.stop()


@virtual
async def test_a_hub_created_again_is_not_read_where_an_event_tells_nor_where_none_does() -> None:
    stage = PumpWorld()
    running = await drained(stage, 10)
    stage.hub.recreate()
    stage.partition.add(*bodies(0, 49, "new"))
    await eventually(lambda: diverged(running))
    await running.stop()
    assert in_files(stage) == bodies(0, 9)
    stage.partition.retain_from(40)  # nothing to compare: the creation time tells
    again = await stage.pump("host-b")
    await eventually(lambda: diverged(again))
    assert "was created at" in again.problem(Reason.HUB_DIVERGED).message
    await again.stop()
    assert in_files(stage) == bodies(0, 9)


class RecreatedWhileAttaching(FakeHub):
    """The old hub is deleted and created again just before a link attaches."""

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> FakeSource:
        """See `Hub`."""
        self.recreate()
        self.partitions[partition].add(*bodies(0, 40, "new"))
        return await super().open(partition, after, epoch, prefetch)


@virtual
async def test_a_hub_recreated_before_the_first_link_attaches_is_not_read() -> None:
    stage = PumpWorld(hub=RecreatedWhileAttaching(), overrides={"startingPosition": {"type": "Latest"}})
    stage.partition.add(*bodies(0, 29))  # the new hub's first events could be skipped
    running = await stage.pump()
    await eventually(lambda: diverged(running))
    assert stage.files() == {}
    await running.stop()


@virtual
async def test_an_event_that_was_compacted_away_is_no_reason_to_stop() -> None:
    stage = PumpWorld()
    running = await drained(stage, 20)
    stage.partition.add(*bodies(20, 24))
    stage.partition.compact([19])
    stage.partition.reader.broken = True  # type: ignore[union-attr]
    await eventually(lambda: len(stage.rows()) == 25)
    await running.stop()
    stage.partition.compact([24])  # the newest of all: no event comes, but the partition's end says when it came
    again = await stage.pump("host-b")
    await eventually(lambda: again.pump.report().next_sequence_number == 25)
    stage.partition.add(*bodies(25, 34))
    await eventually(lambda: len(stage.rows()) == 35)
    await again.stop()


@pytest.mark.parametrize("early", [1, 4, 30])
@virtual
async def test_a_link_that_starts_early_does_not_hide_that_the_hub_lost_events(early: int) -> None:
    """The events below the last one that was read prove nothing: it is still compared."""
    stage = PumpWorld()
    running = await drained(stage, 20)
    stage.partition.early = early
    stage.partition.forget_last(3)
    stage.partition.add(*bodies(17, 40, "new"))
    await eventually(lambda: diverged(running))
    await running.stop()
    assert in_files(stage) == bodies(0, 19)


@pytest.mark.parametrize("early", [1, 30])
@virtual
async def test_a_link_that_starts_early_is_read_on_once_the_last_event_came(early: int) -> None:
    stage = PumpWorld()
    running = await drained(stage, 20)
    stage.partition.early = early
    stage.partition.reader.broken = True  # type: ignore[union-attr]
    stage.partition.add(*bodies(20, 29))
    await eventually(lambda: len(stage.rows()) == 30)
    assert running.pump.problems() == [] and stage.partition.opened == 2
    await running.stop()
    assert in_files(stage) == bodies(0, 29)


class Silent(FakeHub):
    """Its second link gives nothing."""

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> FakeSource:
        """See `Hub`."""
        source = await super().open(partition, after, epoch, prefetch)
        source.frozen = self.partitions[partition].opened == 2
        return source


@pytest.mark.slow
@virtual
async def test_a_link_that_gives_nothing_is_opened_again() -> None:
    stage = PumpWorld(hub=Silent())
    running = await drained(stage, 10)
    stage.partition.add(*bodies(10, 19))
    await eventually(lambda: len(stage.rows()) == 20)
    stage.partition.reader.broken = True  # type: ignore[union-attr]
    stage.partition.add(*bodies(20, 29))
    await eventually(lambda: len(stage.rows()) == 30, 120)
    assert stage.partition.opened == 3
    await running.stop()


def mark(offset: str, seconds: float | None) -> EventMark:
    time = None if seconds is None else NOON + timedelta(seconds=seconds)
    return EventMark(sequence_number=7, offset=offset, enqueued_time=time)


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (("70", 1.0), ("70", 1.0), True),
        (("70", 1.0), ("71", 1.0), False),
        (("70", 1.0), ("70", 1.001), False),
        (("70", 1.0), ("70", 1.0004), True),  # milliseconds
        (("70", 1.0), ("1:22:333", 1.0), True),  # geo-replication was enabled
        (("1:22:333", 1.0), ("1:22:334", 1.0), False),
        (("70", 1.0), ("", 1.0), True),
        (("", 1.0), ("70", 1.9), True),  # the time is from the properties of the partition
        (("", 1.0), ("70", 2.1), False),
        (("70", None), ("70", 1.0), True),
        (("70", None), ("71", 1.0), False),
        (("70", None), ("1:22:333", 1.0), None),
        (("", None), ("70", 1.0), None),
    ],
)
def test_events_are_compared_by_time_and_opaque_offset(ours: Any, theirs: Any, same: bool | None) -> None:
    assert marks.same(mark(*ours), mark(*theirs)) is same
