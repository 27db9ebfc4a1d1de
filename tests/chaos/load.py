"""The load of a campaign, and what is observed meanwhile: reading of partitions, and conditions of the resources."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventhubs_emulator.admin_client import AdminClient, AdminError
from tests.chaos import orders

TICK_SECONDS = 0.5
POLL_SECONDS = 0.25
STATUS_SECONDS = 1.5
SHORTEST_SPAN_SECONDS = 1.0  # of an unread partition; shorter ones are not recorded


class Load(threading.Thread):
    """Publishes orders with unique ids to all partitions of a consumer's hub at a steady rate."""

    def __init__(
        self, admin: AdminClient, hub: str, partitions: Callable[[], int], rate: float, first: int = 0
    ) -> None:
        """Publish to a hub.

        Args:
            admin: Of the emulator.
            hub: Its name.
            partitions: Its present number of partitions.
            rate: Events a second.
            first: The first id.
        """
        super().__init__(daemon=True)
        self.sent: set[int] = set()
        self.uncertain: set[int] = set()  # events without a response: each may be in the hub
        self._admin = admin
        self._hub = hub
        self._partitions = partitions
        self._rate = rate
        self._next = first
        self._ended = threading.Event()

    def run(self) -> None:
        """Publish until `end`."""
        while not self._ended.wait(TICK_SECONDS):
            count = self._partitions()
            each = max(1, round(self._rate * TICK_SECONDS / count))
            for partition in range(count):
                self.publish(str(partition), each)

    def publish(self, partition: str, count: int) -> None:
        """Publish the next events to a partition."""
        ids = range(self._next, self._next + count)
        self._next += count
        try:
            self._admin.put_events(self._hub, partition, ((orders.body(each), {}) for each in ids))
        except (AdminError, OSError, ValueError):  # ValueError: a broken response
            self.uncertain.update(ids)
        else:
            self.sent.update(ids)

    def end(self) -> None:
        """Stop publishing."""
        self._ended.set()
        self.join()


@dataclass(frozen=True)
class Span:
    """A time during which a partition had no reader.

    Attributes:
        consumer: Name of the consumer, and of its hub.
        partition: Id of the partition.
        began: Seconds after the start of the campaign.
        seconds: Its length.
    """

    consumer: str
    partition: str
    began: float
    seconds: float

    @property
    def end(self) -> float:
        """Seconds after the start of the campaign."""
        return self.began + self.seconds


@dataclass
class Unread:
    """PURE: the times during which partitions had no reader, from observations.

    Attributes:
        spans: All ended times of at least `SHORTEST_SPAN_SECONDS`.
    """

    spans: list[Span] = field(default_factory=list)
    _since: dict[str, float] = field(default_factory=dict)

    def see(self, now: float, partitions: Iterable[str], read: set[str]) -> None:
        """Record an observation.

        Args:
            now: Seconds after the start of the campaign.
            partitions: All partitions, each as <consumer>/<partition>.
            read: Partitions that have a reader.
        """
        for partition in partitions:
            if partition not in read:
                self._since.setdefault(partition, now)
            elif partition in self._since:
                self._close(partition, now)

    def end(self, now: float) -> None:
        """Close all open times."""
        for partition in list(self._since):
            self._close(partition, now)

    def all_read(self) -> bool:
        """Whether every partition had a reader at the last observation."""
        return not self._since

    def _close(self, partition: str, now: float) -> None:
        began = self._since.pop(partition)
        if now - began >= SHORTEST_SPAN_SECONDS:
            consumer, _, number = partition.rpartition("/")
            self.spans.append(Span(consumer, number, began, now - began))


@dataclass
class States:
    """PURE: how long each condition was in each state, from observations.

    Attributes:
        seconds: (consumer, condition, "status reason") -> seconds.
    """

    seconds: dict[tuple[str, str, str], float] = field(default_factory=lambda: defaultdict(float))
    _last: dict[str, tuple[float, dict[str, str]]] = field(default_factory=dict)

    def see(self, now: float, consumer: str, status: Mapping[str, Any] | None) -> None:
        """Record an observation; the state of before lasts until it.

        Args:
            now: Seconds after the start of the campaign.
            consumer: Name of the resource.
            status: Its status; None: it cannot be read now, or the resource is absent.
        """
        if consumer in self._last:
            before, states = self._last[consumer]
            for kind, state in states.items():
                self.seconds[consumer, kind, state] += now - before
        if status is None:
            found = {"(status)": "not readable"}
        else:
            conditions = status.get("conditions", [])
            found = {each["type"]: f"{each['status']} {each.get('reason', '')}".strip() for each in conditions}
        self._last[consumer] = (now, found)


class Watch(threading.Thread):
    """Calls a function again and again until `end`; an error of it is an observation that is missing."""

    def __init__(self, look: Callable[[], None], pause: float) -> None:
        """Call a function.

        Args:
            look: Looks once.
            pause: Seconds between two calls.
        """
        super().__init__(daemon=True)
        self.errors = 0
        self._look = look
        self._pause = pause
        self._ended = threading.Event()

    def run(self) -> None:
        """Look until `end`."""
        while not self._ended.wait(self._pause):
            try:
                self._look()
            except Exception:  # the part that it asks is disturbed
                self.errors += 1

    def end(self) -> None:
        """Stop."""
        self._ended.set()
        self.join()
