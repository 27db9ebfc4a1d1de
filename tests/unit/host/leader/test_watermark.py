"""Up to which time all events are in files and in committed batches, on fakes that behave, in virtual time."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.wire.identity import EventMark
from eventconsumer_api.wire.watermark import WatermarkRecord, watermark_name
from eventconsumer_host.leader.lag import Measure
from eventconsumer_host.leader.ledger import Account, Ledger
from eventconsumer_host.leader.tail import Follower, Segment
from eventconsumer_host.leader.watermark import (
    MARGIN,
    STEP,
    Complete,
    WatermarkFile,
    floor,
    merged,
    of_partition,
    of_windows,
    without,
)
from eventconsumer_host.sink.slots import EnqueuedRange, Slot
from eventconsumer_host.source.hub import PartitionInfo
from eventconsumer_storage.errors import Damaged, Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual
from tests.unit.host.leader.test_batches import commit, manifest, planner, world_of
from tests.unit.host.measuring import LeaderWorld, TimedHub, now

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def slot(start: int, earliest: datetime, latest: datetime, last: int | None = None) -> Slot:
    """A file, of events of these times."""
    end = start if last is None else last
    facts = Slot(f"p/{start}", '"e"', 1, NOON, start, start, end, end + 1 - start, 1, "n", str(end), latest)
    return replace(facts, enqueued=EnqueuedRange(earliest, latest))


def ledger(*slots: Slot, start: int = 0, before: EventMark | None = None) -> Ledger:
    """A partition with these files, of which nothing is unknown."""
    found = Ledger(Follower(LeaderWorld(TimedHub(1)).chain("0"), now), start, start)
    found.end, found.end_sought = before, True
    for each in slots:
        found.add(each)
    return found


def hub(last: int, newest: datetime, first: int = 0, read_at: datetime | None = None) -> PartitionInfo:
    """The hub's partition; nothing is retained where `first` is above `last`."""
    return PartitionInfo(first, last, newest, first > last, read_at)


# --- one partition ---------------------------------------------------------------------------------------------------

TEN = slot(0, NOON - HOUR, NOON, 9)
LATER = NOON + 600 * SECOND


@pytest.mark.parametrize(
    ("files", "info", "expected"),
    [
        pytest.param(ledger(TEN), hub(9, NOON), LATER, id="idle"),
        pytest.param(ledger(TEN), hub(12, LATER), NOON, id="more events wait"),
        pytest.param(ledger(TEN), None, NOON, id="the hub is silent"),
        pytest.param(ledger(TEN), hub(8, NOON), NOON, id="the hub ends before the files"),
        pytest.param(ledger(TEN), hub(9, NOON + 2 * SECOND), NOON, id="another event has the number"),
        pytest.param(ledger(TEN), hub(9, NOON + SECOND / 2), LATER, id="properties of partitions may be less exact"),
        pytest.param(ledger(TEN), hub(12, LATER, first=13), LATER, id="what waited has expired"),
        pytest.param(ledger(TEN), hub(12, LATER, first=11), NOON, id="a part of what waited has expired"),
        pytest.param(ledger(TEN, slot(10, NOON - 9 * SECOND, NOON - 9 * SECOND)), hub(12, LATER), NOON, id="time fell"),
        pytest.param(ledger(), hub(-1, NOON), LATER, id="no event yet"),
        pytest.param(ledger(), hub(0, NOON), None, id="no file yet"),
        pytest.param(
            ledger(start=5, before=EventMark(sequence_number=4, enqueued_time=NOON)),
            hub(4, NOON),
            LATER,
            id="started at the latest",
        ),
        pytest.param(
            ledger(start=5, before=EventMark(sequence_number=4, enqueued_time=NOON)),
            hub(4, LATER),
            None,
            id="started at the latest, and the hub has lost that event",
        ),
        pytest.param(None, hub(-1, NOON), LATER, id="not opened, and no event"),
        pytest.param(None, hub(3, NOON), None, id="not opened"),
    ],
)
def test_a_partition_is_complete_up_to_its_files_or_to_the_time_at_which_the_hub_had_no_more(
    files: Ledger | None, info: PartitionInfo | None, expected: datetime | None
) -> None:
    found = of_partition(files, info, LATER if info else None)
    assert found == (expected and expected - MARGIN)


def test_a_clock_that_is_ahead_of_the_hub_does_not_count() -> None:
    assert of_partition(ledger(TEN), hub(9, NOON, read_at=LATER), LATER + HOUR) == LATER - MARGIN
    assert of_partition(ledger(TEN), hub(9, NOON, read_at=LATER + HOUR), LATER) == LATER - MARGIN


def test_an_end_that_is_unknown_is_compared_with_nothing() -> None:
    files = ledger(TEN)
    files.batched(20)  # another host froze files that this one has not seen
    assert of_partition(files, hub(19, NOON), LATER) == NOON - MARGIN


@given(
    st.lists(st.tuples(st.sampled_from("01"), st.integers(0, 99), st.integers(0, 20)), max_size=12), st.integers(0, 110)
)
def test_files_of_windows_leave_no_event_of_them_out(files: list[tuple[str, int, int]], second: int) -> None:
    pending: dict[str, list[Slot]] = {}
    for partition, earliest, more in files:
        slots = pending.setdefault(partition, [])
        slots.append(slot(len(slots), NOON + earliest * SECOND, NOON + (earliest + more) * SECOND))
    end = NOON + second * SECOND
    taken = of_windows(pending, end)
    for partition, slots in pending.items():
        found = taken.get(partition, [])
        assert found == slots[: len(found)]
        assert not found or found[-1].enqueued.earliest < end  # type: ignore[union-attr]
        left = slots[len(found) :]
        assert (without(end, left) or NOON) >= end


def test_files_that_do_not_tell_their_times_leave_the_watermark_unknown() -> None:
    old = replace(TEN, enqueued=None)
    assert without(LATER, [TEN, old]) is None
    assert without(LATER, [TEN]) == NOON - HOUR
    assert of_windows({"0": [old]}, NOON - HOUR) == {"0": [old]}


def test_a_file_whose_events_the_handler_dropped_belongs_to_no_window() -> None:
    empty = replace(slot(10, NOON, NOON, 19), count=0, dropped=10, enqueued=None)
    late = slot(20, NOON + HOUR, NOON + HOUR)
    assert without(LATER, [TEN, empty]) == NOON - HOUR
    assert without(LATER, [empty]) == LATER
    assert of_windows({"0": [TEN, empty]}, NOON) == {"0": [TEN]}
    assert of_windows({"0": [empty, late]}, NOON + 2 * HOUR) == {"0": [empty, late]}
    files = ledger(TEN, replace(empty, last_enqueued_time=NOON + HOUR))
    assert files.newest == NOON + HOUR  # later events are not older than a dropped one


# --- all partitions --------------------------------------------------------------------------------------------------


@virtual
async def test_the_partition_that_is_behind_decides() -> None:
    world = await LeaderWorld.drained(2, 10)
    measure = await world.measure()
    await asyncio.sleep(300)
    await world.report(measure)
    assert measure.complete == now() - MARGIN
    idle = now()
    await asyncio.sleep(10)
    world.hub.publish("0", 1)
    await asyncio.sleep(300)
    await world.report(measure)
    assert measure.complete == idle - MARGIN  # the event of partition 0 is in no file
    await world.drain("0", 10)
    await world.report(measure)
    assert measure.complete == now() - MARGIN


@virtual
async def test_a_partition_that_was_added_counts_before_hosts_know_it() -> None:
    world = await LeaderWorld.drained(1, 1)
    measure = await world.measure()
    await world.report(measure)
    before = measure.complete
    world.hub.add_partition()
    world.hub.publish("1", 1)
    await asyncio.sleep(300)
    await measure.ask_partitions()
    await measure.ask_heads(["0"])
    measure.advance(["0"])
    assert measure.complete == before is not None
    await world.report(measure)
    assert measure.complete == before  # known, and no host has opened it
    await world.drain("1", 0)
    await world.report(measure)
    assert measure.complete == now() - MARGIN


@virtual
async def test_what_counts_is_when_the_hub_was_asked_and_not_when_it_answered() -> None:
    world = await LeaderWorld.drained(1, 1)
    measure = await world.measure()
    await world.report(measure)
    ask_heads, ask_partitions = partial(measure.ask_heads, ["0"]), measure.ask_partitions
    for first, then in ((ask_heads, ask_partitions), (ask_partitions, ask_heads)):
        await asyncio.sleep(300)
        asked, world.hub.seconds = now(), 50.0  # an event that is enqueued meanwhile is in no answer
        await first()
        world.hub.seconds = 0.0
        await then()
        measure.advance(["0"])
        assert measure.complete == asked - MARGIN


@virtual
async def test_a_list_of_partitions_that_is_old_is_complete_up_to_its_time() -> None:
    world = await LeaderWorld.drained(1, 1)
    measure = await world.measure()
    await world.report(measure)
    listed = now()
    await asyncio.sleep(300)
    await measure.ask_heads(["0"])
    measure.advance(["0"])
    assert measure.complete == listed - MARGIN


@virtual
async def test_a_new_leader_finds_the_last_event_of_files_that_are_in_batches() -> None:
    world = world_of({"files": 1})
    for partition in "01":
        world.hub.publish(partition, 10)
        await world.drain(partition, 9)
    leader = await planner(world)
    await leader.round()
    await commit(world, 1)
    await asyncio.sleep(300)
    measure = await world.measure()
    for _ in range(2):
        await world.report(measure)
    assert measure.complete == now() - MARGIN
    world.hub.partitions["0"].forget_last(1)
    world.hub.publish("0", 1)  # another event under the same number
    measure, before = await world.measure(), now()
    for _ in range(2):
        await world.report(measure)
        await asyncio.sleep(5)
    assert measure.complete is not None and measure.complete < before - MARGIN


@virtual
@pytest.mark.parametrize(
    "overrides",
    [
        {"processing": {"handler": "shop:Orders", "handlerMode": "Replace"}},
        {"replay": {"name": "again", "partitions": ["0"]}},
    ],
)
async def test_without_files_and_in_a_replay_there_is_no_watermark(overrides: dict[str, Any]) -> None:
    world = LeaderWorld(TimedHub(1), overrides)
    world.hub.publish("0", 1)
    await world.drain("0", 0)
    measure = await world.measure()
    for _ in range(2):
        await world.report(measure)
    assert measure.completeness() is None


# --- batches ---------------------------------------------------------------------------------------------------------


def commits(measure: Measure) -> tuple[datetime | None, int | None]:
    complete = measure.completeness()
    assert complete is not None
    return complete.commits, complete.batch


@virtual
async def test_commits_are_complete_up_to_the_first_event_in_no_committed_batch() -> None:
    world = world_of({"files": 2, "ageSeconds": 600_000}, {"maxFiles": 2})
    leader = await planner(world)
    world.hub.publish("0", 30)
    world.hub.publish("1", 10)
    start = now()
    await asyncio.sleep(900)
    spans = [(start + number * SECOND, start + (number + 5) * SECOND) for number in (0, 60, 120)]
    for number, last in enumerate((9, 19, 29)):
        await world.drain("0", last, times=spans[number])
        await asyncio.sleep(1)
    world.hub.newest["0"] = spans[-1][-1]
    await world.drain("1", 9, times=(start, start))
    await leader.round()
    await leader.plan()
    first = await manifest(world, 1)
    assert [(file.partition, file.first) for file in first.files] == [("0", 0), ("0", 10)]
    assert first.watermark == start  # of the file of partition 1
    await leader.round()
    assert commits(leader.measure) == (None, None)
    await commit(world, 1)
    report = await leader.round()
    assert report.open_batch is not None
    second = await manifest(world, 2)
    assert second.watermark == now() - MARGIN
    assert commits(leader.measure) == (start, 1)
    await commit(world, 2)
    await asyncio.sleep(60)
    await leader.round()
    assert commits(leader.measure) == (now() - MARGIN, 2)
    again = await planner(world)
    for _ in range(2):
        await again.round()
    assert commits(again.measure) == (now() - MARGIN, 2)


@virtual
async def test_a_window_is_processed_when_all_its_events_are_in_files() -> None:
    world = world_of({"windowSeconds": 3600, "files": 1}, {"maxFiles": 2})
    leader = await planner(world)
    hour = floor(now(), HOUR) + HOUR
    await asyncio.sleep((hour - now()).total_seconds() - 100)
    for partition in "01":
        world.hub.publish(partition, 10)
        await world.drain(partition, 9)
    await asyncio.sleep(95)
    world.hub.publish("0", 10)  # in the last seconds of the hour
    await asyncio.sleep(10)
    world.hub.publish("0", 10)
    world.hub.publish("1", 10)
    await world.drain("1", 19)
    await asyncio.sleep(300)
    for _ in range(3):
        assert (await leader.round()).open_batch is None  # an event of the hour is in no file
    await world.drain("0", 29, times=(hour - 5 * SECOND, hour + 5 * SECOND))
    for _ in range(2):
        report = await leader.round()
    assert report.open_batch is not None and report.open_batch.reason == "Window"
    first = await manifest(world, 1)
    assert [(file.partition, file.first) for file in first.files] == [("0", 0), ("1", 0)]  # maxFiles
    assert first.watermark == hour - 5 * SECOND
    await commit(world, 1)
    await leader.round()
    second = await manifest(world, 2)
    assert [(file.partition, file.first) for file in second.files] == [("0", 10)]
    assert second.watermark is not None and second.watermark >= hour
    await commit(world, 2)
    for _ in range(3):
        report = await leader.round()
    assert (report.open_batch, report.pending_files) == (None, 1)  # of the next hour
    assert commits(leader.measure)[0] == hour + 5 * SECOND
    await asyncio.sleep(3600)
    for _ in range(2):
        report = await leader.round()
    assert report.open_batch is not None and report.open_batch.number == 3


# --- the record ------------------------------------------------------------------------------------------------------


def complete(files: datetime, commits: datetime | None = None, batch: int | None = None) -> Complete:
    return Complete(files, "era", {"0": 10}, commits, batch)


def test_a_record_has_whole_minutes_and_never_falls() -> None:
    first = merged(None, complete(NOON + 90 * SECOND, NOON + SECOND, 3), "c", LATER)
    assert (first.files, first.commits, first.batch) == (NOON + 60 * SECOND, NOON, 3)
    assert merged(first, complete(NOON + 119 * SECOND, NOON + 59 * SECOND, 4), "c", LATER + HOUR) == first
    assert merged(first, complete(NOON - HOUR, NOON - HOUR, 2), "c", LATER) == first
    second = merged(first, complete(NOON - HOUR, NOON + HOUR, 5), "c", LATER)
    assert (second.files, second.commits, second.batch) == (first.files, NOON + HOUR, 5)
    third = merged(second, replace(complete(NOON + HOUR), segment_id="next", next={"0": 3}), "c", LATER)
    assert (third.files, third.segment_id, third.next) == (NOON + HOUR, "next", {"0": 3})
    assert (third.commits, third.batch) == (NOON + HOUR, 5)


@given(st.integers(0, 10**10), st.sampled_from([900, 3600, 86_400]))
def test_windows_begin_at_midnight(milliseconds: int, seconds: int) -> None:
    time = NOON + timedelta(milliseconds=milliseconds)
    begins = floor(time, timedelta(seconds=seconds))
    midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
    assert begins <= time < begins + timedelta(seconds=seconds)
    assert (begins - midnight) % timedelta(seconds=seconds) == timedelta(0)


def watermark(blobs: FakeBlobStore, chain: str = "c") -> WatermarkFile:
    return WatermarkFile(blobs, "p", chain, now)


async def stored(blobs: FakeBlobStore) -> WatermarkRecord:
    blob = await blobs.read(watermark_name("p"), 10**6)
    assert blob is not None
    return WatermarkRecord.model_validate_json(blob.data)


@virtual
async def test_two_hosts_at_once_move_the_record_only_forward() -> None:
    blobs = FakeBlobStore(virtual_clock)
    leader, zombie = watermark(blobs), watermark(blobs)
    await zombie.publish(complete(NOON))
    await leader.publish(complete(NOON + HOUR))
    assert leader.report is not None and leader.report.files == NOON + HOUR
    await zombie.publish(complete(NOON + HOUR / 2))  # refused: the record has changed
    await zombie.publish(complete(NOON + HOUR / 2))  # read, and there is nothing to write
    assert (await stored(blobs)).files == NOON + HOUR
    assert zombie.report == leader.report
    await zombie.publish(complete(NOON + 2 * HOUR))
    await leader.publish(complete(NOON + HOUR))
    assert (await stored(blobs)).files == NOON + 2 * HOUR


@virtual
async def test_a_write_whose_answer_is_lost_is_found() -> None:
    blobs = FakeBlobStore(virtual_clock)
    leader = watermark(blobs)
    blobs.faults.append(Fault("put", applied=True))
    with pytest.raises(Unavailable):
        await leader.publish(complete(NOON))
    calls = len(blobs.calls)
    await leader.publish(complete(NOON + SECOND))
    assert len(blobs.calls) == calls + 1  # it is read, and not written again
    assert leader.report is not None and leader.report.files == NOON
    await leader.publish(complete(NOON + STEP))
    await leader.publish(None)
    assert (await stored(blobs)).files == NOON + STEP


@virtual
async def test_a_damaged_record_is_a_problem_and_one_of_another_chain_is_replaced() -> None:
    blobs = FakeBlobStore(virtual_clock)
    await blobs.put(watermark_name("p"), b"{}")
    with pytest.raises(Damaged, match="delete it"):
        await watermark(blobs).publish(complete(NOON))
    blobs.delete(watermark_name("p"))
    await watermark(blobs, "other").publish(complete(NOON + HOUR))
    await watermark(blobs).publish(complete(NOON))
    assert ((await stored(blobs)).chain, (await stored(blobs)).files) == ("c", NOON)


@virtual
async def test_files_of_an_ended_segment_wait_for_a_batch_too() -> None:
    world = world_of({"files": 100})
    world.hub.publish("0", 10)
    await world.drain("0", 9)
    measure = await world.measure()
    await world.report(measure)
    measure.accounts.append(Account(Segment("next", world.chain, now)))
    measure.complete = now()
    backlog = measure.backlog()
    assert backlog is not None and backlog.account is measure.accounts[0]
    assert backlog.without({}) == world.hub.newest["0"]
    assert backlog.without(backlog.pending) == now()
