"""The controller on virtual time: when a key comes again, and that no key harms another."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from eventconsumer_operator.controller import FORBIDDEN_SECONDS, RECONCILE_SECONDS, Controller
from eventconsumer_operator.errors import Forbidden, Transient
from eventconsumer_operator.keys import Key
from eventconsumer_operator.reconcile import Next, Reconciler
from eventconsumer_operator.settings import Settings
from eventconsumer_operator.workqueue import Backoff, WorkQueue
from tests.fakes.kubernetes import FakeKubernetes, event_consumer
from tests.fakes.virtual import virtual
from tests.unit.operator.test_reconcile import FakeHosts
from tests.unit.operator.worlds import SPEC

A, B = Key("shop", "a"), Key("shop", "b")
SETTINGS = Settings(
    namespaces=("shop",), processor_image="h", spark_image="s", resync_seconds=1e9, workers=2
)  # no listing but the first


class Scripted(Reconciler):
    """A reconciler that does what a script says, and keeps when it was asked."""

    def __init__(self, script: Callable[[Key, int], Awaitable[Next]]) -> None:
        super().__init__(FakeKubernetes(), FakeHosts(), SETTINGS)
        self.times: dict[Key, list[float]] = {}
        self._script = script

    async def reconcile(self, key: Key) -> Next:
        times = self.times.setdefault(key, [])
        times.append(asyncio.get_running_loop().time() - 1000)
        return await self._script(key, len(times))


async def run(script: Callable[[Key, int], Awaitable[Next]], seconds: float, *keys: Key) -> dict[Key, list[float]]:
    """Run a controller for a while; return when each key was reconciled."""
    queue: WorkQueue[Key] = WorkQueue(Backoff(base=1, cap=1000, jitter=0))
    reconciler = Scripted(script)
    for key in keys:
        queue.add(key)
    task = asyncio.create_task(Controller(FakeKubernetes(), queue, reconciler, SETTINGS).run())
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

    times = (await run(script, 200, A))[A]
    assert [round(time) for time in times] == [round(FORBIDDEN_SECONDS * number) for number in range(4)]


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
async def test_every_resource_is_listed_at_the_start_and_regularly() -> None:
    async def script(key: Key, count: int) -> Next:
        return Next(None)

    api = FakeKubernetes()
    api.put(event_consumer("a", SPEC))
    settings = Settings(namespaces=("shop",), processor_image="h", spark_image="s", resync_seconds=100)
    reconciler = Scripted(script)
    queue: WorkQueue[Key] = WorkQueue()
    api.fail_once("list", Transient("away"))  # the first listing fails, and is soon tried again
    task = asyncio.create_task(Controller(api, queue, reconciler, settings).run())
    await asyncio.sleep(50)
    api.put(event_consumer("b", SPEC))  # no watch event tells of it
    await asyncio.sleep(300)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert reconciler.times[A][0] < 20
    assert reconciler.times[B][0] < 120
