"""Observed: the state of one resource and its children, as one reconcile reads it.

Plan and status are functions of it. It contains no decisions; the properties are shared by several readers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_api.wire.host_report import FleetReport, HostReport
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import spec_of


@dataclass(frozen=True)
class Consumer:
    """One EventConsumer.

    Attributes:
        resource_version: The version that was read.
        spec: As written, not validated.
        status: As last written by an operator; empty where it cannot be parsed.
    """

    key: Key
    uid: str
    resource_version: str
    generation: int
    spec: Mapping[str, Any]
    status: EventConsumerStatus = field(default_factory=EventConsumerStatus)

    @property
    def reference(self) -> ResourceRef:
        """Its identity for hosts and Spark jobs."""
        return ResourceRef(namespace=self.key.namespace, name=self.key.name, uid=self.uid)


def consumer_from(manifest: Manifest) -> Consumer:
    """Read an EventConsumer manifest."""
    metadata = manifest["metadata"]
    try:
        status = EventConsumerStatus.model_validate(manifest.get("status", {}))
    except ValidationError:
        # Written by hand or by an operator of another version. It is only a memory: start without it.
        status = EventConsumerStatus()
    return Consumer(
        key=Key(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        spec=spec_of(manifest),
        status=status,
    )


@dataclass(frozen=True)
class Observed:
    """The observed state.

    Attributes:
        now: Time of reading, UTC.
        consumer: The resource.
        older_reader: Name of an older EventConsumer that reads the same hub in the same consumer group; empty: none.
        children: Live objects by kind and name, for each fixed name that exists, with any owner.
        applications: Spark applications of this resource, of all launchers.
        pods: Host pods of this resource.
        drivers: Spark driver pods of those applications, and of deleted applications.
        executors: Spark executor pods of those drivers.
        probes: The pod of the probe, if it exists.
        reports: Reports of hosts and probe by pod name; pods that did not answer are absent.
        reprocess_jobs: Jobs of this resource that reprocess batches.
        reprocess_pods: Driver pods of those Jobs.
        replays: Jobs of replays of this resource.
        replay_pods: Pods of those Jobs.
        replay_reports: Their reports, by pod name.
        refusals: Why the API server refused pods, by uid of the object that should have them; absent: unknown.
    """

    now: datetime
    consumer: Consumer
    older_reader: str = ""
    children: Mapping[tuple[Kind, str], Manifest] = field(default_factory=dict)
    applications: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    drivers: tuple[Manifest, ...] = ()
    executors: tuple[Manifest, ...] = ()
    probes: tuple[Manifest, ...] = ()
    reports: Mapping[str, HostReport] = field(default_factory=dict)
    reprocess_jobs: tuple[Manifest, ...] = ()
    reprocess_pods: tuple[Manifest, ...] = ()
    replays: tuple[Manifest, ...] = ()
    replay_pods: tuple[Manifest, ...] = ()
    replay_reports: Mapping[str, HostReport] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def fleet(self) -> FleetReport | None:
        """The report of the leading host; during a change of leader, the more recent of two."""
        reports = (report.fleet for report in self.reports.values() if report.fleet)
        return max(reports, key=lambda fleet: (fleet.committed_batch, fleet.files), default=None)

    @property
    def partition_count(self) -> int | None:
        """Partitions of the hub, from the hosts, else from the last status; None: unknown."""
        counts = [report.partition_count for report in self.reports.values() if report.partition_count]
        return max(counts) if counts else self.consumer.status.hub.partition_count
