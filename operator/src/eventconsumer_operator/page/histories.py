"""Keeps the last hour of every EventConsumer, as its reconciles observed it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from eventconsumer_api.resource.remedies import Severity, worst
from eventconsumer_api.v1alpha1.status import EventConsumerStatus
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import name_of
from eventconsumer_operator.page.history import MAX_PARTITIONS, History, Sample
from eventconsumer_operator.resource.observed import Observed

ALL_PARTITIONS = 65_536
"""Partitions of all EventConsumers with a history: about 64 MiB. Hosts report their number, and an attacker may."""


@dataclass(frozen=True)
class ObservedHost:
    """A host pod at the last reconcile; `state` is empty if it did not answer."""

    name: str
    state: str
    partitions: int
    leads: bool


@dataclass(frozen=True)
class Entry:
    """One EventConsumer.

    Attributes:
        observed_at: Time of its last reconcile.
        status: The status computed by it, written or not.
        severity: The worst of its conditions.
        hosts: Its host pods at that time.
        history: The last hour.
    """

    observed_at: datetime
    status: EventConsumerStatus
    severity: Severity
    hosts: tuple[ObservedHost, ...] = ()
    history: History = field(default_factory=History)


class Histories:
    """Entries by key. Reconciles write, the server reads, both on one event loop."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[Key, Entry] = {}
        self._partitions = 0  # with a history

    def record(self, observed: Observed, status: EventConsumerStatus) -> None:
        """Record the observed state and the status of a reconcile."""
        key = observed.consumer.key
        before = self._entries.get(key)
        history = before.history if before else History()
        others = self._partitions - history.partitions
        history.see(sample_of(observed), min(MAX_PARTITIONS, ALL_PARTITIONS - others))
        self._partitions = others + history.partitions
        self._entries[key] = Entry(observed.now, status, worst(status.conditions), _hosts(observed), history)

    def forget(self, key: Key) -> None:
        """Forget a resource that was deleted."""
        if (entry := self._entries.pop(key, None)) is not None:
            self._partitions -= entry.history.partitions

    def get(self, key: Key) -> Entry | None:
        """The entry of a resource; None: it was never reconciled, or was deleted."""
        return self._entries.get(key)

    def __iter__(self) -> Iterator[tuple[Key, Entry]]:
        """All entries, by namespace and name."""
        return iter(sorted(self._entries.items(), key=lambda item: item[0]))

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)


def sample_of(observed: Observed) -> Sample:
    """The sample for the history. Lags and owners are known only while a host leads."""
    fleet = observed.fleet
    time, partitions = observed.now.timestamp(), observed.partition_count or 0
    if fleet is None:
        # Without pods no partition is read; where pods do not answer, the readers are unknown.
        return Sample(time=time, partitions=partitions, owners=None if observed.pods else {})
    return Sample(
        time=time,
        partitions=partitions,
        lags=fleet.lags,
        owners=fleet.owners,
        files=fleet.files,
        events=fleet.events,
        batch=fleet.open_batch,
        commit=fleet.last_commit,
    )


def _hosts(observed: Observed) -> tuple[ObservedHost, ...]:
    found = []
    for name in map(name_of, (*observed.pods, *observed.probes)):
        report = observed.reports.get(name)
        if report is None:
            found.append(ObservedHost(name, "", 0, False))
        else:
            found.append(ObservedHost(name, report.state, len(report.partitions), report.fleet is not None))
    return tuple(found)
