"""The operator's process keeps within the chart's memory limit, whatever users store and whatever hosts report."""

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio import client, config

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.spark_conf import ALLOWED
from eventconsumer_operator.kube.api import KubernetesApi
from eventconsumer_operator.kube.manifest import STATEFUL_SET
from tests.contract.operator.conftest import ROOT, Cluster
from tests.contract.operator.simulation import Simulation
from tests.contract.operator.test_operator import SPEC, Operator
from tests.support.fakes.kubernetes import event_consumer
from tests.support.waiting import HANG_SECONDS

MIB = 1024 * 1024


def limit() -> int:
    """The memory limit of the operator in the chart, bytes."""
    text = yaml.safe_load((ROOT / "helm/eventconsumer/values.yaml").read_text())["resources"]["limits"]["memory"]
    match = re.fullmatch(r"(\d+)Mi", text)
    assert match
    return int(match[1]) * MIB


def peak(pid: int) -> int:
    """The greatest resident memory of a process so far, bytes. Source: man 5 proc_pid_status."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024


def large(resource: int) -> dict[str, Any]:
    """A spec with the greatest arguments, properties and partition maps that the schema accepts, unlike all others."""
    partitions = {str(number): {"type": "Offset", "offset": f"9{resource:019}"} for number in range(512)}
    application = {
        "arguments": [f"{resource:04}" + "x" * 4092] * 8,
        "conf": {name: form.edges[-1] for name, form in list(ALLOWED.items())[:100]},
    }
    spark = SPEC["spark"] | {"application": application}
    return SPEC | {"suspend": True, "startingPosition": {"partitions": partitions}, "spark": spark}


class Text:
    """What a host in the hands of an attacker reports."""

    def __init__(self, **content: Any) -> None:
        self._text = json.dumps({"owner": "o", "state": "Running"} | content)

    def model_dump_json(self, **_: Any) -> str:
        return self._text


def crowded(owners: int) -> dict[str, Any]:
    uid = "00000000-0000-0000-0000"
    return {
        "partitionCount": 2048,
        "hubCreatedAt": "2026-01-01T00:00:00Z",
        "files": 1,
        "events": 1,
        "bytes": 1,
        "owners": {str(n): f"x/orders/orders-host-0.{uid}-{n:012d}" for n in range(owners)},
        "lags": {str(number): {"events": number, "seconds": number} for number in range(2048)},
    }


REPORTS = [
    Text(fleet=crowded(62_000)),
    Text(partitions=[1] * 400_000),
    Text(fleet=crowded(2048), partitions=[{"id": str(number), "epoch": 1} for number in range(2048)]),
]


def foreign(namespace: str, number: int) -> Manifest:
    """A ConfigMap of another client with the operator's label."""
    metadata = {
        "name": f"foreign-{number}",
        "namespace": namespace,
        "labels": {labels.LABEL_MANAGED_BY: labels.MANAGED_BY, labels.LABEL_CONSUMER: "orders"},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "x" * 1_000_000}}


async def create_all(api: KubernetesApi, manifests: Iterator[Manifest]) -> None:
    """Create objects, several at a time: the API server evaluates a thousand rules for each of the specs."""

    async def one_after_the_other() -> None:
        for manifest in manifests:
            assert await api.create(manifest)

    await asyncio.gather(*[one_after_the_other() for _ in range(4)])


@pytest.mark.long  # unit/operator: kube/test_store.py and fleet/test_fleet.py have each limit
# More specs than the operator reconciles at a time, and more bytes of other objects than its limit.
@pytest.mark.parametrize(("specs", "others"), [(10, 60), (300, 600)])
async def test_large_resources_foreign_objects_and_crowded_reports_leave_the_operator_working(
    cluster: Cluster, tmp_path: Path, specs: int, others: int
) -> None:
    namespace = cluster.namespace()
    cluster.install_chart(namespace)
    settings = client.Configuration()
    await config.load_kube_config(config_file=str(cluster.server.kubeconfig()), client_configuration=settings)
    asked: list[str] = []

    def answer(pod: str, _pods: int) -> Any:
        asked.append(pod)
        return REPORTS[len(asked) % len(REPORTS)]

    async with client.ApiClient(settings) as connection:
        api = KubernetesApi(connection)
        await create_all(api, (event_consumer(f"large-{number}", large(number), namespace) for number in range(specs)))
        await create_all(api, (foreign(namespace, number) for number in range(others)))
        assert await api.create(event_consumer("orders", SPEC, namespace))
        simulation = Simulation(connection, namespace, "orders-host", answer)
        player = asyncio.create_task(simulation.run())
        operator = Operator(cluster, namespace, tmp_path / "operator.log")
        operator.start()
        try:
            async with asyncio.timeout(HANG_SECONDS if specs < 100 else 10 * HANG_SECONDS):
                while len(asked) < 3 * len(REPORTS):  # the hostile host has given each report
                    assert operator.running, operator.log.read_text()[-5000:]
                    await asyncio.sleep(0.5)
                assert await api.create(event_consumer("calm", SPEC, namespace))
                names = ["calm", *(f"large-{number}" for number in range(specs))]
                for name in names:  # all other resources are reconciled
                    while await api.get(STATEFUL_SET, namespace, f"{name}-host") is None:
                        assert operator.running, operator.log.read_text()[-5000:]
                        await asyncio.sleep(0.5)
            assert operator.running
            memory = peak(operator.pid)
        finally:
            operator.stop(signal.SIGKILL)
            player.cancel()
            await asyncio.gather(player, return_exceptions=True)
            # The API server holds each object in memory, several times.
            cluster.kubectl("delete", "configmaps,eventconsumers", "--all", "--wait=false", "-n", namespace)
    log = operator.log.read_text()
    print(f"peak of the operator: {memory / MIB:.0f} MiB; log: {len(log.splitlines())} lines, {len(log)} bytes")
    assert memory < limit()
    written = 8 * (specs + 2)  # one entry for each object that is written
    assert len(log.splitlines()) < written + 100
    assert len(log) < 400 * (written + 100)
