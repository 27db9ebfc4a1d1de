"""What the leading host knows about the whole consumer: its chains, and how far they are behind the hub.

`Ledger` is one partition's chain as followed so far: only files that are new since the last look are asked for. `Heads`
remembers when each head was seen, which bounds the age of the oldest event that is in no file without reading it.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from eventconsumer_processor import gaps
from eventconsumer_processor.gaps import GapReason
from eventconsumer_processor.sink.slots import Chain, Slot

SAMPLES = 2000


@dataclass
class Ledger:
    """A partition's chain, followed up to `next`."""

    chain: Chain
    start: int  # where the files in no batch start
    next: int
    keep: bool = True  # remember each file in no batch; else only count them
    pending: deque[Slot] = field(default_factory=deque)  # files in no batch, in chain order
    files: int = 0  # in no batch
    events: int = 0
    bytes: int = 0
    gap_events: int = 0  # removed by retention before files in no batch
    newest_gap: str = ""  # such as 17-20
    last_event_time: datetime | None = None  # when the last event in a file was enqueued
    last_file_time: datetime | None = None

    async def follow(self) -> None:
        """Ask for files from `next` on until there is none."""
        while slot := await self.chain.at(self.next):
            self.add(slot)

    def add(self, slot: Slot) -> None:
        """Take the slot at `next`. Files that were cleaned up before any batch are not there for batches."""
        if self.keep and slot.tombstone and not self.pending:
            self.start = slot.last + 1
        else:
            if self.keep:
                self.pending.append(slot)
            self._count(slot, 1)
        self.next = slot.last + 1
        self.last_event_time = slot.last_enqueued_time
        self.last_file_time = slot.committed_at

    def batched(self, position: int) -> None:
        """Files below `position` are in a batch now."""
        while self.pending and self.pending[0].start < position:
            self._count(self.pending.popleft(), -1)
        self.start = max(self.start, position)

    def _count(self, slot: Slot, sign: int) -> None:
        self.files += sign
        self.events += sign * slot.count
        self.bytes += sign * slot.size
        lost = [gap for gap in gaps.parse(slot.gap) if gap.reason is GapReason.RETENTION]
        self.gap_events += sign * sum(map(len, lost))
        if lost and sign > 0:
            self.newest_gap = ",".join(f"{gap.first}-{gap.last}" for gap in lost)


@dataclass
class Heads:
    """Last sequence numbers of one partition, as seen over time."""

    last: int | None = None
    last_time: datetime | None = None  # when the hub enqueued it
    seen: deque[tuple[datetime, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def see(self, last: int, last_time: datetime, now: datetime) -> None:
        """Note the head."""
        self.last, self.last_time = last, last_time
        if not self.seen or self.seen[-1][1] != last:
            self.seen.append((now, last))
        else:
            self.seen[-1] = (now, last)

    def lag(self, next_number: int) -> int | None:
        """Events from `next_number` to the head; None where the head is unknown."""
        return None if self.last is None else max(0, self.last + 1 - next_number)

    def age(self, next_number: int, last_event_time: datetime | None, now: datetime) -> timedelta:
        """At most how old the event `next_number` is, given when the one before it was enqueued.

        It was enqueued after the last look that did not see it yet. Where there was no such look and no file, the
        newest event's age is the best that is known.
        """
        if not self.lag(next_number):
            return timedelta(0)
        bounds = [when for when, last in self.seen if last < next_number][-1:]
        if last_event_time is not None:
            bounds.append(last_event_time)
        since = max(bounds) if bounds else self.last_time
        return max(timedelta(0), now - since) if since else timedelta(0)
