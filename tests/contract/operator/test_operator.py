"""The operator as a process, with exactly the chart's rights, against a real API server and simulated hosts."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes.aio import client, config

from eventconsumer_api.wire.host_report import (
    BatchReport,
    BodyErrorReport,
    FleetReport,
    HostReport,
    HostState,
    PartitionReport,
    Problem,
)
from tests.contract.operator.conftest import OPERATOR_USER, Cluster
from tests.contract.operator.simulation import Simulation
from tests.support.azurite import free_port
from tests.support.fakes.kubernetes import event_consumer
from tests.support.waiting import HANG_SECONDS

SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
SPEC: dict[str, Any] = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
    "scaling": {"partitionsPerHost": 2},
    "spark": {"output": {"path": "abfss://out@shop.dfs.core.windows.net/orders"}},
}
PARTITIONS = 8


class Hub:
    """What the simulated hosts say; a test changes it as it goes."""

    def __init__(self) -> None:
        self.events = 1000
        self.lag = 0
        self.committed = 0
        self.open_batch: BatchReport | None = None
        self.problems: list[Problem] = []
        self.body_errors: list[BodyErrorReport] = []

    def answer(self, pod: str, pods: int) -> HostReport:
        ordinal = int(pod.rpartition("-")[2])
        mine = [str(partition) for partition in range(PARTITIONS) if partition % pods == ordinal]
        fleet = FleetReport(
            chain="00000000000000c1",
            partition_count=PARTITIONS,
            hub_namespace="shop.servicebus.windows.net",
            hub_name="orders",
            hub_created_at=datetime(2026, 1, 1, tzinfo=UTC),
            owners={str(partition): f"orders-host-{partition % pods}" for partition in range(PARTITIONS)},
            lag_events=self.lag,
            lag_seconds=0.0,
            files=10,
            events=self.events,
            bytes=10_000,
            pending_files=self.open_batch.files if self.open_batch else 0,
            processed_files=10 * self.committed,
            committed_batch=self.committed,
            committed_reason="Files" if self.committed else "",
            open_batches=[self.open_batch] if self.open_batch else [],
        )
        return HostReport(
            owner=f"{pod}.uid",
            state=HostState.BLOCKED if self.problems else HostState.RUNNING,
            partition_count=None if self.problems else PARTITIONS,
            partitions=[] if self.problems else [PartitionReport(id=partition, epoch=1) for partition in mine],
            problems=self.problems,
            body_errors=self.body_errors,
            fleet=fleet if ordinal == 0 and not self.problems else None,
        )


class Operator:
    """The operator's process."""

    def __init__(self, cluster: Cluster, namespace: str, log: Path, *flags: str) -> None:
        self.log = log
        self.port = free_port()
        self._command = [
            sys.executable,
            "-m",
            "eventconsumer_operator",
            "--processor-image",
            "host:1",
            "--spark-image",
            "spark:1",
            "--health-port",
            str(self.port),
            "--resync-seconds",
            "5",
            *([] if "--all-namespaces" in flags else ["--namespace", namespace]),
            *flags,
        ]
        kubeconfig = cluster.server.kubeconfig(OPERATOR_USER, namespace)
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": "operator-system"}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.signal(how)
        assert self._process is not None
        return self._process.wait(20)

    def signal(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)


class ProcessWorld:
    """One namespace with the chart's rights, an operator, one EventConsumer and its simulated hosts."""

    def __init__(self, cluster: Cluster, namespace: str, operator: Operator, hub: Hub, simulation: Simulation) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.operator = operator
        self.hub = hub
        self.simulation = simulation

    def apply(self, spec: dict[str, Any]) -> None:
        assert self.cluster.apply(event_consumer("orders", spec, self.namespace)) == ""

    async def kubectl(self, *arguments: str) -> str:
        return (await asyncio.to_thread(self._kubectl, arguments)).stdout

    def _kubectl(self, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return self.cluster.kubectl("-n", self.namespace, *arguments, check=False)

    async def get(self, kind: str, name: str = "") -> Any:
        text = await self.kubectl("get", kind, *([name] if name else []), "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None

    async def status(self) -> Any:
        return (await self.get("evc", "orders")).get("status", {})

    async def until(self, question: Callable[[Any], object]) -> Any:
        """Wait until the resource's status satisfies `question`; return the status."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            status = await self.status()
            try:
                if question(status):
                    return status
            except KeyError:
                pass
            if time.monotonic() > deadline:
                log = self.operator.log.read_text()
                raise AssertionError(f"not within {HANG_SECONDS:.0f} s:\n{json.dumps(status, indent=1)}\n{log}")
            await asyncio.sleep(0.2)

    async def until_true(self, question: Callable[[], Awaitable[Any]]) -> Any:
        """Ask until the answer is true; return it."""
        deadline = time.monotonic() + HANG_SECONDS
        while not (answer := await question()):
            assert time.monotonic() < deadline, self.operator.log.read_text()
            await asyncio.sleep(0.2)
        return answer


def condition(status: Any, kind: str) -> tuple[str, str]:
    found = {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", [])}
    return found.get(kind, ("", ""))


def message(status: Any, kind: str) -> str:
    return str(next(each["message"] for each in status["conditions"] if each["type"] == kind))


@pytest.fixture
def hub() -> Iterator[Hub]:
    yield Hub()


@pytest.fixture
async def world(cluster: Cluster, hub: Hub, tmp_path: Path) -> AsyncIterator[ProcessWorld]:
    async with build(cluster, hub, tmp_path) as world:
        yield world


@contextlib.asynccontextmanager
async def build(
    cluster: Cluster, hub: Hub, tmp_path: Path, *flags: str, values: str = ""
) -> AsyncIterator[ProcessWorld]:
    """A world with a running operator, until the context ends."""
    namespace = cluster.namespace()
    cluster.install_chart(namespace, values)
    settings = client.Configuration()
    await config.load_kube_config(config_file=str(cluster.server.kubeconfig()), client_configuration=settings)
    async with client.ApiClient(settings) as connection:
        simulation = Simulation(connection, namespace, "orders-host", hub.answer)
        player = asyncio.create_task(simulation.run())
        operator = Operator(cluster, namespace, tmp_path / "operator.log", *flags)
        operator.start()
        try:
            yield ProcessWorld(cluster, namespace, operator, hub, simulation)
            assert not player.done(), player.exception()
        finally:
            operator.stop(signal.SIGKILL)
            player.cancel()
            await asyncio.gather(player, return_exceptions=True)


def ready(status: Any) -> bool:
    return condition(status, "Ready") == ("True", "Available")


async def test_a_resource_becomes_hosts_for_all_partitions_and_foreign_changes_are_undone(world: ProcessWorld) -> None:
    world.apply(SPEC)
    status = await world.until(ready)
    assert status["hosts"] == {"desired": 4, "ready": 4}
    assert status["partitions"] == {"total": 8, "owned": 8, "unowned": 0}
    assert status["drained"]["events"] == 1000
    assert status["observedGeneration"] == 1
    assert condition(status, "Draining") == ("True", "Idle")
    assert (await world.get("sts", "orders-host"))["spec"]["replicas"] == 4
    assert status["replicas"] == 4  # as `kubectl scale` and autoscalers read it
    log = world.operator.log.read_text()
    assert "forbidden" not in log.lower() and '"level": "error"' not in log, log

    await world.kubectl("scale", "sts", "orders-host", "--replicas=1")
    await world.kubectl("delete", "svc", "orders-host")
    await world.kubectl("patch", "cm", "orders-host", "--type=merge", "-p", '{"data":{"config.json":"{}"}}')

    async def restored() -> bool:
        stateful_set, service = await world.get("sts", "orders-host"), await world.get("svc", "orders-host")
        data = (await world.get("cm", "orders-host"))["data"]
        return stateful_set["spec"]["replicas"] == 4 and bool(service) and data["config.json"] != "{}"

    await world.until_true(restored)


async def test_bodies_that_do_not_fit_are_a_condition_and_an_event_until_hosts_report_none(world: ProcessWorld) -> None:
    world.apply(SPEC | {"sink": SPEC["sink"] | {"body": {"type": "Json", "schema": "cents BIGINT"}}})
    status = await world.until(ready)
    assert condition(status, "BodiesUnreadable") == ("False", "Available")
    error = "column cents: BIGINT has no exact value for this string"
    told = BodyErrorReport(error=error, events=7, file="shop/orders/f", committed_at=datetime(2026, 1, 2, tzinfo=UTC))
    world.hub.body_errors = [told]
    status = await world.until(lambda status: condition(status, "BodiesUnreadable") == ("True", "BodiesUnreadable"))
    assert f"events: {error}; the newest file with one is shop/orders/f." in message(status, "BodiesUnreadable")
    assert ready(status)

    async def warned() -> bool:
        events = (await world.get("events"))["items"]
        return [each["type"] for each in events if each["reason"] == "BodiesUnreadable"] == ["Warning"]

    await world.until_true(warned)
    world.hub.body_errors = []
    await world.until(lambda status: condition(status, "BodiesUnreadable") == ("False", "Available"))


async def test_a_newer_resource_with_the_hub_and_consumer_group_of_another_one_stops(world: ProcessWorld) -> None:
    """The older one names the hub only in its Secret, so its hosts report it; hubs are compared without case."""
    world.apply(SPEC | {"eventHub": {"authentication": SECRET}})
    status = await world.until(ready)
    assert {name: status["hub"][name] for name in ("namespace", "name")} == {
        "namespace": "shop.servicebus.windows.net",
        "name": "orders",
    }
    await asyncio.sleep(1.1)  # the API server writes times of creation in whole seconds
    other = {"connectionStringSecretRef": {"name": "other", "key": "k"}}
    hub = {"fullyQualifiedNamespace": "SHOP.servicebus.windows.net", "name": "Orders", "consumerGroup": "$default"}
    billing = SPEC | {
        "eventHub": hub | {"authentication": other},
        "checkpointStore": SPEC["checkpointStore"] | {"prefix": "b/"},
    }
    assert world.cluster.apply(event_consumer("billing", billing, world.namespace)) == ""

    async def told(reason: tuple[str, str]) -> Any:
        found = (await world.get("evc", "billing")).get("status", {})
        return found if condition(found, "Stalled") == reason else None

    stopped = await world.until_true(lambda: told(("True", "ConsumerGroupInUse")))
    assert "EventConsumer orders of this namespace, which is older, reads this Event Hub" in message(stopped, "Stalled")
    assert condition(stopped, "Ready") == condition(stopped, "Draining") == ("False", "ConsumerGroupInUse")
    assert (await world.get("sts", "billing-host"))["spec"]["replicas"] == 0
    assert ready(await world.status()) and (await world.get("sts", "orders-host"))["spec"]["replicas"] == 4

    await world.kubectl("patch", "evc", "orders", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    assert await world.until_true(lambda: told(("False", "Available")))
    assert (await world.get("sts", "billing-host"))["spec"]["replicas"] > 0


async def test_a_batch_is_attempted_one_job_at_a_time_until_it_is_committed(world: ProcessWorld) -> None:
    world.apply(SPEC | {"spark": SPEC["spark"] | {"retry": {"backoffSeconds": 3}, "history": {"failed": 0}}})
    await world.until(ready)
    world.hub.open_batch = BatchReport(number=1, files=10, bytes=10_000, events=1000, reason="Files")
    status = await world.until(lambda status: status["spark"]["lastBatch"] == 1)
    uid = (await world.get("evc", "orders"))["metadata"]["uid"]
    name = f"orders-{uid[:8]}-b1"
    spark = status["spark"]
    assert (spark["lastApplication"], spark["attempt"], spark["mode"]) == (name, 1, "Local")

    async def job(name: str) -> Any:
        return await world.until_true(lambda: world.get("job", name))

    first = await job(name)
    assert first["metadata"]["ownerReferences"][0]["uid"] == uid
    assert first["spec"]["podReplacementPolicy"] == "Failed"
    # The restricted Pod Security Standard, which the namespace enforces, admits the driver.
    driver = {"apiVersion": "v1", "kind": "Pod", **first["spec"]["template"]}
    driver["metadata"] = {"name": "driver", "namespace": world.namespace}
    world.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(driver))

    # Deleted by hand while the batch is open: the next attempt follows at once, and it counts as no failure.
    await world.kubectl("delete", "job", name, "--cascade=background", "--wait=false")
    await world.kubectl("patch", "job", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await job(f"{name}-a2")
    status = await world.until(lambda status: status["spark"]["attempt"] == 2)
    assert status["spark"]["failures"] == 0

    # Failed: the next follows after a time, also where the operator is killed in between.
    now = datetime.now(UTC)
    await fail_job(world, f"{name}-a2", now)
    status = await world.until(lambda status: condition(status, "SparkHealthy") == ("False", "SparkRetrying"))
    assert "attempt 2 failed (1 of 3 in a row): BackoffLimitExceeded: the pod failed" in message(status, "SparkHealthy")
    assert f"kubectl logs job/{name}-a2" in message(status, "SparkHealthy")
    world.operator.stop(signal.SIGKILL)
    world.operator.start()
    third = await job(f"{name}-a3")
    begun = datetime.fromisoformat(third["metadata"]["creationTimestamp"])
    assert (begun - now.replace(microsecond=0)).total_seconds() >= 3
    status = await world.until(lambda status: status["spark"]["attempt"] == 3)
    assert (status["spark"]["failures"], condition(status, "SparkHealthy")[0]) == (1, "False")

    async def removed() -> bool:
        return await world.get("job", f"{name}-a2") is None

    await world.until_true(removed)  # no failed one is kept

    world.hub.open_batch, world.hub.committed = None, 1
    status = await world.until(lambda status: status["spark"]["processedFiles"] == 10)
    assert status["spark"]["failures"] == 0
    assert condition(status, "SparkHealthy") == ("True", "Idle")


async def fail_job(world: ProcessWorld, name: str, when: datetime) -> None:
    """What the Job controller writes when the only pod has failed."""
    now = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    failed = {
        "startTime": now,
        "failed": 1,
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "BackoffLimitExceeded",
                "message": "the pod failed",
                "lastTransitionTime": now,
                "lastProbeTime": now,
            }
            for kind in ("FailureTarget", "Failed")
        ],
    }
    patch = json.dumps({"status": failed})
    await world.kubectl("patch", "job", name, "--subresource=status", "--type=merge", "-p", patch)


@pytest.mark.long  # test_rights.py has each right, unit/operator/conditions/test_kstatus.py what is said
async def test_a_right_that_is_missing_from_the_start_is_named_and_nothing_is_made(world: ProcessWorld) -> None:
    role = await world.get("role", "eventconsumer-operator")
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods"]]
    world.operator.stop(signal.SIGTERM)
    world.cluster.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    world.apply(SPEC)
    world.operator.start()
    status = await world.until(lambda status: condition(status, "Stalled") == ("True", "Forbidden"))
    assert 'cannot list resource "pods"' in message(status, "Stalled")
    assert await world.get("sts", "orders-host") is None
    world.cluster.install_chart(world.namespace)
    await world.until(ready)
