"""Pods that a quota refuses, on the real API server: what is missing is told, and a number nobody knows is absent."""

import asyncio
import contextlib
import json
import signal
import urllib.request
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kubernetes.aio import client, config

from eventconsumer_api.kube.labels import FIELD_MANAGER
from eventconsumer_api.wire.host_report import HostReport, PartitionLag
from tests.contract.operator.conftest import Cluster
from tests.contract.operator.simulation import Simulation
from tests.contract.operator.test_operator import PARTITIONS, SPEC, Hub, ProcessWorld, build, condition, message, ready

LONG_AGO = f"{datetime.now(UTC) - timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}"
LIMITED = SPEC | {"pods": {"resources": {"limits": {"cpu": "500m"}}}}


class Calm(Hub):
    """Hosts and a probe that know the lag of every partition: nothing waits."""

    def answer(self, pod: str, pods: int) -> HostReport:
        report = super().answer(pod, pods)
        if report.fleet is None:
            return report
        lags = {str(number): PartitionLag(events=0, seconds=0.0) for number in range(PARTITIONS)}
        return report.model_copy(update={"fleet": report.fleet.model_copy(update={"lags": lags})})


def quota(world: ProcessWorld, **hard: str) -> None:
    """A ResourceQuota. Admission reads its status, which a controller writes in a cluster."""
    manifest = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    world.cluster.kubectl("-n", world.namespace, "apply", "-f", "-", stdin=json.dumps(manifest))
    used = dict.fromkeys(hard, "0")
    status = json.dumps({"status": {"hard": hard, "used": used}})
    world.cluster.kubectl(
        "-n", world.namespace, "patch", "quota", "q", "--subresource=status", "--type=merge", "-p", status
    )


async def age(world: ProcessWorld, change: dict[str, Any]) -> None:
    """Let the status say that something began long ago, as if the operator had written it."""
    for _ in range(20):
        found = await world.get("evc", "orders")
        head = {"name": "orders", "namespace": world.namespace, "resourceVersion": found["metadata"]["resourceVersion"]}
        status = found["status"] | change
        manifest = {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": head, "status": status}
        done = world.cluster.kubectl(
            "apply",
            "--server-side",
            f"--field-manager={FIELD_MANAGER}",
            "--subresource=status",
            "-f",
            "-",
            stdin=json.dumps(manifest),
            check=False,
        )
        if not done.returncode:
            return
    raise AssertionError(done.stderr)


async def metrics(world: ProcessWorld) -> str:
    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{world.operator.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(read)


@contextlib.asynccontextmanager
async def probe(world: ProcessWorld) -> AsyncIterator[Simulation]:
    """The controller of the probe's StatefulSet, and its kubelet."""
    settings = client.Configuration()
    await config.load_kube_config(config_file=str(world.cluster.server.kubeconfig()), client_configuration=settings)
    async with client.ApiClient(settings) as connection:
        played = Simulation(connection, world.namespace, "orders-probe", world.hub.answer)
        player = asyncio.create_task(played.run())
        try:
            yield played
            assert not player.done(), player.exception()
        finally:
            player.cancel()
            await asyncio.gather(player, return_exceptions=True)


async def test_hosts_that_a_quota_refuses_need_an_action_for_as_long_as_it_lasts(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with build(cluster, Calm(), tmp_path) as world:
        quota(world, pods="2")
        world.apply(SPEC)
        status = await world.until(lambda status: status["hosts"]["ready"] == 2 and status["missing"][0].get("cause"))
        assert condition(status, "Stalled") == ("False", "Available")
        (missing,) = status["missing"]
        assert (missing["object"], missing["expected"], missing["existing"]) == ("statefulset/orders-host", 4, 2)
        await age(world, {"missing": [missing | {"since": LONG_AGO}]})
        status = await world.until(lambda status: condition(status, "Stalled") == ("True", "HostsFailing"))
        said = message(status, "Stalled")
        assert said.startswith("statefulset/orders-host: 2 of 4 pods have been missing since ")
        assert "is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in said
        assert said.endswith(": raise the quota, or lower spec.pods.resources")
        assert condition(status, "Ready") == ("False", "HostsFailing")
        assert condition(status, "HostsAvailable") == ("False", "HostsFailing")

        # The Events expire, and the operator starts again: pods are still missing, for the same reason.
        world.operator.stop(signal.SIGTERM)
        await world.kubectl("delete", "events", "--all")
        world.operator.start()
        scaled = LIMITED | {"scaling": {"mode": "Fixed", "replicas": 5}}
        world.apply(scaled)
        status = await world.until(lambda status: "3 of 5 pods have been missing" in message(status, "Stalled"))
        assert "exceeded quota: q" in message(status, "Stalled")

        quota(world, pods="20")
        status = await world.until(lambda status: status["hosts"]["ready"] == 5 and ready(status))
        assert not status["missing"]


async def test_a_probe_that_a_quota_refuses_does_not_look_like_an_idle_hub(cluster: Cluster, tmp_path: Path) -> None:
    hub = Calm()
    async with build(cluster, hub, tmp_path) as world, probe(world):
        world.apply(LIMITED | {"scaling": {"mode": "Lag", "minReplicas": 0, "maxReplicas": 4}})
        await world.until(ready)
        quota(world, pods="0")
        asleep = {"replicas": 0, "reason": "idle", "mode": "Lag", "lastScaleTime": LONG_AGO}
        await age(world, {"scaling": asleep})
        status = await world.until(lambda status: status["scaling"]["unknownSince"] and status["missing"][0]["cause"])
        assert status["hosts"]["desired"] == 0
        hosts = status["hosts"] | {"noLeaderSince": LONG_AGO}
        missing = [each | {"since": LONG_AGO} for each in status["missing"]]
        old = {"scaling": status["scaling"] | {"unknownSince": LONG_AGO}, "hosts": hosts, "missing": missing}
        await age(world, old)
        status = await world.until(lambda status: status["hosts"]["desired"] == 1)
        assert status["scaling"]["reason"] == "the probe does not report the lag of all partitions"
        status = await world.until(lambda status: condition(status, "Stalled")[0] == "True")
        said = message(status, "Stalled")
        assert "statefulset/orders-probe: 1 of 1 pods have been missing since " in said
        assert "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in said
        assert "the probe has not reported the lag of all partitions since " in said
        assert "lag" not in status
        shown = await metrics(world)
        place = f'{{name="orders",namespace="{world.namespace}"}}'
        assert f"eventconsumer_resource_hosts_desired{place} 1.0" in shown, shown
        assert f"eventconsumer_resource_lag_events{place}" not in shown, shown

        quota(world, pods="9")
        status = await world.until(lambda status: ready(status) and "unknownSince" not in status["scaling"])
        assert status["lag"]["events"] == 0 and not status["missing"]

        async def gone() -> bool:
            return await world.get("sts", "orders-probe") is None

        await world.until_true(gone)


async def test_pods_have_a_limit_of_cpu_where_a_quota_requires_one(cluster: Cluster, tmp_path: Path) -> None:
    async with build(cluster, Calm(), tmp_path) as world, probe(world):
        quota(world, **{"limits.cpu": "10"})
        spec = LIMITED | {"scaling": {"mode": "Lag", "minReplicas": 0, "maxReplicas": 4}}
        world.apply(spec)
        await world.until(ready)
        asleep = {"replicas": 0, "reason": "idle", "mode": "Lag", "lastScaleTime": LONG_AGO}
        await age(world, {"scaling": asleep})
        await world.until_true(lambda: world.get("pod", "orders-probe-0"))
        status = await world.until(lambda status: condition(status, "Draining") == ("True", "Idle"))
        assert not status["missing"] and status["hosts"]["desired"] == 0
