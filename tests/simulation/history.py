"""What one hub ever held, event by event. Each event has a body of its own, by which the checker tells it. A handler
that keeps an event gives it another body, which begins with the event's own one, and has a number of its own.

A sequence number does not name an event: after a failover that lost the end of a partition, the hub gives the same
numbers to other events. So each partition has lives. A life ends when events vanish (failover, or the hub is deleted),
and the next one begins with what is left.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Event:
    """One event of a partition."""

    number: int
    body: str
    born: int  # the life of the partition in which it was enqueued
    lost: int | None = None  # the first life of the partition that no longer has it; None: it did not vanish
    expired: bool = False  # retention removed it
    compacted: bool = False  # log compaction removed it
    excused: bool = False  # it is in no file, for a reason that is allowed
    file: str = ""  # the file that it is in
    time: int = 0  # when it was enqueued, by the clock of its broker, milliseconds since 1970
    returned: set[tuple[str, str]] = field(default_factory=set)  # host, body: what its handler made of it
    left_out: set[str] = field(default_factory=set)  # hosts whose handler dropped it, or made it a dead letter
    counted: str = ""  # the file that counts it as dropped

    @property
    def held(self) -> bool:
        """Whether the hub has it now."""
        return self.lost is None and not self.expired and not self.compacted

    def consistent(self, low: int, high: float) -> bool:
        """Whether it exists in some life from `low` to below `high`."""
        return self.born < high and (self.lost is None or self.lost > low)


@dataclass
class History:
    """All events of one hub, called `hub`, by partition."""

    hub: str
    lives: Counter[str] = field(default_factory=Counter)
    _events: dict[str, list[Event]] = field(default_factory=dict)
    _bodies: dict[str, tuple[str, Event]] = field(default_factory=dict)
    _edits: int = 0
    _numbered: dict[tuple[str, int], list[Event]] = field(default_factory=dict)

    def produce(self, partition: str, number: int, time: int = 0) -> bytes:
        """A new event's body: hub, life, partition and serial number."""
        life, events = self.lives[partition], self.events(partition)
        event = Event(number, f"{self.hub}/{life}/{partition}/{len(events)}", life, time=time)
        events.append(event)
        self._bodies[event.body] = partition, event
        self._numbered.setdefault((partition, number), []).append(event)
        return event.body.encode()

    def expire(self, partition: str, below: int) -> None:
        """Retention removed the events below a sequence number; what was compacted right behind it is gone too."""
        for event in self.events(partition):
            if event.lost is None and event.number < below:
                event.expired = True
            elif event.held:
                break
            elif event.lost is None and event.compacted:
                event.expired = True

    def compact(self, partition: str, number: int) -> None:
        """Log compaction removed the event that the hub had under a number."""
        for event in self.numbered(partition, number):
            if event.held:
                event.compacted = True

    def truncate(self, partition: str, last: int) -> None:
        """The events above a sequence number vanished; the hub uses their numbers again."""
        self.lives[partition] += 1
        for event in self.events(partition):
            if event.lost is None and event.number > last:
                event.lost = self.lives[partition]

    def events(self, partition: str) -> list[Event]:
        """All events of a partition, in the order in which they were enqueued."""
        return self._events.setdefault(partition, [])

    def partitions(self) -> list[str]:
        """All partitions that ever had an event."""
        return sorted(self._events)

    def keep(self, partition: str, body: str, host: str) -> str:
        """A host's handler keeps an event; its new body."""
        self._edits += 1
        edited = f"{body}~{self._edits}"
        if event := self.find(partition, body):
            event.returned.add((host, edited))
        return edited

    def leave_out(self, partition: str, body: str, host: str) -> None:
        """A host's handler drops an event, or rejects it."""
        if event := self.find(partition, body):
            event.left_out.add(host)

    def find(self, partition: str, body: str) -> Event | None:
        """The event with a body, or of which a handler made it; None where this partition of this hub never had it."""
        known, event = self._bodies.get(body.partition("~")[0], ("", None))
        return event if known == partition else None

    def numbered(self, partition: str, number: int) -> list[Event]:
        """All events that the partition ever had under a number."""
        return self._numbered.get((partition, number), [])
