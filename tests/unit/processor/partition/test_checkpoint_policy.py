"""When a checkpoint is due: properties of the rule, whatever comes when."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import CheckpointPolicy, CheckpointRule
from eventconsumer_processor.partition.checkpoint_policy import CheckpointSchedule

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
