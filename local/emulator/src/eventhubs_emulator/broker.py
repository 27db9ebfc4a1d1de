"""The namespace: hubs, policies, faults, and the links that are attached to them now.

The only module in which connections affect each other: a reader displaces another, an event wakes readers, a deleted
hub detaches its links. It uses links only as ``AttachedLink`` and calls ``detach`` on them; the protocol modules send
the frames.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from .errors import BadRequest, LinkFailed, NotFound
from .faults import SERVICE_KINDS, Endpoint, Faults, Selection
from .hub import Hub, Partition, Retention
from .keys import partition_of_key
from .messages import Event
from .readers import displaced_by
from .tokens import DEFAULT_POLICY, Policy

OUT_OF_RANGE = "com.microsoft:argument-out-of-range"
QUESTIONS_PER_SECOND = 50
"""Reads of properties that a hub answers.

Source: the quota of GetRuntimeInformation in https://learn.microsoft.com/azure/event-hubs/event-hubs-quotas.
"""


class DetachableLink(Protocol):
    """A link of any kind as the namespace sees it."""

    endpoint: Endpoint

    def detach(self, error: LinkFailed) -> None:
        """Detaches the link with an error."""


class AttachedLink(DetachableLink, Protocol):
    """A reader or producer as the namespace sees it."""

    epoch: int | None
    receiver_name: str

    def seek(self, sequence_number: int) -> None:
        """Makes a reader continue from another sequence number; no effect on a producer."""

    def describe(self) -> dict[str, Any]:
        """The link's state for the admin API."""


class Connected(Protocol):
    """A connection as the namespace sees it."""

    number: int

    def drop(self) -> None:
        """Drops the connection without a close frame."""

    def wake(self) -> None:
        """Makes it check for output."""

    def tick(self) -> None:
        """Makes it check the clock."""

    def expire_claims(self) -> None:
        """Expires every token of the connection."""


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Broker:
    """A namespace.

    Args:
        retention: Retention of every partition.
        policies: the shared access policies; Microsoft's emulator default if there are none.
        allow_jwt: whether bearer tokens are accepted (without being verified).
        clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        retention: Retention | None = None,
        policies: Iterable[Policy] = (),
        allow_jwt: bool = False,
        clock: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.retention = retention or Retention()
        self.policies = {policy.name: policy for policy in policies} or {DEFAULT_POLICY.name: DEFAULT_POLICY}
        self.allow_jwt = allow_jwt
        self.clock = clock
        self.faults = Faults()
        self.hubs: dict[str, Hub] = {}
        self.links: list[AttachedLink] = []
        self.service_links: list[DetachableLink] = []
        self.connections: dict[int, Connected] = {}
        self.counters: Counter[str] = Counter()
        self._last_created = 0
        self._questions: dict[str, tuple[float, int]] = {}  # by hub: reads that are left, and since when in ms

    # Hubs

    def hub(self, name: str) -> Hub:
        """A hub by its name in any case.

        Raises:
            NotFound: no hub has that name.
        """
        found = self.hubs.get(name.lower())
        if found is None:
            raise NotFound(f"there is no hub {name!r}; there are: {', '.join(self.names()) or 'none'}")
        return found

    def names(self) -> list[str]:
        """The names of all hubs."""
        return sorted(hub.name for hub in self.hubs.values())

    def create_hub(self, name: str, partitions: int, groups: Iterable[str] = ()) -> Hub:
        """Creates a hub.

        Raises:
            BadRequest: the name is in use or invalid, or the number of partitions is invalid.
        """
        if not name or "/" in name or name.startswith("$"):
            raise BadRequest(f"{name!r} cannot name a hub: it must not be empty, contain '/' or start with '$'")
        if name.lower() in self.hubs:
            raise BadRequest(f"hub {name!r} exists; recreate or delete it instead")
        # Strictly later than all earlier hubs, so that a recreated hub always differs from the old one.
        self._last_created = max(self.clock(), self._last_created + 1)
        hub = Hub(name, partitions, groups, self.retention, self._last_created)
        self.hubs[name.lower()] = hub
        return hub

    def delete_hub(self, name: str) -> Hub:
        """Deletes a hub and detaches its links, as Azure does."""
        hub = self.hub(name)
        del self.hubs[name.lower()]
        self.detach(Selection(hub=hub.name), not_found(hub.name))
        return hub

    def recreate_hub(self, name: str, partitions: int | None = None) -> Hub:
        """Deletes a hub and creates it again, empty, under the same name."""
        old = self.delete_hub(name)
        return self.create_hub(old.name, partitions or len(old.partitions), old.groups)

    def fail_over(self, name: str, lost: Mapping[str, int], *, recreated: bool) -> int:
        """Promotes a secondary to primary: the newest events may be lost, and every link is detached.

        Args:
            name: of the hub.
            lost: partition id -> number of its newest sequence numbers that the secondary does not have.
            recreated: whether the hub's creation time is that of the secondary.

        Returns:
            The number of lost events.
        """
        hub = self.hub(name)
        chosen = [(hub.partition(partition), count) for partition, count in lost.items()]
        gone = sum(partition.forget_last(count) for partition, count in chosen)
        if recreated:
            hub.created_ms = self._last_created = max(self.clock(), self._last_created + 1)
        self.detach(
            Selection(hub=hub.name), LinkFailed("amqp:link:detach-forced", "The namespace was failed over: reconnect.")
        )
        return gone

    # Links

    def reader_partition(self, hub_name: str, group: str, partition_id: str) -> tuple[Hub, Partition]:
        """The partition of a reader's address.

        Raises:
            LinkFailed: the hub, group or partition does not exist.
        """
        hub = self.hubs.get(hub_name.lower())
        if hub is None:
            raise not_found(hub_name)
        if not hub.has_group(group):
            raise not_found(f"{hub.name}/ConsumerGroups/{group}")
        return hub, self.link_partition(hub, partition_id)

    def producer_hub(self, hub_name: str) -> Hub:
        """The hub of a producer's address.

        Raises:
            LinkFailed: the hub does not exist.
        """
        hub = self.hubs.get(hub_name.lower())
        if hub is None:
            raise not_found(hub_name)
        return hub

    def link_partition(self, hub: Hub, partition_id: str) -> Partition:
        """A partition that a link names.

        Raises:
            LinkFailed: the hub has no such partition.
        """
        try:
            return hub.partition(partition_id)
        except NotFound:
            raise LinkFailed(
                OUT_OF_RANGE,
                "The specified partition is invalid for an EventHub partition sender or receiver. It should be between "
                f"0 and {len(hub.partitions) - 1}. Parameter name: PartitionId",
            ) from None

    def admit(self, link: AttachedLink) -> None:
        """Admits a link, and disconnects readers whose epoch is not higher.

        Raises:
            LinkFailed: a fault or the epoch rules refuse it.
        """
        self.faults.check_attach(link.endpoint)
        mine = link.endpoint
        if mine.kind == "reader":
            present = [
                other
                for other in self.links
                if other.endpoint.kind == "reader"
                and (other.endpoint.hub, other.endpoint.partition) == (mine.hub, mine.partition)
                and (other.endpoint.group or "").lower() == (mine.group or "").lower()
            ]
            reasons = displaced_by(
                link.epoch,
                [other.epoch for other in present],
                link.receiver_name,
                [other.receiver_name for other in present],
            )
            for other, reason in zip(present, reasons, strict=bool(reasons)):
                other.detach(reason)
        self.links.append(link)

    def may_ask(self, hub: Hub) -> bool:
        """Whether the hub answers one more read of properties now; counts it if so."""
        left, since = self._questions.get(hub.name, (float(QUESTIONS_PER_SECOND), 0))
        now = self.clock()
        left = min(QUESTIONS_PER_SECOND, left + (now - since) * QUESTIONS_PER_SECOND / 1000)
        self._questions[hub.name] = (left - 1 if left >= 1 else left, now)
        return left >= 1

    def forget(self, link: AttachedLink) -> None:
        """Removes a link; unknown links are ignored."""
        if link in self.links:
            self.links.remove(link)

    def select(self, selection: Selection) -> list[AttachedLink]:
        """The selected links."""
        return [link for link in self.links if selection.matches(link.endpoint)]

    def detach(self, selection: Selection, error: LinkFailed) -> int:
        """Detaches links with an error.

        Returns:
            Their number.
        """
        links: list[DetachableLink] = [*self.select(selection)]
        if selection.kind in SERVICE_KINDS:
            links += [link for link in self.service_links if selection.matches(link.endpoint)]
        for link in links:
            link.detach(error)
        return len(links)

    def wake_all(self) -> None:
        """Makes every connection check for output."""
        for connection in tuple(self.connections.values()):
            connection.wake()

    # Events

    def publish(self, hub: Hub, partition: Partition | None, events: list[Event]) -> None:
        """Enqueues the events of one transfer, all in one partition.

        Args:
            hub: the hub.
            partition: the partition if the producer chose it; else it is chosen by key or round robin.
            events: the events; all have the key of the first one.
        """
        if not events:
            return
        if partition is None:
            key = events[0].key
            partition = hub.partitions[partition_of_key(key, len(hub.partitions))] if key else hub.next_partition()
        partition.append(events, self.clock())
        self.counters["events_in"] += len(events)
        self.counters["transfers_in"] += 1

    def expire(self) -> None:
        """Drops events older than the retention."""
        now = self.clock()
        for hub in self.hubs.values():
            for partition in hub.partitions:
                partition.expire(now)


def not_found(path: str) -> LinkFailed:
    """The error for an entity that does not exist."""
    return LinkFailed("amqp:not-found", f"The messaging entity '{path}' could not be found.")
