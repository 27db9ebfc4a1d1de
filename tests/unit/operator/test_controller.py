"""The controller on virtual time: when a key comes again, and that no key harms another."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import structlog

from eventconsumer_operator.controller import FORBIDDEN_SECONDS, RECONCILE_SECONDS, Controller
from eventconsumer_operator.errors import Forbidden, Transient
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.denials import PATIENCE_SECONDS
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.workqueue import Backoff, WorkQueue
from eventconsumer_operator.reconcile import Next, Reconciler
from eventconsumer_operator.settings import Settings
from tests.support.fakes.hosts import FakeHosts
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.fakes.virtual import virtual

A, B = Key("shop", "a"), Key("shop", "b")
SETTINGS = Settings(namespaces=("shop",), processor_image="h", spark_image="s")


class Scripted(Reconciler):
    """A reconciler that does what a script says, and keeps when it was asked."""

    def __init__(self, script: Callable[[Key, int], Awaitable[Next]]) -> None:
        super().__init__(FakeKubernetes(), Store(), FakeHosts(), SETTINGS)
        self.times: dict[Key, list[float]] = {}
        self._script = script

    async def reconcile(self, key: Key) -> Next:
        times = self.times.setdefault(key, [])
        times.append(asyncio.get_running_loop().time() - 1000)
        return await self._script(key, len(times))


async def run(
    script: Callable[[Key, int], Awaitable[Next]], seconds: float, *keys: Key, workers: int = 2
) -> dict[Key, list[float]]:
    """Run a controller for a while; return when each key was reconciled."""
    queue: WorkQueue[Key] = WorkQueue(Backoff(base=1, cap=1000, jitter=0))
    reconciler = Scripted(script)
    for key in keys:
        queue.add(key)
    task = asyncio.create_task(Controller(queue, reconciler, workers).run())
    await asyncio.sleep(seconds)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return reconciler.times


@virtual
async def test_a_key_comes_again_after_the_delay_it_asked_for_more_or_less() -> None:
    async def script(key: Key, count: int) -> Next:
        return Next(10)

    times = (await run(script, 100, A))[A]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert len(gaps) >= 8
    assert all(9 <= gap <= 11.1 for gap in gaps)


@virtual
async def test_a_key_without_a_delay_does_not_come_again() -> None:
    async def script(key: Key, count: int) -> Next:
        return Next(None)

    assert len((await run(script, 1000, A))[A]) == 1


@virtual
async def test_failures_back_off_and_success_starts_over() -> None:
    async def script(key: Key, count: int) -> Next:
        if count <= 4:
            raise Transient("away")
        return Next(None, failed=True) if count == 6 else Next(100)

    times = (await run(script, 300, A))[A]
    assert [round(time) for time in times[:5]] == [0, 1, 3, 7, 15]  # 1, 2, 4, 8 seconds apart
    assert round(times[6] - times[5]) == 1  # after a success the first failure costs a second again


@virtual
async def test_a_missing_right_is_asked_for_slowly() -> None:
    async def script(key: Key, count: int) -> Next:
        raise Forbidden("no")

    times = (await run(script, 300, A))[A]
    # The API server may have been started just now: it denies all requests until it has loaded its roles.
    missing = next(time for time in times if time >= PATIENCE_SECONDS)
    assert len([time for time in times if time < missing]) > 3
    later = [time - missing for time in times if time >= missing]
    assert [round(time) for time in later] == [round(FORBIDDEN_SECONDS * number) for number in range(len(later))]


@virtual
async def test_what_happens_around_a_failing_resource_does_not_make_it_hot() -> None:
    queue: WorkQueue[Key] = WorkQueue(Backoff(base=1, cap=1000, jitter=0))

    async def script(key: Key, count: int) -> Next:
        if count % 2:
            raise Transient("away")
        return Next(None, failed=True)

    reconciler = Scripted(script)
    queue.add(A, urgent=True)
    task = asyncio.create_task(Controller(queue, reconciler, 2).run())
    for _ in range(1000):
        await asyncio.sleep(0.1)
        queue.add(A)  # its pods crash and start
    assert [round(time) for time in reconciler.times[A]] == [0, 1, 3, 7, 15, 31, 63]
    queue.add(A, urgent=True)  # its spec is another
    await asyncio.sleep(4)
    assert [round(time) for time in reconciler.times[A][-3:]] == [100, 101, 103]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@virtual
async def test_events_do_not_ask_sooner_for_what_is_forbidden() -> None:
    queue: WorkQueue[Key] = WorkQueue()

    async def script(key: Key, count: int) -> Next:
        raise Forbidden("no")

    reconciler = Scripted(script)
    queue.add(A)
    task = asyncio.create_task(Controller(queue, reconciler, 2).run())
    for _ in range(250):
        await asyncio.sleep(1)
        queue.add(A)
    *_, before, last = reconciler.times[A]
    assert round(last - before) == round(FORBIDDEN_SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@virtual
async def test_a_bug_or_a_hang_with_one_key_leaves_the_others_alone() -> None:
    async def script(key: Key, count: int) -> Next:
        if key == B:
            return Next(5)
        if count == 1:
            raise ZeroDivisionError
        await asyncio.sleep(1e6)
        raise AssertionError

    times = await run(script, 4 * RECONCILE_SECONDS, A, B)
    assert len(times[B]) > 40
    assert len(times[A]) >= 3  # the hanging one was given up, and tried again


@virtual
async def test_a_resource_that_hangs_for_ever_does_not_delay_three_hundred_others() -> None:
    async def script(key: Key, count: int) -> Next:
        if key == A:
            await asyncio.sleep(1e6)
        await asyncio.sleep(0.05)  # one host that answers
        return Next(15)

    others = [Key("shop", f"r{number}") for number in range(300)]
    times = await run(script, 600, A, *others, workers=Settings.workers)
    for key in others:
        gaps = [later - earlier for earlier, later in itertools.pairwise(times[key])]
        assert len(gaps) >= 30
        assert max(gaps) < 15 * 1.1 + 1


@virtual
async def test_three_hundred_resources_whose_hosts_never_answer_leave_time_for_the_others() -> None:
    async def script(key: Key, count: int) -> Next:
        if key not in {A, B}:
            await asyncio.sleep(3)  # the time limit of a question to a host
        return Next(15)

    silent = [Key("shop", f"r{number}") for number in range(300)]
    times = await run(script, 600, *silent, A, B, workers=Settings.workers)
    for key in (A, B):
        gaps = [later - earlier for earlier, later in itertools.pairwise(times[key])]
        assert max(gaps[1:]) < 15 * 1.1 + 5  # after the start, where all come at once


@virtual
async def test_a_lasting_failure_is_logged_once_and_so_is_its_end() -> None:
    async def script(key: Key, count: int) -> Next:
        if count <= 5:
            raise Transient("the API server does not answer")
        return Next(None)

    with structlog.testing.capture_logs() as said:
        await run(script, 300, A)
    about = {"namespace": "shop", "name": "a"}
    assert [(entry["log_level"], entry["event"]) for entry in said] == [
        ("warning", "reconcile failed; retrying"),
        ("info", "reconcile succeeds again"),
    ]
    assert all(entry.items() >= about.items() for entry in said)
    assert said[0]["error"] == "the API server does not answer"
    assert said[1]["failures"] == 5


@virtual
async def test_another_cause_is_logged_at_once() -> None:
    async def script(key: Key, count: int) -> Next:
        raise Transient("one") if count <= 2 else Forbidden("two")

    with structlog.testing.capture_logs() as said:
        await run(script, 20, A)
    assert [(entry["log_level"], entry["error"], entry["times"]) for entry in said] == [
        ("warning", "one", 1),
        ("warning", "two", 3),
    ]
