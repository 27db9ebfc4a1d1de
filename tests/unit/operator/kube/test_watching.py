"""Watch events, regular lists and health: what wakes a key, and what is noticed when nothing does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eventconsumer_api.kube.kinds import Kind
from eventconsumer_api.spec.spark import Launcher
from eventconsumer_operator.errors import Forbidden, Transient
from eventconsumer_operator.health import Health, LoopLag, WorkHealth
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import (
    EVENT_CONSUMER,
    JOB,
    KUBEFLOW_APPLICATION,
    POD,
    STATEFUL_SET,
    STORED,
    ObjectList,
    watched_kinds,
)
from eventconsumer_operator.kube.resync import Resync
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.watch import Triggers, dead_watchers
from eventconsumer_operator.kube.workqueue import WorkQueue
from tests.support.fakes.kubernetes import FakeKubernetes, event_consumer
from tests.support.fakes.virtual import virtual
from tests.unit.operator.worlds import SPEC, Told

ORDERS = Key("shop", "orders")


# --- triggers ------------------------------------------------------------------------------------------------------


def consumer_event(kind: str | None, version: int, generation: int = 1, **metadata: Any) -> dict[str, Any]:
    manifest = event_consumer("orders", SPEC)
    own = {"uid": "u", "generation": generation, "resourceVersion": str(version)}
    return {"type": kind, "object": manifest | {"metadata": manifest["metadata"] | own | metadata}}


def child_event(kind: str | None, version: int, name: str = "x-host", **labels: str) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": str(version), "labels": labels}
    return {"type": kind, "object": {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}}


async def test_only_a_new_spec_or_a_deletion_wakes_the_key() -> None:
    told = Told()
    triggers = Triggers(Store(), told)
    wakes = [
        (consumer_event(None, 1), 1),
        (consumer_event("MODIFIED", 2), 0),  # a status of the operator
        (consumer_event("MODIFIED", 4, generation=2), 1),
        (consumer_event("MODIFIED", 5, generation=2, deletionTimestamp="t"), 1),
        (consumer_event("DELETED", 6, generation=2), 1),
        (consumer_event("ADDED", 7, uid="another"), 1),
    ]
    for event, times in wakes:
        before = len(told.keys)
        await triggers.consumer(event=event)
        assert len(told.keys) - before == times, event
    assert set(told.keys) == {ORDERS}
    assert all(told.urgent)  # a new spec may be the remedy of a failure: no backoff holds it


async def test_a_status_that_wakes_no_key_is_in_the_store() -> None:
    store = Store()
    triggers = Triggers(store, Told())
    await triggers.consumer(event=consumer_event("ADDED", 1))
    event = consumer_event("MODIFIED", 2)
    event["object"]["status"] = {"replicas": 3}
    await triggers.consumer(event=event)
    found = store.get(EVENT_CONSUMER, *ORDERS)
    assert found is not None and found["status"] == {"replicas": 3}


async def test_a_child_wakes_the_resource_of_its_label_once_a_version() -> None:
    told, store = Told(), Store()
    triggers = Triggers(store, told)
    mine = {"eventconsumer.io/consumer": "x"}
    await triggers.child(event=child_event("MODIFIED", 3, **mine))
    await triggers.child(event=child_event("MODIFIED", 1, name="y"))
    assert (told.keys, told.urgent) == ([Key("shop", "x")], [False])
    answer = child_event("MODIFIED", 5, **mine)
    store.put(answer["object"])  # the answer to a write of the operator
    await triggers.child(event=answer)
    await triggers.child(event=child_event("MODIFIED", 4, **mine))
    assert told.keys == [Key("shop", "x")]


async def test_watchers_that_do_not_run_are_named() -> None:
    names = dead_watchers(["a"])
    assert len(names) == len(STORED)
    assert {
        "watcher for eventconsumers.v1alpha1.eventconsumer.io@a",
        "watcher for statefulsets.v1.apps@a",
        "watcher for pods.v1@a",
    } < set(names)
    sleeper = asyncio.create_task(asyncio.sleep(60), name="watcher for jobs.v1.batch@a")
    assert set(names) - set(dead_watchers(["a"])) == {"watcher for jobs.v1.batch@a"}
    sleeper.cancel()
    assert "watcher for pods.v1@None" in dead_watchers([""])
    theirs = dead_watchers(["a"], watched_kinds([Launcher.KUBEFLOW, Launcher.APACHE]))
    assert set(theirs) - set(names) == {
        "watcher for sparkapplications.v1beta2.sparkoperator.k8s.io@a",
        "watcher for sparkapplications.v1.spark.apache.org@a",
    }


# --- the regular lists ---------------------------------------------------------------------------------------------


@asynccontextmanager
async def background(work: Any) -> AsyncIterator[None]:
    """Run a coroutine that does not end until the block ends."""
    task = asyncio.create_task(work)
    yield
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Lists:
    """A resync over a fake API, and when each key was told."""

    def __init__(
        self,
        scopes: tuple[str, ...] = ("shop",),
        *consumers: str,
        kinds: tuple[Kind, ...] = STORED,
        api: FakeKubernetes | None = None,
    ) -> None:
        self.api = api or FakeKubernetes()
        self.store = Store(clusterwide="" in scopes, kinds=kinds)
        self.told: list[tuple[Key, float, float]] = []
        self.urgent: list[bool] = []
        self.resync = Resync(self.api, self.store, scopes, self.tell, 100)
        for name in consumers or ("orders",):
            self.api.put(event_consumer(name, SPEC))

    def tell(self, key: Key, delay: float = 0.0, *, urgent: bool = False) -> None:
        self.urgent.append(urgent)
        self.told.append((key, asyncio.get_running_loop().time() - 1000, delay))

    async def run(self, seconds: float) -> None:
        async with background(self.resync.run()):
            await asyncio.sleep(seconds)


class Unlisted(FakeKubernetes):
    """Fails lists of some kinds or namespaces."""

    def __init__(self) -> None:
        super().__init__()
        self.fails: dict[Any, Exception] = {}

    async def list(self, kind: Any, namespace: str, labels: Any = None, keep: Any = None) -> ObjectList:
        for what in (kind, namespace):
            if what in self.fails:
                raise self.fails[what]
        return await super().list(kind, namespace, labels, keep)


@virtual
async def test_every_resource_is_queued_at_the_start_and_regularly() -> None:
    lists = Lists()
    await lists.run(350)
    assert [(key, round(when)) for key, when, _ in lists.told] == [(ORDERS, 100 * number) for number in range(4)]
    assert lists.told[0][2] == 0
    assert all(60 <= delay <= 75 for _, _, delay in lists.told[1:])  # after the reconcile that is planned anyway


@virtual
async def test_each_kind_is_listed_once_a_namespace_however_many_resources_there_are() -> None:
    lists = Lists(("shop",), *(f"r{number}" for number in range(50)))
    await lists.run(50)
    assert lists.api.reads == {"list": len(STORED)}


@virtual
async def test_no_key_is_queued_before_every_kind_was_listed() -> None:
    lists = Lists()
    for _ in range(2):
        lists.api.fail_once("list", Transient("away"))
    async with background(lists.resync.run()):
        await asyncio.sleep(9)
        assert lists.told == [] and not lists.store.synced("shop")
        await asyncio.sleep(2)
        assert [(key, round(when)) for key, when, _ in lists.told] == [(ORDERS, 10)]


@virtual
async def test_a_kind_without_a_definition_blocks_no_key_and_is_found_when_it_comes() -> None:
    lists = Lists(kinds=watched_kinds([Launcher.KUBEFLOW]))
    lists.api.unserved.add(KUBEFLOW_APPLICATION)
    async with background(lists.resync.run()):
        await asyncio.sleep(50)
        assert lists.store.synced("shop") and lists.resync.problems() == []
        assert [key for key, _, _ in lists.told] == [ORDERS]
        assert lists.store.unserved == {KUBEFLOW_APPLICATION}
        assert lists.store.served == STORED
        lists.api.unserved.clear()
        labels = {"eventconsumer.io/consumer": "orders", "app.kubernetes.io/managed-by": "eventconsumer-operator"}
        head = {"apiVersion": KUBEFLOW_APPLICATION.api_version, "kind": "SparkApplication"}
        lists.api.put({**head, "metadata": {"namespace": "shop", "name": "x", "labels": labels}})
        await asyncio.sleep(60)
        assert lists.store.unserved == set()
        assert lists.store.get(KUBEFLOW_APPLICATION, "shop", "x") is not None
        # Its definition is removed again, and all its objects.
        lists.api.unserved.add(KUBEFLOW_APPLICATION)
        await asyncio.sleep(100)
        assert lists.store.get(KUBEFLOW_APPLICATION, "shop", "x") is None
        assert lists.store.unserved == {KUBEFLOW_APPLICATION}


@virtual
async def test_changes_that_no_watch_reported_are_queued_at_once() -> None:
    lists = Lists()
    async with background(lists.resync.run()):
        await asyncio.sleep(50)
        lists.api.put(event_consumer("new", SPEC))
        lists.api.remove(EVENT_CONSUMER, "shop", "orders")
        await asyncio.sleep(60)
    second = {key: delay for key, when, delay in lists.told if when > 1}
    assert second == {Key("shop", "new"): 0.0, ORDERS: 0.0}
    assert lists.store.get(EVENT_CONSUMER, *ORDERS) is None


@virtual
async def test_a_namespace_that_may_not_be_listed_does_not_block_others() -> None:
    api = Unlisted()
    api.fails["closed"] = Forbidden("no")
    lists = Lists(("closed", "shop"), api=api)
    await lists.run(5000)
    assert lists.told[0][0] == ORDERS
    assert lists.resync.problems() == []  # a restart would grant no right


@virtual
async def test_one_list_covers_all_namespaces_in_cluster_mode() -> None:
    lists = Lists(("",))
    lists.api.put(event_consumer("b", SPEC, "two"))
    await lists.run(50)
    assert {key for key, _, _ in lists.told} == {ORDERS, Key("two", "b")}
    assert lists.store.synced("shop") and lists.store.synced("never seen")
    assert lists.api.reads["list"] == len(STORED)


@virtual
async def test_the_first_lists_after_an_outage_end_the_backoff_of_keys() -> None:
    lists = Lists()
    async with background(lists.resync.run()):
        await asyncio.sleep(150)
        assert lists.urgent == [False, False]
        for _ in range(2 * len(STORED)):
            lists.api.fail_once("list", Transient("away"))
        await asyncio.sleep(200)
        assert lists.urgent == [False] * 4 + [True, False]  # keys are told all the same in between


@virtual
async def test_lists_that_fail_for_long_are_reported_with_the_cause() -> None:
    api = Unlisted()
    resync = Resync(api, Store(), ("shop",), Told(), 100)
    async with background(resync.run()):
        await asyncio.sleep(850)
        assert resync.problems() == []
        api.fails[POD] = Transient("no answer")
        await asyncio.sleep(600)
        assert resync.problems() == []
        assert 600 <= resync.ages()[POD] <= 700 and resync.ages()[JOB] <= 100
        await asyncio.sleep(400)
        (problem,) = resync.problems()
        assert problem.startswith("pods in shop were last listed ") and problem.endswith(" s ago: no answer")
        api.fails.clear()
        await asyncio.sleep(20)
        assert resync.problems() == []


# --- health --------------------------------------------------------------------------------------------------------


def health_of(queue: WorkQueue[Key] | None = None, dead: list[str] | None = None) -> Health:
    resync = Resync(FakeKubernetes(), Store(), ("shop",), Told(), 100)
    return WorkHealth(WorkQueue() if queue is None else queue, resync, LoopLag(), lambda: [] if dead is None else dead)


@virtual
async def test_a_watcher_that_dies_is_noticed_at_once_except_at_the_start() -> None:
    starting = health_of(dead=["w"])
    dead: list[str] = []
    running = health_of(dead=dead)
    assert starting.problems() == running.problems() == []
    dead.append("w")
    assert running.problems() == ["w is not running"]
    await asyncio.sleep(301)
    assert starting.problems() == ["w is not running"]


@virtual
async def test_a_queue_that_stands_still_is_noticed() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    health = health_of(queue)
    queue.add(Key("shop", "orders"))
    await asyncio.sleep(100)
    assert health.problems() == []
    await asyncio.sleep(100)
    assert health.problems() == ["work queue stalled: the oldest key is overdue by 200 s"]


@virtual
async def test_lists_that_stand_still_are_noticed() -> None:
    health = health_of()
    await asyncio.sleep(901)
    problems = health.problems()
    assert len(problems) == len(STORED)
    assert f"{STATEFUL_SET.plural} in shop were last listed 901 s ago" in problems


@virtual
async def test_a_blocked_event_loop_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    lag, loop = LoopLag(), asyncio.get_running_loop()
    async with background(lag.run()):
        await asyncio.sleep(10)
        assert lag.worst() == pytest.approx(0, abs=1e-6)
        blocked = loop.time
        monkeypatch.setattr(loop, "time", lambda: blocked() + 7)
        await asyncio.sleep(2)
        assert lag.worst() == pytest.approx(7, abs=1e-3)


@pytest.mark.parametrize(("late", "problems"), [(9.0, []), (12.0, ["the event loop was late by 12 s"])])
@virtual
async def test_a_loop_that_is_late_for_long_is_noticed(
    late: float, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoopLag, "worst", lambda _: late)
    assert health_of().problems() == problems
