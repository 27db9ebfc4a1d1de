"""A cluster in memory that behaves as commands see one, and a consumer with two hosts in it."""

import copy
import queue
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.wire.host_report import FleetReport, HostReport, HostState, PartitionLag, PartitionReport
from eventconsumer_cli.errors import Failed, Forbidden, NotFound, RefusedError
from eventconsumer_cli.kube.kinds import EVENT_CONSUMER, POD, name_of

UID = "11111111-2222-3333-4444-555555555555"
THEN = datetime.now(UTC) - timedelta(days=2, hours=2, minutes=20)  # not at a change of its age in text


class FakeCluster:
    """`Cluster` in memory: versions rise, labels select, merge patches merge, and rights can be taken away."""

    def __init__(self, namespace: str = "shop") -> None:
        self.namespace = namespace
        self.objects: dict[tuple[str, str, str], Manifest] = {}
        self.reports: dict[str, HostReport] = {}
        self.logs_of: dict[str, queue.SimpleQueue[bytes | None]] = {}
        self.forbidden: set[str] = set()
        self.deleted: list[str] = []

    def put(self, kind: Kind, manifest: Manifest) -> Manifest:
        """Store an object as a controller would."""
        metadata = manifest["metadata"]
        key = (kind.plural, metadata.get("namespace", ""), metadata["name"])
        metadata["generation"] = self.objects.get(key, {}).get("metadata", {}).get("generation", 0) + 1
        self.objects[key] = manifest
        return manifest

    def remove(self, kind: Kind, namespace: str, name: str) -> None:
        """As a controller would."""
        del self.objects[kind.plural, namespace, name]

    def log(self, pod: str, *lines: str, ended: bool = False) -> None:
        """A container prints, and perhaps ends."""
        lines_of = self.logs_of.setdefault(pod, queue.SimpleQueue())
        for line in lines:
            lines_of.put(line.encode() + b"\n")
        if ended:
            lines_of.put(None)

    def _allow(self, what: str) -> None:
        if what in self.forbidden:
            raise Forbidden(f"{what} is forbidden for you", "ask for it")

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        self._allow(kind.plural)
        try:
            return copy.deepcopy(self.objects[kind.plural, namespace, name])
        except KeyError:
            raise NotFound(f'{kind.plural} "{name}" not found') from None

    def list(self, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None) -> list[Manifest]:
        self._allow(kind.plural)
        return [
            copy.deepcopy(found)
            for (plural, where, _), found in self.objects.items()
            if plural == kind.plural
            and namespace in {"", where}
            and (labels or {}).items() <= found["metadata"].get("labels", {}).items()
        ]

    def create(self, kind: Kind, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        self._allow(kind.plural)
        key = (kind.plural, manifest["metadata"].get("namespace", ""), name_of(manifest))
        if key in self.objects:
            raise RefusedError(f'{kind.plural} "{name_of(manifest)}" already exists')
        return manifest if dry_run else self.put(kind, copy.deepcopy(manifest))

    def merge(self, kind: Kind, namespace: str, name: str, change: Manifest) -> Manifest:
        self._allow(f"{kind.plural} patch")
        return self.put(kind, _merged(self.get(kind, namespace, name), change))

    def delete(self, kind: Kind, namespace: str, name: str, *, grace_seconds: int | None = None) -> None:
        self._allow(kind.plural)
        if self.objects.pop((kind.plural, namespace, name), None) is not None:
            self.deleted.append(name)

    def logs(
        self, namespace: str, pod: str, container: str, *, follow: bool, tail: int | None, since: int | None
    ) -> Iterator[bytes]:
        self._allow("pods/log")
        if ("pods", namespace, pod) not in self.objects:
            raise NotFound(f'pods "{pod}" not found')
        return self._lines(pod, follow=follow, tail=tail)

    def _lines(self, pod: str, *, follow: bool, tail: int | None) -> Iterator[bytes]:
        lines = self.logs_of.setdefault(pod, queue.SimpleQueue())
        if not follow:
            there = [lines.get() for _ in range(lines.qsize())]
            whole = [line for line in there if line is not None]
            yield from whole if tail is None else whole[len(whole) - min(tail, len(whole)) :]
            return
        while (line := lines.get()) is not None:
            yield line

    def ask_pod(self, namespace: str, pod: str, port: int, path: str) -> bytes:
        self._allow("pods/proxy")
        if pod not in self.reports:
            raise Failed(f"pod {namespace}/{pod} does not respond on port {port}")
        return self.reports[pod].model_dump_json(by_alias=True).encode()


def _merged(base: Any, change: Any) -> Any:
    if not isinstance(change, dict) or not isinstance(base, dict):
        return change
    merged = dict(base)
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name, {}), value)
    return merged


def condition(kind: str, status: str, reason: str, message: str) -> Manifest:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": THEN.isoformat(),
        "observedGeneration": 1,
    }


HEALTHY = [
    condition("Ready", "True", "Available", "4 of 4 partitions are read"),
    condition("Reconciling", "False", "Available", "All resources match the spec"),
    condition("Stalled", "False", "Available", "No action required"),
    condition("HostsAvailable", "True", "Available", "2 of 2 hosts are ready"),
    condition("Draining", "True", "Available", "4 of 4 partitions are read"),
    condition("DataGap", "False", "Available", "no events expired before they were written"),
    condition("SparkHealthy", "True", "Idle", "no batch is open"),
]


EFFECTIVE = {"replicas": 2, "image": "i", "sparkImage": "i", "sinkPrefix": "shop/orders", "configHash": "h"}


def consumer(name: str = "orders", namespace: str = "shop", *, spark: bool = True, **status: Any) -> Manifest:
    """A consumer that does well, or what `status` says."""
    spec: Manifest = {"eventHub": {"name": name}, "checkpointStore": {}}
    spec["sink"] = {
        "container": "drained",
        "authentication": {"connectionStringSecretRef": {"name": "orders-storage"}},
        "table": {"maxSeconds": 10},
    }
    said: Manifest = {
        "observedGeneration": 1,
        "conditions": HEALTHY,
        "hosts": {"desired": 2, "ready": 2},
        "partitions": {"total": 4, "owned": 4, "unowned": 0},
        "lag": {"events": 1234, "seconds": 12},
        "scaling": {"replicas": 2, "reason": "4 partitions / 2 for each host"},
        "drained": {"files": 20, "events": 1_000_000, "bytes": 12_300_000, "lastFileTime": THEN.isoformat()},
        "table": {
            "version": 7,
            "files": 19,
            "events": 950_000,
            "pendingFiles": 1,
            "pendingEvents": 50_000,
            "oldestPendingTime": THEN.isoformat(),
            "lastCommitTime": THEN.isoformat(),
        },
        "effective": dict(EFFECTIVE),
    }
    if spark:
        spec["spark"] = {"trigger": {"files": 20}}
        said["spark"] = {
            "lastBatch": 3,
            "attempt": 2,
            "pendingFiles": 7,
            "pendingBytes": 7_000,
            "processedFiles": 13,
            "lastCommit": {
                "number": 2,
                "time": THEN.isoformat(),
                "rowsRead": 500,
                "rowsWritten": 499,
                "seconds": 65.4,
            },
        }
    return {
        "apiVersion": "eventconsumer.io/v1alpha1",
        "kind": "EventConsumer",
        "metadata": {"name": name, "namespace": namespace, "uid": UID, "creationTimestamp": THEN.isoformat()},
        "spec": spec,
        "status": said | status,
    }


def pod(name: str, namespace: str = "shop", consumer: str = "orders", **status: Any) -> Manifest:
    """A host pod that is ready, or what `status` says."""
    said: Manifest = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "host", "restartCount": 1, "state": {"running": {}}}],
    }
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": UID,
            "creationTimestamp": THEN.isoformat(),
            "labels": {labels.LABEL_CONSUMER: consumer, labels.LABEL_COMPONENT: labels.COMPONENT_HOST},
        },
        "spec": {"nodeName": "node-a"},
        "status": said | status,
    }


def report(name: str, *partitions: str, events: int = 100, fleet: FleetReport | None = None) -> HostReport:
    """What a host says that reads these partitions."""
    return HostReport(
        owner=f"shop/orders/{name}.{UID}",
        state=HostState.RUNNING,
        partition_count=4,
        partitions=tuple(
            PartitionReport(
                id=each,
                epoch=5,
                next_sequence_number=events,
                sequence_number=events + 10,
                events=events,
                files=3,
                enqueued_time=datetime.now(UTC) - timedelta(seconds=3),
            )
            for each in partitions
        ),
        fleet=fleet,
    )


def fleet(owners: Mapping[str, str], **more: Any) -> FleetReport:
    """What the leading host measured; owners are pod names."""
    values: dict[str, Any] = {
        "partition_count": 4,
        "hub_created_at": THEN,
        "owners": {partition: f"shop/orders/{owner}.{UID}" for partition, owner in owners.items()},
        "lag_events": 40,
        "lag_seconds": 7.5,
        "lags": {partition: PartitionLag(events=10, seconds=7.5) for partition in map(str, range(4))},
        "files": 21,
        "events": 1_000_100,
        "bytes": 12_400_000,
        "last_file_time": datetime.now(UTC),
    }
    return FleetReport(**(values | more))


def shop() -> FakeCluster:
    """A consumer with two hosts that read two partitions each."""
    cluster = FakeCluster()
    cluster.put(EVENT_CONSUMER, consumer())
    for name in ("orders-host-0", "orders-host-1"):
        cluster.put(POD, pod(name))
    owners = {"0": "orders-host-0", "1": "orders-host-0", "2": "orders-host-1", "3": "orders-host-1"}
    cluster.reports = {
        "orders-host-0": report("orders-host-0", "0", "1", fleet=fleet(owners)),
        "orders-host-1": report("orders-host-1", "2", "3"),
    }
    return cluster
