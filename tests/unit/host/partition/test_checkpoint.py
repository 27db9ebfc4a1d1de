"""The position from which a partition continues, and the times of checkpoints.

All disagreements of checkpoint, files and starting position, and properties of the schedule.
"""

from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.errors import Blocked
from eventconsumer_api.v1alpha1 import CheckpointPolicy, CheckpointRule, StartingPosition
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.partition.checkpoint import CheckpointSchedule, resume
from eventconsumer_host.sink.gaps import Gap, GapReason
from eventconsumer_host.sink.slots import Chain, Draft, parse_genesis
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore
from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual

EARLIEST = StartingPosition()
NOW = datetime(2026, 11, 23, tzinfo=UTC)


def lease(at: int | None) -> Lease:
    """A lease with a checkpoint."""
    return Lease("0", checkpoint=None if at is None else Checkpoint(str(at * 10), at), epoch=7)


async def chain_of(*ends: int, start: int = 0, epoch: int = 3) -> Chain:
    """A chain whose files end at these numbers."""
    chain = Chain(FakeBlobStore(virtual_clock), "p", "era", "0")
    await chain.begin(start)
    for end in ends:
        await chain.put(
            Draft(
                start=start,
                first=start,
                last=end,
                count=end - start + 1,
                epoch=epoch,
                writer="w",
                nonce=f"n{end}",
                last_offset=str(end * 10),
                last_enqueued_time=datetime(2026, 1, 1, tzinfo=UTC),
            ),
            b"x",
        )
        start = end + 1
    return chain


@pytest.mark.parametrize("checkpoint", [None, 2, 9, 12, 19, 29, -1])
@virtual
async def test_any_checkpoint_up_to_the_end_leads_to_the_end(checkpoint: int | None) -> None:
    """Also one that ends no file: inside a file, or below the start."""
    chain = await chain_of(9, 19, 29)
    end = await resume(chain, lease(checkpoint), FakeHub(), EARLIEST, NOW)
    assert (end.next, end.expected, end.epoch) == (30, 30, 3)
    assert end.checkpoint == Checkpoint("290", 29)


@pytest.mark.parametrize("checkpoint", [30, 35, 10**15])
@virtual
async def test_a_checkpoint_behind_the_end_is_refused_since_it_would_skip_events(checkpoint: int) -> None:
    chain = await chain_of(9, 19, 29)
    with pytest.raises(Blocked, match=rf"is {checkpoint}, but its files end at 29: .* sequence number .* to 29"):
        await resume(chain, lease(checkpoint), FakeHub(), EARLIEST, NOW)


@virtual
async def test_a_checkpoint_without_any_file_is_refused_too() -> None:
    with pytest.raises(Blocked, match="files end at 4"):
        await resume(await chain_of(start=5), lease(8), FakeHub(), EARLIEST, NOW)
    assert (await resume(await chain_of(start=5), lease(4), FakeHub(), EARLIEST, NOW)).next == 5


@virtual
async def test_where_leases_are_shared_the_other_programs_share_is_recorded() -> None:
    end = await resume(await chain_of(9, 19), lease(24), FakeHub(), EARLIEST, NOW, shared=True)
    assert (end.next, end.expected, end.epoch) == (20, 25, 3)
    assert end.skipped == Gap(20, 24, GapReason.FOREIGN)


@virtual
async def test_another_programs_checkpoint_is_where_a_new_chain_starts() -> None:
    chain = Chain(FakeBlobStore(virtual_clock), "p", "era", "0")
    assert (await resume(chain, lease(41), FakeHub(), EARLIEST, NOW)).next == 42
    assert await chain.start() == 42


@pytest.mark.parametrize(
    ("position", "start"),
    [
        ({"type": "Earliest"}, 3),
        ({"type": "Latest"}, 10),
        ({"type": "SequenceNumber", "sequenceNumber": 6}, 6),
        ({"type": "SequenceNumber", "sequenceNumber": 1}, 3),
        ({"type": "SequenceNumber", "sequenceNumber": 10}, 10),
        ({"type": "Offset", "offset": "50"}, 6),
        ({"type": "Offset", "offset": "90"}, 10),
        ({"type": "EnqueuedTime", "enqueuedTime": "2026-01-01T00:00:00.007Z"}, 7),
        ({"type": "EnqueuedTime", "enqueuedTime": "2026-06-01T00:00:00Z"}, 10),
        ({"type": "Latest", "partitions": {"0": {"type": "SequenceNumber", "sequenceNumber": 8}}}, 8),
        ({"type": "Latest", "partitions": {"1": {"type": "Earliest"}}}, 10),
    ],
)
@virtual
async def test_starting_positions(position: dict[str, Any], start: int) -> None:
    hub = FakeHub()
    hub.partitions["0"].add(*[b"x"] * 10)
    hub.partitions["0"].retain_from(3)
    chain = Chain(FakeBlobStore(virtual_clock), "p", "era", "0")
    wanted = StartingPosition.model_validate(position)
    assert (await resume(chain, lease(None), hub, wanted, NOW)).next == start
    hub.partitions["0"].add(b"later")
    assert (await resume(chain, lease(None), hub, EARLIEST, NOW)).next == start  # decided once


@virtual
async def test_a_start_that_does_not_exist_yet_is_refused_and_not_decided() -> None:
    chain = Chain(FakeBlobStore(virtual_clock), "p", "era", "0")
    wanted = StartingPosition.model_validate({"type": "SequenceNumber", "sequenceNumber": 5})
    with pytest.raises(
        Blocked, match=r"spec\.startingPosition\.sequenceNumber: .* is sequence number 5, .* last is -1"
    ):
        await resume(chain, lease(None), FakeHub(), wanted, NOW)
    assert await chain.start() is None


@pytest.mark.parametrize("checkpoint", [7, 1_000_000, 12_345_678])
@virtual
async def test_the_last_file_is_found_whatever_the_numbers(checkpoint: int) -> None:
    blobs = FakeBlobStore(virtual_clock)
    chain = Chain(blobs, "p", "era", "0")
    size = max(1, checkpoint // 10)
    ends = [*range(size - 1, checkpoint, size), checkpoint]
    chain = await chain_of(*sorted(set(ends)))
    found = await chain.last_before(checkpoint)
    assert found is not None and found.last == checkpoint
    assert await chain.last_before(0) is not None


At = Literal["file", "batch"]

# (seconds since the one before, events done)
steps = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 50)), max_size=60)


def moment(replaces_files: bool) -> At:
    return "batch" if replaces_files else "file"


@given(steps, st.booleans(), st.sampled_from([None, CheckpointPolicy.FILE, CheckpointPolicy.BATCH]))
def test_file_and_batch_take_every_moment_with_something_to_say(
    steps: list[tuple[float, int]], replaces: bool, policy: CheckpointPolicy | None
) -> None:
    schedule = CheckpointSchedule(CheckpointRule(policy=policy), replaces_files=replaces)
    now = 0.0
    for seconds, events in steps:
        now += seconds
        schedule.note(events, now)
        assert schedule.due(now, moment(replaces)) == (events > 0)
        if schedule.due(now, moment(replaces)):
            schedule.written(now)


@given(steps, st.booleans(), st.integers(1, 100))
def test_events_bounds_how_many_are_in_no_checkpoint(
    steps: list[tuple[float, int]], replaces: bool, limit: int
) -> None:
    rule = CheckpointRule(policy=CheckpointPolicy.EVENTS, events=limit)
    schedule = CheckpointSchedule(rule, replaces_files=replaces)
    uncovered = 0
    for seconds, events in steps:
        schedule.note(events, seconds)
        uncovered += events
        assert schedule.due(seconds, moment(replaces)) == (uncovered >= limit)
        if uncovered >= limit:
            schedule.written(seconds)
            uncovered = 0


@given(steps, st.booleans(), st.integers(1, 120))
def test_interval_bounds_how_long_an_event_is_in_no_checkpoint(
    steps: list[tuple[float, int]], replaces: bool, limit: int
) -> None:
    rule = CheckpointRule(policy=CheckpointPolicy.INTERVAL, seconds=limit)
    schedule = CheckpointSchedule(rule, replaces_files=replaces)
    now, oldest = 0.0, None
    for seconds, events in steps:
        now += seconds
        schedule.note(events, now)
        if events and oldest is None:
            oldest = now
        assert schedule.due(now, moment(replaces)) == (oldest is not None and now - oldest >= limit)
        if schedule.due(now, moment(replaces)):
            schedule.written(now)
            oldest = None


@given(st.sampled_from([None, *CheckpointPolicy]), st.booleans(), st.integers(1, 10**9), st.floats(0, 10**9))
def test_only_a_safe_place_is_taken(policy: CheckpointPolicy | None, replaces: bool, events: int, later: float) -> None:
    schedule = CheckpointSchedule(CheckpointRule(policy=policy), replaces_files=replaces)
    schedule.note(events, 0.0)
    assert not schedule.due(later, moment(not replaces))


@given(st.sampled_from([None, *CheckpointPolicy]), st.booleans(), st.floats(0, 10**9))
def test_nothing_done_is_never_written(policy: CheckpointPolicy | None, replaces: bool, now: float) -> None:
    schedule = CheckpointSchedule(CheckpointRule(policy=policy), replaces_files=replaces)
    assert not schedule.due(now, moment(replaces))
    schedule.note(0, now)
    assert not schedule.due(now + 10**9, moment(replaces))


@given(steps, st.floats(0, 10**9))
def test_with_policy_handler_the_host_writes_none(steps: list[tuple[float, int]], later: float) -> None:
    schedule = CheckpointSchedule(CheckpointRule(policy=CheckpointPolicy.HANDLER), replaces_files=True)
    assert not schedule.automatic
    for seconds, events in steps:
        schedule.note(events, seconds)
        assert not schedule.due(seconds + later, "batch")


@pytest.mark.parametrize("start", [b"5.9", b'"5"', b"true", b"null", b"-1"])
def test_a_start_that_is_no_integer_is_not_made_one(start: bytes) -> None:
    """The audit takes such a record for damaged."""
    with pytest.raises(ValueError, match=r"valid integer|greater than or equal to 0"):
        parse_genesis(b'{"start":' + start + b"}")
