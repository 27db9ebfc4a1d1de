"""What breaks under the operator, on a real API server: watches, versions, its own process. It always gets there."""

import asyncio
import json
import signal
from pathlib import Path

import aiohttp
import pytest

from eventconsumer_operator.health import LoopLag, WorkHealth
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER
from eventconsumer_operator.kube.resync import Resync
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.kube.watch import dead_watchers, watch
from eventconsumer_operator.kube.workqueue import WorkQueue
from tests.contract.operator.conftest import Cluster, start_cluster
from tests.contract.operator.test_operator import SPEC, Hub, ProcessWorld, build, condition, ready
from tests.support.fakes.kubernetes import event_consumer
from tests.support.waiting import HANG_SECONDS
from tests.unit.operator.worlds import Told


async def versions(world: ProcessWorld) -> list[str]:
    kinds = (("evc", "orders"), ("sts", "orders-host"), ("cm", "orders-host"), ("svc", "orders-host"))
    return [(await world.get(kind, name))["metadata"]["resourceVersion"] for kind, name in kinds]


async def test_a_watch_that_died_is_named_and_lists_continue(
    cluster: Cluster, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = cluster.namespace()
    monkeypatch.setenv("KUBECONFIG", str(cluster.server.kubeconfig()))
    store, queue = Store(), WorkQueue[Key]()
    told = Told()
    resync = Resync(api, store, (namespace,), told, 1)
    health = WorkHealth(queue, resync, LoopLag(), lambda: dead_watchers([namespace]))
    watching = asyncio.create_task(watch(api, store, [namespace], queue.add))
    listing = asyncio.create_task(resync.run())
    try:
        async with asyncio.timeout(HANG_SECONDS):
            while dead_watchers([namespace]) or not store.synced(namespace):
                await asyncio.sleep(0.1)
        assert health.problems() == []
        name = f"watcher for eventconsumers.v1alpha1.eventconsumer.io@{namespace}"
        (watcher,) = [task for task in asyncio.all_tasks() if task.get_name() == name]
        watcher.cancel()
        await asyncio.wait([watcher], timeout=HANG_SECONDS)
        assert f"{name} is not running" in health.problems()
        assert cluster.apply(event_consumer("orders", SPEC, namespace)) == ""
        async with asyncio.timeout(HANG_SECONDS):
            while Key(namespace, "orders") not in told.keys:
                await asyncio.sleep(0.1)
        assert store.get(EVENT_CONSUMER, namespace, "orders") is not None
    finally:
        for task in (watching, listing):
            task.cancel()
        await asyncio.gather(watching, listing, return_exceptions=True)


async def test_an_outage_of_the_api_server_missed_deletions_and_compacted_versions(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    hub = Hub()
    servers = start_cluster(tmp_path_factory.mktemp("compacted"))
    cluster = next(servers)
    try:
        async with build(cluster, hub, tmp_path_factory.mktemp("operator")) as world:
            world.apply(SPEC)
            await world.until(ready)
            path = f"/api/v1/namespaces/{world.namespace}/services"
            version = json.loads(await world.kubectl("get", "--raw", path))["metadata"]["resourceVersion"]
            world.operator.signal(signal.SIGSTOP)
            await world.kubectl("delete", "svc", "orders-host", "--wait=false")
            await world.kubectl("delete", "cm", "orders-host", "--wait=false")
            for number in range(3):
                await world.kubectl("create", "configmap", f"later-{number}")
            cluster.server.stop_api()
            cluster.server.compact()
            world.operator.signal(signal.SIGCONT)
            hub.lag = 777
            async with asyncio.timeout(HANG_SECONDS):  # the operator notices the outage and keeps running
                while "Connect call failed" not in world.operator.log.read_text():
                    await asyncio.sleep(0.2)
            assert world.operator.running
            cluster.server.start_api()
            old = await world.kubectl("get", "--raw", f"{path}?watch=1&timeoutSeconds=2&resourceVersion={version}")
            assert '"code":410' in old.replace(" ", "")
            status = await world.until(lambda status: status["lag"]["events"] == 777)
            assert condition(status, "HostsAvailable") == ("True", "Available")

            async def restored() -> bool:
                return bool(await world.get("svc", "orders-host") and await world.get("cm", "orders-host"))

            await world.until_true(restored)
            # The watches live: a change of the spec is seen at once.
            world.apply(SPEC | {"suspend": True})
            status = await world.until(lambda status: condition(status, "Ready") == ("True", "Suspended"))
            assert status["replicas"] == 0 and status["hub"]["partitionCount"] == 8
            assert world.operator.running
    finally:
        servers.close()


async def test_killed_at_any_time_it_finishes_and_stops_writing(cluster: Cluster, tmp_path: Path) -> None:
    hub = Hub()
    async with build(cluster, hub, tmp_path) as world:
        await started(world)
        world.apply(SPEC)
        for number in range(4):
            # The first reconcile writes for about a second; each life ends a little later into its work.
            await asyncio.sleep(0.05 + 0.3 * number)
            world.operator.stop(signal.SIGKILL)
            if number % 2:
                world.apply(SPEC | {"processing": {"maxBatchSize": 100 + number}})
            world.operator.start()
            await started(world)
        world.apply(SPEC)
        await world.until(ready)
        await asyncio.sleep(2)
        before = await versions(world)
        await asyncio.sleep(7)  # a list and several reconciles
        assert await versions(world) == before
        selector = "eventconsumer.io/consumer=orders"
        children = json.loads(await world.kubectl("get", "sts,svc,cm", "-l", selector, "-o", "json"))
        assert len(children["items"]) == 3


async def started(world: ProcessWorld) -> None:
    """Wait until the new process watches: /healthz is up and its watchers ran."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(HANG_SECONDS):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{world.operator.port}/healthz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.02)
