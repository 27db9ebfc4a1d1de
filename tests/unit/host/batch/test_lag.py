"""How far partitions are behind: heads over time, what is retained, and where unopened partitions will start."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_api.wire.host_report import PartitionLag
from eventconsumer_host.batch.lag import LOOKS, STALE, Heads, first_wanted, lag_of
from eventconsumer_host.source.hub import PartitionInfo
from tests.support.fakes.hub import CREATED as NOW

UNKNOWN = PartitionLag()
NOTHING = PartitionLag(events=0, seconds=0.0)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def info(last: int, first: int = 0, newest: datetime = NOW) -> PartitionInfo:
    """A partition that retains `first` to `last`; nothing where `first` is above."""
    empty = first > last
    return PartitionInfo(-1 if last < 0 else first, last, newest, empty)


def heads(looks: Iterable[tuple[float, PartitionInfo]]) -> Heads:
    """Heads as seen so many seconds ago."""
    found = Heads()
    for seconds, seen in looks:
        found.see(seen, ago(seconds))
    return found


# --- events ----------------------------------------------------------------------------------------------------------


def test_a_hub_that_never_answered_or_not_lately_says_nothing() -> None:
    assert lag_of(Heads(), 0, None, NOW) == UNKNOWN
    assert lag_of(heads([(STALE.total_seconds(), info(9))]), 0, None, NOW) == UNKNOWN
    assert lag_of(heads([(STALE.total_seconds() - 1, info(9))]), 0, None, NOW).events == 10


def test_what_ends_before_the_files_is_not_their_hub() -> None:
    assert lag_of(heads([(0, info(9))]), 10, None, NOW) == NOTHING
    assert lag_of(heads([(0, info(9))]), 11, None, NOW) == UNKNOWN


def test_an_empty_partition_has_no_lag() -> None:
    assert lag_of(heads([(0, info(-1))]), 0, None, NOW) == NOTHING
    # All of 0 to 99 was removed by retention; the files end at 49.
    assert lag_of(heads([(0, info(99, first=100))]), 50, None, NOW) == NOTHING


def test_only_what_is_retained_counts() -> None:
    assert lag_of(heads([(0, info(99, first=80))]), 50, None, NOW).events == 20


@given(last=st.integers(-1, 50), kept=st.integers(0, 51), reached=st.integers(0, 60))
def test_the_lag_is_what_can_be_read_and_is_in_no_file(last: int, kept: int, reached: int) -> None:
    retained = range(max(0, last + 1 - kept), last + 1)
    found = lag_of(heads([(0, info(last, first=retained.start))]), reached, None, NOW)
    if reached > last + 1:
        assert found == UNKNOWN
    else:
        assert found.events == sum(number >= reached for number in retained)


# --- seconds ---------------------------------------------------------------------------------------------------------


def test_an_event_is_at_most_as_old_as_the_last_look_that_did_not_see_it() -> None:
    seen = heads([(30, info(9, newest=ago(3600))), (20, info(9, newest=ago(3600))), (10, info(12)), (0, info(15))])
    assert lag_of(seen, 10, None, NOW).seconds == 20
    assert lag_of(seen, 13, None, NOW).seconds == 10
    assert lag_of(seen, 16, None, NOW).seconds == 0


def test_the_file_before_tells_too_once_this_leader_saw_it() -> None:
    assert lag_of(heads([(10, info(9)), (0, info(15))]), 10, ago(4), NOW).seconds == 4


def test_events_that_waited_before_the_first_look_are_at_least_as_old_as_its_head() -> None:
    seen = heads([(50, info(9, newest=ago(55)))])
    for seconds in (40, 30, 0):  # more comes all the time, and nothing is drained
        seen.see(info(100 - seconds, newest=ago(seconds)), ago(seconds))
    assert lag_of(seen, 5, None, NOW).seconds == 55
    assert lag_of(seen, 5, ago(200), NOW).seconds == 200  # a file of this time says more


@given(arrivals=st.lists(st.integers(1, 20), min_size=1, max_size=40), reached=st.integers(0, 200))
def test_the_age_is_never_less_than_true_and_at_most_one_look_more(arrivals: list[int], reached: int) -> None:
    """One look a second; so many events between two of them, all enqueued just behind the look before."""
    seen, enqueued = Heads(), list[datetime]()
    start = ago(len(arrivals))
    seen.see(info(-1), start)
    for second, count in enumerate(arrivals):
        enqueued += [start + timedelta(seconds=second)] * count
        seen.see(info(len(enqueued) - 1, newest=enqueued[-1]), start + timedelta(seconds=second + 1))
    found = lag_of(seen, reached, None, NOW)
    if reached < len(enqueued):
        assert found.seconds == (NOW - enqueued[reached]).total_seconds()
    else:
        assert found == (NOTHING if reached == len(enqueued) else UNKNOWN)


def test_a_long_lag_does_not_grow_the_memory_and_keeps_its_age() -> None:
    seen = Heads()
    count = LOOKS * 3
    for number in range(count):
        seen.see(info(number, newest=ago(count - number)), ago(count - number))
    found = lag_of(seen, 0, None, NOW - timedelta(seconds=1))
    assert found.seconds == count - 1
    assert len(seen._looks) <= LOOKS
    assert lag_of(seen, count - 1, None, NOW - timedelta(seconds=1)).seconds == 1
    assert len(seen._looks) == 2  # what is behind the files is forgotten


# --- partitions that nobody opened yet -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        (Position(), 80),
        (Position(type=PositionType.LATEST), 100),
        (Position(type=PositionType.SEQUENCE_NUMBER, sequence_number=90), 90),
        (Position(type=PositionType.SEQUENCE_NUMBER, sequence_number=7), 80),
        (Position(type=PositionType.ENQUEUED_TIME, enqueued_time=ago(-1)), 100),
        (Position(type=PositionType.ENQUEUED_TIME, enqueued_time=ago(-0.5)), 80),  # perhaps whole seconds
        (Position(type=PositionType.ENQUEUED_TIME, enqueued_time=ago(1)), 80),
        (Position(type=PositionType.OFFSET, offset="990"), 80),
    ],
)
def test_a_partition_that_nobody_opened_counts_from_where_it_will_start(wanted: Position, first: int) -> None:
    assert first_wanted(wanted, info(99, first=80)) == first


@pytest.mark.parametrize("kind", [PositionType.EARLIEST, PositionType.LATEST])
def test_an_empty_partition_that_nobody_opened_has_nothing(kind: PositionType) -> None:
    for empty in (info(-1), info(99, first=100)):
        assert first_wanted(Position(type=kind), empty) == empty.last + 1
