"""The work queue on virtual time."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_operator.kube.workqueue import Backoff, WorkQueue
from tests.support.fakes.virtual import virtual


def now() -> float:
    """Seconds since the test began; virtual time starts at 1000."""
    return asyncio.get_running_loop().time() - 1000


async def next_key(queue: WorkQueue[str]) -> tuple[str, float]:
    key = await asyncio.wait_for(queue.get(), 1000)
    return key, round(now(), 3)


@virtual
async def test_a_key_waits_once_for_the_earliest_time_it_was_added_for() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for delay in (10, 2, 20):
        queue.add("a", delay)
    assert len(queue) == 1
    assert await next_key(queue) == ("a", 2)
    queue.done("a")
    assert len(queue) == 0


@virtual
async def test_keys_come_when_they_are_due_and_in_that_order() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("late", 100)
    queue.add("early", 3)
    assert await next_key(queue) == ("early", 3)
    waiting = asyncio.create_task(next_key(queue))
    await asyncio.sleep(2)
    queue.add("now")
    assert await waiting == ("now", 5)
    assert await next_key(queue) == ("late", 100)


@pytest.mark.parametrize(("delay", "comes"), [(0, 4), (10, 10)])
@virtual
async def test_a_key_added_during_its_handling_comes_when_due_and_done(delay: float, comes: float) -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a", delay)
    again = asyncio.create_task(next_key(queue))
    await asyncio.sleep(4)
    assert not again.done()
    queue.done("a")
    assert await again == ("a", comes)


@virtual
async def test_failures_back_off_one_key_alone_and_success_forgets_them() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(base=1, cap=8, jitter=0))
    assert [queue.retry("a") for _ in range(5)] == [1, 2, 4, 8, 8]
    assert queue.retry("b") == 1
    queue.succeeded("a")
    assert queue.retry("a") == 1


@virtual
async def test_overdue_is_the_delay_of_the_oldest_due_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    assert queue.overdue() == 0
    queue.add("a", 5)
    assert queue.overdue() == 0
    await asyncio.sleep(12)
    assert queue.overdue() == pytest.approx(7)


@given(st.integers(1, 10_000), st.floats(0, 1), st.integers())
def test_a_delay_is_between_its_jitter_and_the_cap(failures: int, jitter: float, seed: int) -> None:
    delay = Backoff(base=0.5, cap=120, jitter=jitter).delay(failures, random.Random(seed))
    full = min(120, 0.5 * 2 ** min(failures - 1, 60))
    assert full * (1 - jitter) <= delay <= full


ACTIONS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 20), st.floats(0, 5)), max_size=40)


@given(ACTIONS, st.integers(1, 4))
def test_no_key_is_lost_and_none_is_handled_twice_at_a_time(
    actions: list[tuple[str, float, float]], workers: int
) -> None:
    """Whatever is added when: after the last `add` of a key a handling of it starts, and never two at a time."""

    @virtual
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        active: Counter[str] = Counter()
        last_added: dict[str, float] = {}
        last_started: dict[str, float] = {}

        async def work() -> None:
            while True:
                key = await queue.get()
                active[key] += 1
                assert active[key] == 1
                last_started[key] = now()
                await asyncio.sleep(1.5)
                active[key] -= 1
                queue.done(key)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        for key, delay, pause in actions:
            queue.add(key, delay)
            last_added[key] = now()
            await asyncio.sleep(pause)
        await asyncio.sleep(200)
        assert len(queue) == 0
        for key, added in last_added.items():
            assert last_started[key] >= added
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    scenario()


@virtual
async def test_a_key_wakes_one_of_many_waiters_and_a_cancelled_waiter_blocks_none() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = [asyncio.create_task(queue.get()) for _ in range(64)]
    await asyncio.sleep(1)
    steps = 0
    loop = asyncio.get_running_loop()
    original = loop.call_soon

    def counted(callback: Callable[..., object], *arguments: object, **options: Any) -> asyncio.Handle:
        nonlocal steps
        steps += 1
        return original(callback, *arguments, **options)

    loop.call_soon = counted  # type: ignore[method-assign]
    queue.add("a")
    await asyncio.sleep(1)
    assert sum(task.done() for task in waiting) == 1
    assert steps < 30
    waiting[1].cancel()  # the one whose turn it is
    queue.add("b")
    await asyncio.sleep(1)
    assert [task.result() for task in waiting if task.done() and not task.cancelled()] == ["a", "b"]
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@virtual
async def test_a_key_that_failed_is_held_until_its_backoff_is_over_whatever_happens() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(base=8, jitter=0))
    queue.add("a")
    await queue.get()
    queue.add("a")  # an event while it is handled
    queue.retry("a")
    queue.done("a")
    queue.add("a")  # and one after it
    assert await next_key(queue) == ("a", 8)
    queue.add("a", 1)
    queue.succeeded("a")
    queue.done("a")
    assert await next_key(queue) == ("a", 9)  # nothing is held after a success


@virtual
async def test_an_urgent_wish_ends_a_hold_and_its_history() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(base=8, jitter=0))
    for _ in range(3):
        queue.retry("a")
    await asyncio.sleep(5)
    queue.add("a", urgent=True)
    assert await next_key(queue) == ("a", 5)
    queue.add("a", urgent=True)  # what is being handled may have been read before
    assert queue.retry("a") == 8
    queue.done("a")
    assert await next_key(queue) == ("a", 5)
    queue.retry("a")
    queue.done("a")
    assert await next_key(queue) == ("a", 5 + 16)


EVENTS = st.lists(
    st.tuples(st.floats(0, 30), st.floats(0, 10), st.sampled_from(["event", "event", "event", "urgent", "other"])),
    max_size=60,
)


@given(EVENTS, st.floats(0, 3), st.integers(0, 3))
def test_a_failing_key_is_handled_at_the_end_of_its_backoff_and_at_once_when_urgent(
    events: list[tuple[float, float, str]], seconds: float, after: int
) -> None:
    """Whatever is told about a key that always fails, only time and urgent wishes bring it back; others do not wait.

    Args:
        events: Pauses, delays and what is told.
        seconds: How long a handling takes.
        after: Seconds added to every pause.
    """
    backoff = Backoff(base=1, cap=60, jitter=0)

    @virtual
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue(backoff)
        starts: list[float] = []
        held: list[float] = []  # until when, after each handling
        urgent: list[float] = []

        async def work() -> None:
            while True:
                key = await queue.get()
                if key == "failing":
                    starts.append(now())
                await asyncio.sleep(seconds if key == "failing" else 0)
                if key == "failing":
                    held.append(now() + queue.retry(key))
                queue.done(key)

        others = 0
        tasks = [asyncio.create_task(work()) for _ in range(2)]
        queue.add("failing")
        for pause, delay, what in events:
            await asyncio.sleep(pause + after)
            if what == "urgent":
                urgent.append(now())
                queue.add("failing", urgent=True)
            else:
                others += what == "other"
                queue.add("failing" if what == "event" else f"other {others}", delay)
        await asyncio.sleep(seconds + 0.01)

        for number, until in enumerate(held[: len(starts) - 1]):
            asked = any(starts[number] <= when <= starts[number + 1] for when in urgent)
            assert asked or starts[number + 1] >= until - 0.01
        for when in urgent:
            assert any(when - 0.01 <= start <= when + seconds + 0.01 for start in starts)
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    scenario()
