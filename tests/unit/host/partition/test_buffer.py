"""The buffer between receiving and a file, above all what stays of it when another writer's file is adopted."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import Roll
from eventconsumer_host.partition import holes
from eventconsumer_host.partition.buffer import JOINED_BATCHES, SMALL_BYTES, Buffer
from tests.support.fakes.hub import batch_of


def buffered(start: int, numbers: list[int], now: float = 0.0) -> Buffer:
    """A buffer of batches of three, as a pump fills it from `start` on."""
    buffer = Buffer()
    expected = start
    for at in range(0, len(numbers), 3):
        batch = batch_of((number, b"x") for number in numbers[at : at + 3])
        buffer.gaps += holes.removed(holes.missing(expected, batch.numbers), numbers[-1])
        expected = batch.last + 1
        buffer.add(batch, now)
    return buffer


@given(st.sets(st.integers(0, 40), min_size=1), st.sets(st.integers(0, 40)), st.integers(-1, 45))
def test_events_that_the_handler_dropped_are_counted_until_a_file_covers_them(
    present: set[int], unwanted: set[int], adopted: int
) -> None:
    numbers = sorted(present)
    buffer = Buffer()
    for at in range(0, len(numbers), 3):
        events = numbers[at : at + 3]
        rows = batch_of((number, b"changed") for number in events if number not in unwanted)
        rows = rows.with_typed(pa.record_batch({"n": pa.array(rows.numbers)}))
        buffer.add(batch_of((number, b"x") for number in events), 7.0, rows)
    buffer.drop_through(adopted)
    left = [number for number in numbers if number > adopted]
    kept = [number for batch in buffer.batches for number in batch.numbers.tolist()]
    assert kept == [number for number in left if number not in unwanted]
    assert [each["n"] for batch in buffer.batches if batch.typed for each in batch.typed.to_pylist()] == kept
    assert buffer.typed_bytes == 8 * len(kept)
    assert all(body == b"changed" for batch in buffer.batches for body in batch.rows().bodies)
    assert (buffer.count, buffer.dropped) == (len(kept), len(left) - len(kept))
    assert buffer.numbers.tolist() == left
    assert buffer.size == sum(batch.size for batch in buffer.batches) + 8 * buffer.dropped
    assert bool(buffer) == bool(left)
    if left:
        assert (buffer.first, buffer.last, buffer.since) == (left[0], left[-1], 7.0)
        assert (buffer.end.sequence_number, buffer.end.offset) == (left[-1], str(left[-1] * 10))
    buffer.clear()
    assert (bool(buffer), buffer.size, buffer.typed_bytes, buffer.dropped) == (False, 0, 0, 0)


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(0, 45))
def test_events_and_gaps_behind_an_adopted_file_are_kept(present: set[int], adopted: int) -> None:
    """A gap that is forgotten would make the next file claim events that it does not have."""
    numbers = sorted(present)
    buffer = buffered(0, numbers)
    buffer.drop_through(adopted)
    kept = [number for batch in buffer.batches for number in batch.numbers.tolist()]
    missing = [number for gap in buffer.gaps for number in range(gap.first, gap.last + 1)]
    assert sorted([*kept, *missing]) == list(range(adopted + 1, numbers[-1] + 1))
    assert kept == [number for number in numbers if number > adopted]
    assert buffer.count == len(kept)
    assert bool(buffer) == bool(kept)


def test_it_must_become_a_file_by_bytes_events_or_age() -> None:
    roll = Roll(max_bytes=1024, max_seconds=10, max_events=5)
    assert Buffer().seconds_left(roll, 100.0) == 10
    assert buffered(0, [0, 1], now=100.0).seconds_left(roll, 104.0) == 6
    assert buffered(0, [0, 1], now=100.0).seconds_left(roll, 111.0) == 0
    assert buffered(0, [0, 1, 2, 3, 4]).seconds_left(roll, 0.0) == 0
    assert buffered(0, list(range(40))).seconds_left(Roll(max_bytes=1024), 0.0) == 0


@given(st.lists(st.one_of(st.integers(0, 2000), st.just(SMALL_BYTES)), max_size=300), st.integers(0, 300))
def test_small_batches_are_joined_and_nothing_is_lost(sizes: list[int], adopted: int) -> None:
    buffer = Buffer()
    for number, size in enumerate(sizes):
        buffer.add(batch_of([(number, bytes(size))]), 0.0)
    assert [number for batch in buffer.batches for number in batch.numbers.tolist()] == list(range(len(sizes)))
    assert [len(body) for batch in buffer.batches for body in batch.rows().bodies] == sizes
    assert (buffer.count, buffer.size) == (len(sizes), sum(batch.size for batch in buffer.batches))
    large = sum(size == SMALL_BYTES for size in sizes)
    assert len(buffer.batches) <= 2 * large + len(sizes) // JOINED_BATCHES + JOINED_BATCHES
    buffer.drop_through(adopted)
    buffer.add(batch_of([(1000, b"x")]), 0.0)
    kept = [number for batch in buffer.batches for number in batch.numbers.tolist()]
    assert kept == [*range(adopted + 1, len(sizes)), 1000]


@pytest.mark.slow
def test_a_trickle_takes_little_more_memory_than_it_counts() -> None:
    buffer = Buffer()
    for number in range(5000):
        buffer.add(batch_of([(number, bytes(1000))]), 0.0)
    assert len(buffer.batches) < 5000 / JOINED_BATCHES + JOINED_BATCHES
    whole = sum(batch.columns.get_total_buffer_size() for batch in buffer.batches)
    assert whole < 1.2 * buffer.size
