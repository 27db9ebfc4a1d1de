"""No host runs because nothing comes: files that wait for Spark are processed all the same, and the status tells."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client, config

from eventconsumer_api.host_report import BatchReport, CommitReport, HostReport, PartitionLag
from tests.contract.operator.conftest import Cluster
from tests.contract.operator.simulation import Simulation
from tests.contract.operator.test_operator import PARTITIONS, SPEC, Hub, World, build, condition
from tests.support.waiting import HANG_SECONDS

SLEEPY: dict[str, Any] = {
    **SPEC,
    "sink": SPEC["sink"] | {"roll": {"maxSeconds": 1}},
    "scaling": {"mode": "Lag", "minReplicas": 0, "lag": {"cooldownSeconds": 0, "idleSeconds": 30}},
}


class Waiting(Hub):
    """All events are in files, and files wait for Spark; hosts and the probe say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.pending = 20
        self.last_commit: CommitReport | None = None

    def answer(self, pod: str, pods: int) -> HostReport:
        report = super().answer(pod, pods)
        assert report.fleet is not None
        fleet = report.fleet.model_copy(
            update={
                "lags": {str(partition): PartitionLag(events=0, seconds=0) for partition in range(PARTITIONS)},
                "pending_files": self.pending,
                "pending_bytes": self.pending * 1000,
                "last_commit": self.last_commit,
            }
        )
        if "-probe-" in pod:
            fleet, report = fleet.model_copy(update={"owners": {}}), report.model_copy(update={"partitions": ()})
        return report.model_copy(update={"fleet": fleet})


@pytest.fixture
async def world(cluster: Cluster, tmp_path: Path) -> AsyncIterator[World]:
    """A world in which the probe's StatefulSet has a controller too."""
    hub = Waiting()
    async with build(cluster, hub, tmp_path) as world:
        settings = client.Configuration()
        await config.load_kube_config(config_file=str(cluster.server.kubeconfig()), client_configuration=settings)
        async with client.ApiClient(settings) as connection:
            probe = Simulation(connection, world.namespace, "orders-probe", hub.answer)
            player = asyncio.create_task(probe.run())
            yield world
            assert not player.done(), player.exception()
            player.cancel()
            await asyncio.gather(player, return_exceptions=True)


async def job_of(world: World, number: int) -> Any:
    """The application of a batch, once it is there."""
    deadline = time.monotonic() + HANG_SECONDS
    selector = f"eventconsumer.io/batch={number}"
    while time.monotonic() < deadline:
        items = json.loads(await world.kubectl("get", "jobs", "-l", selector, "-o", "json"))["items"]
        if items:
            return items[0]
        await asyncio.sleep(0.2)
    raise AssertionError(world.operator.log.read_text())


async def test_batches_run_and_are_shown_while_only_the_probe_reports(world: World) -> None:
    assert isinstance(world.hub, Waiting)
    world.apply(SLEEPY)
    await world.until(lambda status: status["hosts"]["ready"] == 1)
    # Files that wait keep no host.
    await world.until(lambda status: status["scaling"]["replicas"] == 0 and status["replicas"] == 0)
    world.hub.pending = 21
    status = await world.until(lambda status: status["spark"]["pendingFiles"] == 21)
    assert status["spark"]["pendingBytes"] == 21_000
    assert condition(status, "Ready")[0] == "True"
    world.hub.open_batch = BatchReport(number=1, files=20, bytes=20_000, events=1000, reason="Age")
    job = await job_of(world, 1)
    assert job["metadata"]["ownerReferences"][0]["name"] == "orders"
    status = await world.until(lambda status: status["spark"]["lastBatch"] == 1)
    assert (status["spark"]["reason"], status["scaling"]["replicas"]) == ("Age", 0)
    world.hub.open_batch, world.hub.committed, world.hub.pending = None, 1, 1
    world.hub.last_commit = CommitReport(
        number=1,
        committed_at=datetime.now(UTC),
        application=job["metadata"]["name"],
        rows_read=1000,
        rows_written=999,
        seconds=12.5,
    )
    status = await world.until(lambda status: status["spark"]["lastCommit"]["number"] == 1)
    assert (status["spark"]["lastCommit"]["rowsRead"], status["spark"]["processedFiles"]) == (1000, 10)
    assert status["spark"]["pendingFiles"] == 1
    assert status["scaling"]["replicas"] == 0
    assert (await world.get("sts", "orders-host"))["spec"]["replicas"] == 0
