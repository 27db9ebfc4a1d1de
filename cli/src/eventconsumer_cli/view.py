"""A consumer at one moment: its resource and what its hosts say, put together. Pure.

Two sources say the same at different speeds: the operator's status follows within some seconds, the hosts know now.
What a host says wins where both speak of it.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_api.v1alpha1.status import EventConsumerStatus, WatermarkStatus
from eventconsumer_api.wire.host_report import HostReport, PartitionReport
from eventconsumer_api.wire.identity import pod_of
from eventconsumer_cli.errors import Failed
from eventconsumer_cli.kube.kinds import is_ready, name_of, namespace_of
from eventconsumer_cli.kube.reports import HostPods
from eventconsumer_cli.text import time_of

_CONDITIONS = frozenset(ConditionType)


@dataclass(frozen=True)
class Partition:
    """One partition of the hub.

    Attributes:
        id: As the hub has it.
        owner: Pod of the host that reads it, or another program's name; empty: none.
        report: What its owner says; None: the owner said nothing.
        lag_events: Retained events in no file; None: not known.
        lag_seconds: Age of the oldest of them, 0: there is none; None: not known.
    """

    id: str
    owner: str = ""
    report: PartitionReport | None = None
    lag_events: int | None = None
    lag_seconds: float | None = None

    def document(self) -> dict[str, Any]:
        """For programs."""
        report = self.report
        return {
            "partition": self.id,
            "owner": self.owner or None,
            "epoch": report.epoch if report else None,
            "nextSequenceNumber": report.next_sequence_number if report else None,
            "sequenceNumber": report.sequence_number if report else None,
            "enqueuedTime": report.enqueued_time.isoformat() if report and report.enqueued_time else None,
            "lagEvents": self.lag_events,
            "lagSeconds": self.lag_seconds,
            "events": report.events if report else None,
            "files": report.files if report else None,
        }


@dataclass(frozen=True)
class HostPod:
    """One host pod.

    Attributes:
        name: Of the pod.
        ready: The pod's condition Ready.
        phase: Of the pod; what keeps a container from running where something does.
        restarts: Of its containers.
        node: Where it runs; empty: nowhere yet.
        started: When the pod was made.
        leads: Whether it is the leading host.
        report: What it says; None: it did not answer.
    """

    name: str
    ready: bool
    phase: str
    restarts: int
    node: str
    started: datetime | None
    leads: bool
    report: HostReport | None

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "pod": self.name,
            "ready": self.ready,
            "phase": self.phase,
            "restarts": self.restarts,
            "node": self.node or None,
            "started": self.started.isoformat() if self.started else None,
            "leads": self.leads,
            "report": self.report.model_dump(mode="json", by_alias=True, exclude_none=True) if self.report else None,
        }


@dataclass(frozen=True)
class Look:
    """A consumer at one moment."""

    consumer: Manifest
    hosts: HostPods
    now: datetime

    @property
    def name(self) -> str:
        """Of the consumer."""
        return name_of(self.consumer)

    @property
    def namespace(self) -> str:
        """Of the consumer."""
        return namespace_of(self.consumer)

    @cached_property
    def status(self) -> EventConsumerStatus:
        """What the operator says; all unknown where it said nothing.

        Raises:
            Failed: It is not what this version knows.
        """
        said = dict(self.consumer.get("status") or {})
        # A newer operator may know more conditions.
        said["conditions"] = [each for each in said.get("conditions", []) if each.get("type") in _CONDITIONS]
        try:
            return EventConsumerStatus.model_validate(said)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            raise Failed(
                f"the status of {self.name} is not understood (status.{field}); another operator version wrote it",
                "install the version of this plugin that goes with the operator; -o yaml shows the status as it is",
            ) from error

    @property
    def suspended(self) -> bool:
        """spec.suspend."""
        return bool(self.consumer.get("spec", {}).get("suspend"))

    @property
    def unanswered(self) -> bool:
        """Whether the operator has not seen the newest change of the spec, or nothing of it."""
        return self.status.observed_generation < int(self.consumer["metadata"].get("generation", 0))

    @property
    def lag(self) -> tuple[int | None, float | None]:
        """Events in no file, and the age of the oldest, seconds."""
        fleet = self.hosts.fleet
        if fleet:
            return fleet.lag_events, fleet.lag_seconds
        return self.status.lag.events, self.status.lag.seconds

    @property
    def written(self) -> tuple[int, int, int, datetime | None]:
        """Files, events and bytes that are in files, and when the newest file was committed."""
        drained = self.hosts.fleet or self.status.drained
        return drained.files, drained.events, drained.bytes, drained.last_file_time

    @property
    def gap_events(self) -> int:
        """Events that expired before they were written to a file."""
        return (self.hosts.fleet or self.status.drained).gap_events

    @property
    def acknowledged_gap_events(self) -> int:
        """spec.acknowledgedGapEvents."""
        return int(self.consumer.get("spec", {}).get("acknowledgedGapEvents", 0))

    @property
    def complete(self) -> datetime | None:
        """All events that were enqueued before are in files; None: not known."""
        fleet = self.hosts.fleet
        return fleet.watermark.files if fleet and fleet.watermark else self.status.drained.watermark

    @property
    def committed(self) -> WatermarkStatus | None:
        """The same for committed batches; None: not known."""
        fleet = self.hosts.fleet
        if fleet and fleet.watermark and fleet.watermark.commits:
            return WatermarkStatus(time=fleet.watermark.commits, batch=fleet.watermark.batch)
        return self.status.spark.watermark if self.status.spark else None

    @property
    def owned(self) -> tuple[int | None, int | None]:
        """Partitions that are read, and all there are; None: not known."""
        status = self.status.partitions
        if self.hosts.fleet:
            return len(self.hosts.fleet.owners), self.hosts.fleet.partition_count
        return status.owned, status.total

    def partitions(self) -> list[Partition]:
        """All partitions, in order; empty: no host told of any."""
        fleet = self.hosts.fleet
        told = {
            each.id: (pod, each) for pod, report in sorted(self.hosts.reports.items()) for each in report.partitions
        }
        counts = [report.partition_count for report in self.hosts.reports.values() if report.partition_count]
        if not counts and not told:
            return []
        # Ids of partitions are their numbers; should a hub ever have others, owners and lags name them.
        ids = {*map(str, range(max(counts, default=0))), *told}
        if fleet:
            ids |= {*fleet.owners, *fleet.lags}
        return [self._partition(id_, told.get(id_)) for id_ in sorted(ids, key=_in_order)]

    def _partition(self, id_: str, told: tuple[str, PartitionReport] | None) -> Partition:
        fleet = self.hosts.fleet
        lag = fleet.lags.get(id_) if fleet else None
        # A host knows what it reads; the leader's view of the leases is some seconds older.
        owner = told[0] if told else pod_of(fleet.owners.get(id_, "")) if fleet else ""
        return Partition(
            id=id_,
            owner=owner,
            report=told[1] if told else None,
            lag_events=lag.events if lag else None,
            lag_seconds=lag.seconds if lag else None,
        )

    def host_list(self) -> list[HostPod]:
        """All host pods, in order."""
        return [
            HostPod(
                name=name,
                ready=is_ready(pod),
                phase=_phase(pod),
                restarts=sum(each.get("restartCount", 0) for each in _containers(pod)),
                node=pod.get("spec", {}).get("nodeName", ""),
                started=time_of(pod["metadata"].get("creationTimestamp")),
                leads=name == self.hosts.leader,
                report=self.hosts.reports.get(name),
            )
            for name, pod in sorted(self.hosts.pods.items(), key=lambda item: _in_order(item[0]))
        ]


def _in_order(name: str) -> tuple[str, int, str]:
    """By the number at the end: orders-host-2 before orders-host-10, partition 2 before 10."""
    head = name.rstrip("0123456789")
    tail = name[len(head) :]
    return head, int(tail) if tail else -1, name


def _containers(pod: Manifest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pod.get("status", {}).get("containerStatuses", [])
    return found


def _phase(pod: Manifest) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for container in _containers(pod):
        state = container.get("state", {})
        reason = state.get("waiting", {}).get("reason") or state.get("terminated", {}).get("reason")
        if reason:
            return str(reason)
    return str(pod.get("status", {}).get("phase", "Unknown"))
