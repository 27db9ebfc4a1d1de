"""The last hour of a consumer: what is kept, what is forgotten, and that its memory is bounded."""

import itertools
import random
import tracemalloc
from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.wire.host_report import BatchReport, CommitReport, PartitionLag
from eventconsumer_operator.page.history import (
    BATCHES,
    MAX_PARTITIONS,
    MOVES,
    SLOT_SECONDS,
    SLOTS,
    History,
    Sample,
)
from eventconsumer_operator.page.view import tenures

BEGIN = 1_800_000_000.0
HOSTS = ["", "host-0.a", "host-1.a", "host-1.b"]


def lags(*events: int | None) -> dict[str, PartitionLag]:
    return {str(number): PartitionLag(events=lag, seconds=lag) for number, lag in enumerate(events)}


def test_a_slot_keeps_the_worst_lag_and_others_stay_unknown() -> None:
    history = History()
    for after, lag in ((0, 5), (10, 90), (20, 7), (65, 3)):
        history.see(Sample(BEGIN + after, 2, lags(lag, None)))
    assert history.lag_events(0)[-3:] == [90, None, 3]
    assert history.lag_events(0)[:-3] == [None] * (SLOTS - 3)
    assert history.lag_events(1) == [None] * SLOTS, "what nobody said is not zero"
    assert history.slots()[-1] == (BEGIN + 65) // SLOT_SECONDS


def test_growth_is_told_where_it_was_seen_and_a_smaller_total_begins_anew() -> None:
    history = History()
    for slot, files in enumerate((10, 14, None, 20, 3, 5)):
        history.see(Sample(BEGIN + slot * SLOT_SECONDS, 1, files=files, events=files))
    assert history.new_files()[-6:] == [None, 4, None, 6, 0, 2]
    assert history.new_events() == history.new_files()


def test_a_clock_that_is_set_back_makes_it_begin_anew() -> None:
    history = History()
    history.see(Sample(BEGIN, 1, lags(5)))
    history.see(Sample(BEGIN - 2 * SLOT_SECONDS, 1, lags(6)))
    assert history.lag_events(0)[-3:] == [6, None, 5], "a little: it is put where it belongs"
    history.see(Sample(BEGIN - 10 * SLOTS * SLOT_SECONDS, 1, lags(7)))
    assert history.lag_events(0) == [None] * (SLOTS - 1) + [7]


def test_a_hub_with_more_partitions_keeps_what_was_seen() -> None:
    history = History()
    history.see(Sample(BEGIN, 2, lags(1, 2)))
    history.see(Sample(BEGIN + SLOT_SECONDS, 4, lags(3, 4, 5, 6)))
    assert [history.lag_events(number)[-2:] for number in range(4)] == [[1, 3], [2, 4], [None, 5], [None, 6]]


def test_nonsense_of_a_host_is_bounded() -> None:
    history = History()
    silly = {"0": PartitionLag(events=2**63 - 1, seconds=1e10), "1": PartitionLag(events=0), "x": PartitionLag()}
    far = {"99999999": PartitionLag(events=1), str(MAX_PARTITIONS): PartitionLag(events=1)}
    batch = BatchReport(number=1, files=1, bytes=1, events=1, reason="r" * 10**6)
    owners = {"0": "o" * 10**6, "99999999": "o", "y": "o"}
    history.see(Sample(BEGIN, 10**9, silly | far, owners, files=10**400, batch=batch))
    assert history.partitions == MAX_PARTITIONS
    assert history.lag_events(0)[-1] is not None and history.lag_events(1)[-1] == 0
    assert history.owners.keys() == {0} and len(history.owners[0]) < 1000
    assert len(history.batches[1].reason) < 1000


@given(st.lists(st.tuples(st.floats(-4000, 4000), st.integers(0, 5), st.integers(0, 10**6)), max_size=60))
def test_the_ring_holds_what_a_plain_memory_of_everything_holds(steps: list[tuple[float, int, int]]) -> None:
    history, model, last = History(), dict[tuple[int, int], int](), None
    time = BEGIN
    for step, partition, lag in steps:
        time += step
        slot = int(time // SLOT_SECONDS)
        if last is not None and slot <= last - SLOTS:
            model, last = {}, None
        last = slot if last is None else max(last, slot)
        model[slot, partition] = max(lag, model.get((slot, partition), 0))
        history.see(Sample(time, 0, {str(partition): PartitionLag(events=lag)}))
    assert list(history.slots()) == ([] if last is None else list(range(last - SLOTS + 1, last + 1)))
    for partition in range(history.partitions):
        assert history.lag_events(partition) == [model.get((slot, partition)) for slot in history.slots()]
        assert len(history.lag_seconds(partition)) == len(history.new_files()) == SLOTS


OWNERS = st.none() | st.dictionaries(st.sampled_from("0123"), st.sampled_from(HOSTS[1:]))


@given(st.lists(OWNERS, max_size=80))
def test_tenures_tell_for_each_time_who_owned_it(told: list[dict[str, str] | None]) -> None:
    history = History()
    truth: list[tuple[float, Mapping[str, str]]] = []
    for step, owners in enumerate(told):
        time = BEGIN + step
        history.see(Sample(time, 4, owners=owners))
        if owners is not None:
            truth.append((time, owners))
    assert len(history.moves) <= MOVES
    assert all(move.source != move.target for move in history.moves)
    found = tenures(history)
    if not truth:
        assert found == {} and history.owners_since is None
        return
    assert history.owners_since is not None
    for partition, each in found.items():
        assert each[0].start.timestamp() == history.owners_since and each[-1].end is None
        assert all(one.end == other.start and one.owner != other.owner for one, other in itertools.pairwise(each))
        for time, owners in truth:
            if time < history.owners_since:
                continue
            moment = datetime.fromtimestamp(time, UTC)
            (now,) = [one for one in each if one.start <= moment and (one.end is None or moment < one.end)]
            assert now.owner == owners.get(str(partition), "")


def test_a_batch_is_put_together_from_what_was_seen_of_it() -> None:
    history = History()
    made, done = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    open_batch = BatchReport(number=3, files=24, bytes=1, events=900, reason="Files", created_at=made)
    commit = CommitReport(number=3, committed_at=done, application="a", rows_read=900, rows_written=890, seconds=4)
    history.see(Sample(BEGIN, batch=open_batch))
    assert history.batches[3].committed is None
    history.see(Sample(BEGIN + 1, commit=commit))
    history.see(Sample(BEGIN + 2, batch=open_batch))  # another host led for a moment, and was behind
    batch = history.batches[3]
    assert (batch.reason, batch.files, batch.created, batch.committed, batch.rows) == ("Files", 24, made, done, 890)
    for number in range(4, 4 + BATCHES):
        history.see(Sample(BEGIN + number, batch=open_batch.model_copy(update={"number": number})))
    assert sorted(history.batches) == list(range(4, 4 + BATCHES))


def _busy(seed: int) -> History:
    """A history as full as one can be: each sample moves each of 32 partitions to a host of a new name."""
    chance = random.Random(seed)
    history = History()
    when = datetime(2026, 1, 1, tzinfo=UTC)
    for slot in range(SLOTS + 10):
        batch = BatchReport(
            number=slot, files=1, bytes=10**9, events=10**9 + slot, reason=f"Files {seed} {slot}", created_at=when
        )
        commit = CommitReport(
            number=slot, committed_at=when, application="a", rows_read=1, rows_written=10**9, seconds=slot / 7
        )
        owners = {str(number): f"consumer-{seed}-host-{number}.{chance.random()}" for number in range(32)}
        some = {str(number): PartitionLag(events=chance.randrange(10**9), seconds=slot) for number in range(32)}
        history.see(Sample(BEGIN + slot * SLOT_SECONDS, 32, some, owners, slot, slot, batch, commit))
    return history


def test_the_busiest_consumer_of_32_partitions_takes_less_than_64_kib() -> None:
    """So a thousand take less than 64 MiB, as the module and the chart say."""
    _busy(0)  # what is made once, at the first use
    tracemalloc.start()
    try:
        histories = [_busy(seed) for seed in range(1, 11)]
        size = tracemalloc.get_traced_memory()[0] / len(histories)
    finally:
        tracemalloc.stop()
    assert all(len(each.moves) == MOVES and len(each.batches) == BATCHES for each in histories)
    assert 30_000 < size < 64 * 1024, f"{size:.0f} bytes"
