"""The model: hubs, partitions and their logs. Pure: the time is an argument, and only listeners are called.

A partition is a log of events with an int64 sequence number (rising by one, unless a test makes a gap), an offset that
is opaque to clients (here the byte position, so it always differs from the sequence number) and an enqueued time that
never falls. Retention removes old events by count, bytes and age, so memory is bounded; their numbers are never used
again. Two operations break these rules, as in Azure: log compaction removes events in the middle, and a forced failover
to a lagging secondary removes the newest events, and the next events get their numbers.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .errors import BadRequest, NotFound
from .messages import Event

NEVER_MS = -62_135_596_800_000
"""The enqueued time of "no event yet", as Event Hubs reports it: the year 1."""
OVERHEAD = 200
"""Approximate bytes of memory of an event without its payload."""
MAX_PARTITIONS = 1024
"""Maximum number of partitions of a hub (the limit of a dedicated cluster)."""


class Stored(NamedTuple):
    """An event in a partition.

    Attributes:
        sequence_number: its number.
        offset: its offset as a number; on the wire it is a decimal string.
        enqueued_ms: enqueued time, milliseconds since the epoch.
        payload: the message as readers get it.
        insert: position of delivery annotations in the payload.
    """

    sequence_number: int
    offset: int
    enqueued_ms: int
    payload: bytes
    insert: int


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of one partition: the first limit that is reached drops the oldest events.

    Attributes:
        max_events: events.
        max_bytes: bytes of memory.
        max_age_ms: milliseconds since an event was enqueued.
    """

    max_events: int = 1_000_000
    max_bytes: int = 128 * 1024 * 1024
    max_age_ms: int = 24 * 3600 * 1000


class Partition:
    """One partition's log."""

    def __init__(self, partition_id: str, retention: Retention) -> None:
        self.id = partition_id
        self.next_sequence_number = 0
        self.listeners: set[Callable[[], None]] = set()
        self._retention = retention
        self._log: list[Stored] = []
        self._start = 0
        self._bytes = 0
        self._next_offset = 0
        self._last_offset = -1
        self._last_ms = NEVER_MS

    def __len__(self) -> int:
        return len(self._log) - self._start

    @property
    def last_sequence_number(self) -> int:
        """The number of the newest event ever, -1 if there was none."""
        return self.next_sequence_number - 1

    @property
    def begin_sequence_number(self) -> int:
        """The number of the oldest retained event; of the newest ever if none is retained, as in Event Hubs."""
        return self._log[self._start].sequence_number if len(self) else self.last_sequence_number

    @property
    def last_offset(self) -> str:
        """The offset of the newest event ever, "-1" if there was none."""
        return str(self._last_offset)

    @property
    def last_enqueued_ms(self) -> int:
        """When the newest event ever was enqueued, ``NEVER_MS`` if there was none."""
        return self._last_ms

    @property
    def memory(self) -> int:
        """Approximate bytes of memory."""
        return self._bytes

    def append(self, events: Iterable[Event], now_ms: int) -> None:
        """Enqueues events, drops those beyond the retention, and notifies the listeners once."""
        self._last_ms = now_ms = max(now_ms, self._last_ms)
        for event in events:
            number, offset = self.next_sequence_number, self._next_offset
            payload, insert = event.annotated(number, str(offset), now_ms)
            self._log.append(Stored(number, offset, now_ms, payload, insert))
            self._bytes += len(payload) + OVERHEAD
            self._last_offset = offset
            self._next_offset += len(payload)
            self.next_sequence_number += 1
        self.expire(now_ms)
        for listener in tuple(self.listeners):
            listener()

    def read(self, sequence_number: int, limit: int) -> list[Stored]:
        """At most ``limit`` events from the first one whose number is not below ``sequence_number``."""
        if sequence_number > self.last_sequence_number:
            return []
        start = self._index(sequence_number)
        return self._log[start : start + limit]

    def _index(self, sequence_number: int) -> int:
        if not len(self):
            return len(self._log)
        guess = self._start + sequence_number - self._log[self._start].sequence_number
        if self._start <= guess < len(self._log) and self._log[guess].sequence_number == sequence_number:
            return guess
        return bisect_left(self._log, sequence_number, lo=self._start, key=lambda event: event.sequence_number)

    def first_from_offset(self, offset: int) -> int:
        """The number of the first event whose offset is not below ``offset``; the next number if there is none."""
        return self._number(bisect_left(self._log, offset, lo=self._start, key=lambda event: event.offset))

    def first_from_time(self, enqueued_ms: int) -> int:
        """The number of the first event enqueued at or after ``enqueued_ms``; the next number if there is none."""
        return self._number(bisect_left(self._log, enqueued_ms, lo=self._start, key=lambda event: event.enqueued_ms))

    def _number(self, index: int) -> int:
        return self._log[index].sequence_number if index < len(self._log) else self.next_sequence_number

    def expire(self, now_ms: int) -> None:
        """Drops events that exceed the retention."""
        keep, log, start = self._retention, self._log, self._start
        oldest = now_ms - keep.max_age_ms
        while start < len(log) and (
            len(log) - start > keep.max_events or self._bytes > keep.max_bytes or log[start].enqueued_ms < oldest
        ):
            self._bytes -= len(log[start].payload) + OVERHEAD
            start += 1
        self._drop(start)

    def drop_before(self, sequence_number: int) -> int:
        """Drops every event below a number, as retention does.

        Returns:
            Their number.
        """
        index = self._index(sequence_number) if sequence_number <= self.last_sequence_number else len(self._log)
        dropped = index - self._start
        self._bytes -= sum(len(event.payload) + OVERHEAD for event in self._log[self._start : index])
        self._drop(index)
        return dropped

    def _drop(self, start: int) -> None:
        # References are removed immediately (memory); the list is compacted when half of it is empty (time).
        gone = start - self._start
        if gone > 0 and start * 2 >= len(self._log):
            del self._log[:start]
            start = 0
        elif gone > 0:
            for index in range(self._start, start):
                self._log[index] = self._log[index]._replace(payload=b"")
        self._start = start

    def remove(self, numbers: Iterable[int]) -> int:
        """Removes events at any position, as log compaction does; other events keep their numbers.

        Returns:
            The number of removed events.
        """
        gone = frozenset(numbers)
        kept = [event for event in self._log[self._start :] if event.sequence_number not in gone]
        removed = len(self) - len(kept)
        self._replace(kept)
        return removed

    def forget_last(self, count: int) -> int:
        """Loses the newest events, as a forced failover to a lagging secondary does; their numbers are used again.

        Offsets are used again too: they count bytes of the remaining log.

        Args:
            count: number of lost sequence numbers, which may include expired events.

        Returns:
            The number of lost events.
        """
        self.next_sequence_number = max(0, self.next_sequence_number - count)
        lost = [event for event in self._log[self._start :] if event.sequence_number >= self.next_sequence_number]
        self._replace(self._log[self._start : len(self._log) - len(lost)])
        if lost:
            self._next_offset = lost[0].offset
        last = self._log[-1] if self._log else None
        self._last_offset = last.offset if last else min(self._last_offset, self._next_offset - 1)
        self._last_ms = last.enqueued_ms if last else self._last_ms if self.next_sequence_number else NEVER_MS
        return len(lost)

    def _replace(self, kept: list[Stored]) -> None:
        self._log, self._start = kept, 0
        self._bytes = sum(len(event.payload) + OVERHEAD for event in kept)

    def skip_numbers(self, count: int) -> None:
        """Skips sequence numbers, so that readers see a gap."""
        self.next_sequence_number += count


class Hub:
    """An event hub: partitions, consumer groups and creation time."""

    def __init__(
        self, name: str, partitions: int, groups: Iterable[str], retention: Retention, created_ms: int
    ) -> None:
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise BadRequest(f"hub {name!r} cannot have {partitions} partitions: take 1 to {MAX_PARTITIONS}")
        self.name = name
        self.created_ms = created_ms
        self.groups = list(dict.fromkeys(("$Default", *groups)))
        self.retention = retention
        self.partitions = [Partition(str(number), retention) for number in range(partitions)]
        self._round_robin = -1

    def has_group(self, name: str) -> bool:
        """Whether a consumer group of that name, in any case, exists."""
        return name.lower() in (group.lower() for group in self.groups)

    def partition(self, partition_id: str) -> Partition:
        """A partition by its id.

        Raises:
            NotFound: the hub has no such partition.
        """
        number = int(partition_id) if partition_id.isascii() and partition_id.isdecimal() else -1
        if not 0 <= number < len(self.partitions) or str(number) != partition_id:
            raise NotFound(f"hub {self.name!r} has no partition {partition_id!r}, only 0 to {len(self.partitions) - 1}")
        return self.partitions[number]

    def next_partition(self) -> Partition:
        """The next partition, round robin."""
        self._round_robin = (self._round_robin + 1) % len(self.partitions)
        return self.partitions[self._round_robin]

    def add_partitions(self, total: int) -> None:
        """Grows the hub to ``total`` partitions; Event Hubs never removes one.

        Raises:
            BadRequest: fewer than there are, or too many.
        """
        have = len(self.partitions)
        if not have <= total <= MAX_PARTITIONS:
            raise BadRequest(f"hub {self.name!r} has {have} partitions and can only grow, to {MAX_PARTITIONS} at most")
        self.partitions += [Partition(str(number), self.retention) for number in range(have, total)]
