"""The memory budget: never more than one batch a pump above the limit, and always somebody who makes room."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.partition.memory import WAITING_PART, WRITING_BYTES, Memory
from tests.support.clocks import virtual_clock
from tests.support.fakes.virtual import virtual


def memory_for(kept: int) -> Memory:
    """One in which pumps may keep so many bytes."""
    return Memory(kept * WAITING_PART // (WAITING_PART - 1))


@given(st.integers(16, 10_000), st.lists(st.tuples(st.sampled_from("0123"), st.integers(0, 5000)), max_size=12))
def test_what_is_kept_and_may_wait_is_within_the_size(size: int, told: list[tuple[str, int]]) -> None:
    memory, kept = Memory(size), dict[str, int]()
    assert memory.for_waiting == size
    for partition, bytes_now in told:
        memory.keep(partition, bytes_now)
        kept[partition] = bytes_now
        assert memory.used == sum(kept.values())
        assert memory.for_waiting >= size // WAITING_PART
        assert memory.full or memory.used + memory.for_waiting == size


def test_the_partition_with_most_memory_makes_room() -> None:
    memory = memory_for(100)
    memory.keep("0", 30)
    memory.keep("1", 60)
    assert not memory.full and not memory.must_flush("1")
    memory.keep("2", 10)
    assert memory.full and memory.used == 100
    assert [memory.must_flush(partition) for partition in "012"] == [False, True, False]
    assert not memory.must_flush("unknown")


def test_half_on_its_way_out_is_enough() -> None:
    memory = memory_for(100)
    memory.keep("0", 60)
    memory.keep("1", 40)
    with memory.leaving("0"):
        assert memory.full
        assert not memory.must_flush("1")
        memory.keep("1", 50)
        assert memory.must_flush("1")
    assert memory.must_flush("0")


@given(
    st.dictionaries(st.sampled_from("01234567"), st.integers(0, 200), min_size=1), st.sets(st.sampled_from("01234567"))
)
def test_a_full_memory_is_always_on_its_way_to_have_room(sizes: dict[str, int], leaving: set[str]) -> None:
    memory = memory_for(300)
    for partition, size in sizes.items():
        memory.keep(partition, size)
    going = [memory.leaving(partition) for partition in leaving]
    for one in going:
        one.__enter__()
    if memory.full:
        leaves = sum(size for partition, size in sizes.items() if partition in leaving)
        assert leaves >= 150 or any(memory.must_flush(partition) for partition in sizes)
    else:
        assert not any(memory.must_flush(partition) for partition in sizes)


@virtual
async def test_waiting_for_room_ends_when_something_goes_or_the_time_is_over() -> None:
    memory = memory_for(100)
    memory.keep("0", 100)
    began = virtual_clock()
    await memory.room(5)
    assert virtual_clock() - began == 5
    waiting = asyncio.create_task(memory.room(5))
    await asyncio.sleep(1)
    memory.keep("0", 0)
    await waiting
    assert virtual_clock() - began == 6 and memory.used == 0


def test_what_is_about_to_come_counts_until_it_is_there() -> None:
    memory = memory_for(100)
    memory.keep("0", 60)
    with memory.coming("1", 40):
        assert memory.full
        assert not memory.must_flush("0")  # nothing is there yet that would need a file
    assert not memory.full
    with pytest.raises(ValueError, match="link"), memory.coming("1", 40):
        raise ValueError("link")
    assert not memory.full


@virtual
async def test_a_file_that_hangs_holds_up_large_ones_but_no_small_ones() -> None:
    memory, hanging, written = memory_for(100), asyncio.Event(), []

    async def write(name: str, size: int, until: asyncio.Event | None = None) -> None:
        async with memory.writing(size):
            if until is not None:
                await until.wait()
            written.append(name)

    async with asyncio.TaskGroup() as writers:
        writers.create_task(write("hangs", WRITING_BYTES, hanging))
        writers.create_task(write("hangs too", 1000, hanging))
        for name in "abc":
            writers.create_task(write(name, 100_000))
        await asyncio.sleep(1)
        assert written == ["a", "b", "c"]
        writers.create_task(write("large", WRITING_BYTES))
        writers.create_task(write("behind", 1000))
        await asyncio.sleep(1)
        assert written == ["a", "b", "c"]
        hanging.set()
    assert written[-2:] == ["large", "behind"]


@virtual
async def test_a_writer_that_stops_waiting_takes_no_turn() -> None:
    memory = memory_for(100)

    async def write() -> None:
        async with memory.writing(WRITING_BYTES):
            return

    async with memory.writing(WRITING_BYTES), memory.writing(WRITING_BYTES):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await write()
    async with asyncio.timeout(1):
        await write()


def test_memory_that_is_lent_is_not_for_events_meanwhile() -> None:
    memory = Memory(800)
    memory.keep("0", 400)
    assert (memory.full, memory.for_waiting) == (False, 400)
    with memory.lent(300):
        assert (memory.full, memory.for_waiting) == (False, 100)
        memory.keep("0", 440)
        assert memory.full and memory.must_flush("0")
    assert (memory.full, memory.for_waiting) == (False, 360)
    with memory.lent(10_000):  # at most half
        assert memory.full and memory.for_waiting == 50
