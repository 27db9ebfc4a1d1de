"""The log of a partition, its retention, and a hub's groups and partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhubs_emulator.errors import BadRequest, NotFound
from eventhubs_emulator.hub import NEVER_MS, Hub, Partition, Retention
from eventhubs_emulator.messages import encode_event


def events(count: int, size: int = 10) -> list:
    return [encode_event(b"x" * size) for _ in range(count)]


def numbers(partition: Partition, start: int = 0, limit: int = 10_000) -> list[int]:
    return [event.sequence_number for event in partition.read(start, limit)]


def test_numbers_go_up_by_one_offsets_differ_from_them_and_time_never_falls() -> None:
    partition = Partition("0", Retention())
    assert (partition.begin_sequence_number, partition.last_sequence_number) == (-1, -1)
    assert (partition.last_offset, partition.last_enqueued_ms) == ("-1", NEVER_MS)
    partition.append(events(4), 200)
    partition.append(events(1), 100)
    stored = partition.read(0, 10)
    assert [event.sequence_number for event in stored] == [0, 1, 2, 3, 4]
    offsets = [event.offset for event in stored]
    assert offsets == sorted(set(offsets))
    assert offsets[2] != 2
    assert partition.last_offset == str(offsets[-1])
    assert {event.enqueued_ms for event in stored} == {200}


@pytest.mark.parametrize(
    ("retention", "kept"),
    [(Retention(max_events=3), [7, 8, 9]), (Retention(max_bytes=1000), None), (Retention(max_age_ms=100), [])],
)
def test_each_bound_drops_the_oldest(retention: Retention, kept: list[int] | None) -> None:
    partition = Partition("0", retention)
    partition.append(events(10, 100), 1000)
    partition.expire(1101)
    left = numbers(partition)
    assert left == kept if kept is not None else (left == list(range(10 - len(left), 10)) and len(left) == 2)
    assert partition.memory <= retention.max_bytes
    assert partition.last_sequence_number == 9
    assert partition.begin_sequence_number == (left[0] if left else 9)


@given(st.lists(st.one_of(st.integers(1, 20), st.integers(-30, -1)), max_size=40), st.integers(0, 200))
def test_the_log_behaves_as_a_plain_list(steps: list[int], start: int) -> None:
    """Appends (positive) and retention up to a distance from the end (negative), against a list."""
    partition, model, first = Partition("0", Retention(max_events=50)), list[int](), 0
    for step in steps:
        if step > 0:
            model += range(len(model), len(model) + step)
            partition.append(events(step), len(model))
        else:
            first = max(first, min(len(model), len(model) + step))
            partition.drop_before(len(model) + step)
        first = max(first, len(model) - 50)
        assert numbers(partition) == model[first:]
        assert numbers(partition, start, 7) == [number for number in model[first:] if number >= start][:7]
        assert len(partition) == len(model) - first
        assert partition.memory == sum(len(event.payload) + 200 for event in partition.read(0, 1000))


def test_a_gap_in_the_numbers_is_found_from_both_sides() -> None:
    partition = Partition("0", Retention())
    partition.append(events(3), 0)
    partition.skip_numbers(5)
    partition.append(events(2), 0)
    assert numbers(partition) == [0, 1, 2, 8, 9]
    assert numbers(partition, 3) == [8, 9]
    assert numbers(partition, 9) == [9]


def test_listeners_hear_of_a_batch_once() -> None:
    partition, heard = Partition("0", Retention()), []
    partition.listeners.add(lambda: heard.append(partition.last_sequence_number))
    partition.append(events(3), 0)
    assert heard == [2]


def test_a_hub_has_the_default_group_finds_groups_in_any_case_and_gives_turns() -> None:
    hub = Hub("orders", 3, ["Second"], Retention(), 0)
    assert hub.groups == ["$Default", "Second"]
    assert [hub.has_group(name) for name in ("$default", "SECOND", "third")] == [True, True, False]
    assert [hub.next_partition().id for _ in range(5)] == ["0", "1", "2", "0", "1"]


@pytest.mark.parametrize("partition_id", ["2", "-1", "00", "x", "", "1.0", "٣"])
def test_a_partition_that_is_not_there_is_named(partition_id: str) -> None:
    with pytest.raises(NotFound, match="only 0 to 1"):
        Hub("orders", 2, (), Retention(), 0).partition(partition_id)


def test_a_hub_only_grows() -> None:
    hub = Hub("orders", 2, (), Retention(), 0)
    first = hub.partitions[0]
    hub.add_partitions(4)
    assert [partition.id for partition in hub.partitions] == ["0", "1", "2", "3"]
    assert hub.partitions[0] is first
    with pytest.raises(BadRequest, match="can only grow"):
        hub.add_partitions(3)
    with pytest.raises(BadRequest, match="0 partitions"):
        Hub("none", 0, (), Retention(), 0)
