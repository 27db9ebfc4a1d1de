"""Small worlds for the operator's unit tests: specs, reports and what the API server holds."""

import copy
from datetime import UTC, datetime
from typing import Any

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_report import BatchReport, FleetReport, HostReport, HostState, Problem
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import STATEFUL_SET
from eventconsumer_operator.kube.store import Store
from eventconsumer_operator.resource.hosts import Hosts
from eventconsumer_operator.resource.load import objects_of, with_reports
from eventconsumer_operator.resource.observed import Consumer, Observed
from eventconsumer_operator.settings import Settings

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
UID = "01234567-89ab-cdef-0123-456789abcdef"
KEY = Key("shop", "orders")
USER_IMAGE = "registry.example/users:1"
"""An image of a user, with a handler or a Spark program."""
SETTINGS = Settings(
    namespaces=("shop",),
    processor_image="host:1",
    spark_image="spark:1",
    handler_image_prefixes=(USER_IMAGE,),
    spark_image_prefixes=(USER_IMAGE,),
    notice_endpoints=("https://hooks.shop.example/",),
)
SECRET = {"connectionStringSecretRef": {"name": "s", "key": "k"}}
IDENTITY = {"workloadIdentity": {"clientId": "client"}}
SPEC: dict[str, Any] = {
    "eventHub": {"name": "orders", "authentication": SECRET},
    "checkpointStore": {"container": "leases", "authentication": SECRET},
    "sink": {"container": "drained", "authentication": SECRET},
}
HANDLER: dict[str, Any] = {"handler": "shop:Shop", "image": USER_IMAGE}
SPARK: dict[str, Any] = {"spark": {"output": {"path": "abfss://out@shop.dfs.core.windows.net/orders"}}}


def spec_with(path: str, value: Any, base: dict[str, Any] = SPEC) -> dict[str, Any]:
    """`base` with one field set."""
    spec = copy.deepcopy(base)
    *folders, last = path.split(".")
    node = spec
    for folder in folders:
        node = node.setdefault(folder, {})
    node[last] = value
    return spec


async def load(store: Store, hosts: Hosts, key: Key) -> Observed | None:
    """The observed state of a resource."""
    objects = objects_of(store, key)
    return objects and await with_reports(objects, hosts)


def consumer(
    spec: dict[str, Any] = SPEC, status: EventConsumerStatus | None = None, generation: int = 1, key: Key = KEY
) -> Consumer:
    """A resource."""
    return Consumer(
        key=key,
        uid=UID,
        resource_version="1",
        generation=generation,
        spec=spec,
        status=status or EventConsumerStatus(),
    )


def fleet(
    partitions: int = 8,
    owned: int | None = None,
    lag: int | None = 0,
    committed: int = 0,
    batch: BatchReport | None = None,
    files: int = 3,
) -> FleetReport:
    """What a leading host says."""
    return FleetReport(
        chain="00000000000000c1",
        partition_count=partitions,
        hub_created_at=NOW,
        owners={str(number): "host" for number in range(partitions if owned is None else owned)},
        lag_events=lag,
        lag_seconds=None if lag is None else float(lag),
        files=files,
        events=100,
        bytes=1000,
        committed_batch=committed,
        committed_reason="Age" if committed else "",
        open_batches=[batch] if batch else [],
    )


def report(
    partitions: int | None = 8, fleet: FleetReport | None = None, problems: tuple[Problem, ...] = ()
) -> HostReport:
    """What a host says."""
    return HostReport(
        owner="orders-host-0.uid",
        state=HostState.BLOCKED if problems else HostState.RUNNING,
        partition_count=partitions,
        problems=list(problems),
        fleet=fleet,
    )


def batch(number: int = 1) -> BatchReport:
    """An open batch."""
    return BatchReport(number=number, files=10, bytes=1000, events=100, reason="Files")


def stateful_set(replicas: int, ready: int, updated: int | None = None, generation: int = 1, seen: int = 1) -> Manifest:
    """The hosts' StatefulSet as its controller leaves it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": "orders-host",
            "namespace": "shop",
            "generation": generation,
            "uid": "set",
            "ownerReferences": [{"uid": UID, "controller": True}],
        },
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": seen,
            "replicas": replicas,
            "readyReplicas": ready,
            "updatedReplicas": replicas if updated is None else updated,
        },
    }


def observed(
    spec: dict[str, Any] = SPEC,
    *,
    status: EventConsumerStatus | None = None,
    hosts: Manifest | None = None,
    applications: tuple[Manifest, ...] = (),
    pods: tuple[Manifest, ...] = (),
    drivers: tuple[Manifest, ...] = (),
    reports: dict[str, HostReport] | None = None,
    generation: int = 1,
    now: datetime = NOW,
) -> Observed:
    """A world."""
    children: dict[tuple[Kind, str], Manifest] = {(STATEFUL_SET, "orders-host"): hosts} if hosts else {}
    return Observed(
        now=now,
        consumer=consumer(spec, status, generation),
        children=children,
        applications=applications,
        pods=pods,
        drivers=drivers,
        reports=reports or {},
    )


def pod(name: str = "orders-host-0", **status: Any) -> Manifest:
    """A pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "status": status}


def job(name: str, batch: int = 1, attempt: int = 1, **condition: Any) -> Manifest:
    """A Job with one condition, or with none."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-of-{name}",
            "creationTimestamp": NOW.isoformat(),
            "labels": {"eventconsumer.io/batch": str(batch), "eventconsumer.io/attempt": str(attempt)},
        },
        "status": {"conditions": [{"status": "True"} | condition]} if condition else {},
    }


class Told:
    """Takes keys as a queue does: which were told, and which of them were urgent."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.urgent: list[bool] = []

    def __call__(self, key: Key, delay: float = 0.0, *, urgent: bool = False) -> None:
        self.keys.append(key)
        self.urgent.append(urgent)
