"""What the leading host knows about the whole consumer: its chains, and how far they are behind the hub.

`Ledger` is one partition's chain as followed so far: only files that are new since the last look are asked for. `Heads`
remembers when each head was seen, which bounds the age of the oldest event that is in no file without reading it. What
retention removed is no lag, whatever the checkpoint says; it is a gap.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from eventconsumer_api.host_report import PartitionLag
from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_processor.sink import gaps
from eventconsumer_processor.sink.gaps import GapReason
from eventconsumer_processor.sink.slots import Chain, Slot
from eventconsumer_processor.source.hub import PartitionInfo

LOOKS = 2000  # remembered for each partition: at one in 5 s almost 3 hours in full
STALE = timedelta(seconds=60)  # what the hub said longer ago is not known any more


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

    def forget_last_event_time(self) -> None:
        """Discard the time of the last event: it bounds the age of the next event too loosely."""
        self.last_event_time = None

    def batched(self, position: int) -> None:
        """Files below `position` are in a batch now, also those that were not followed yet."""
        while self.pending and self.pending[0].start < position:
            self._count(self.pending.popleft(), -1)
        self.start = max(self.start, position)
        if self.next < position:  # somebody else froze the batch, and saw more
            self.next, self.last_event_time = position, None

    def _count(self, slot: Slot, sign: int) -> None:
        self.files += sign
        self.events += sign * slot.count
        self.bytes += sign * slot.size
        lost = [gap for gap in gaps.parse(slot.gap) if gap.reason is GapReason.RETENTION]
        self.gap_events += sign * sum(map(len, lost))
        if lost and sign > 0:
            self.newest_gap = ",".join(f"{gap.first}-{gap.last}" for gap in lost)


@dataclass
class Era:
    """The files of one segment of the chain.

    Attributes:
        incarnation: Names their folder.
        chain: Of a partition.
        ledgers: By partition, of those whose chain has begun.
        complete: All its files are known: the segment was ended.
    """

    incarnation: str
    chain: Callable[[str], Chain]
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    complete: bool = False

    def add(self, ledger: Ledger) -> None:
        """Add the ledger of one partition."""
        self.ledgers[ledger.chain.partition] = ledger

    def mark_complete(self) -> None:
        """Record that all files of the segment are known."""
        self.complete = True


@dataclass(frozen=True, slots=True)
class _Look:
    """A head, as seen once."""

    when: datetime
    last: int
    last_time: datetime  # when the hub enqueued it


@dataclass
class Heads:
    """One partition's end in the hub, as seen over time."""

    info: PartitionInfo | None = None
    asked: datetime | None = None  # when the hub said so
    _looks: deque[_Look] = field(default_factory=deque)  # one for each head; the newest at which it was still the head

    def see(self, info: PartitionInfo, now: datetime) -> None:
        """Note what the hub says."""
        self.info, self.asked = info, now
        if self._looks and self._looks[-1].last == info.last:
            self._looks.pop()
        elif len(self._looks) >= LOOKS:  # a long lag is told less exactly; the first look is kept
            self._looks = deque(islice(self._looks, 0, None, 2))
        self._looks.append(_Look(now, info.last, info.last_enqueued_time))

    def known(self, now: datetime) -> PartitionInfo | None:
        """What the hub says; None where it said nothing lately."""
        return self.info if self.asked and now - self.asked < STALE else None

    def age(self, number: int, since: datetime | None, now: datetime) -> timedelta:
        """How old the event `number` is, which is retained and not the head of all looks.

        It was enqueued after the last look that did not see it yet, so it is at most so old. Before there is such a
        look, as when a new leader finds events waiting, it is at least as old as the head of the first look.

        Args:
            number: Its sequence number; it never falls from call to call.
            since: A time that it is known not to be older than.
            now: Wall clock.
        """
        while len(self._looks) > 1 and self._looks[1].last < number:
            self._looks.popleft()
        bounds = [] if since is None else [since]
        if self._looks and self._looks[0].last < number:
            bounds.append(self._looks[0].when)
        if not bounds:
            bounds = [look.last_time for look in islice(self._looks, 1)]
        return max(timedelta(0), now - max(bounds, default=now))


def lag_of(heads: Heads, reached: int, since: datetime | None, now: datetime) -> PartitionLag:
    """How far a partition is behind: what is retained from `reached` on.

    Args:
        heads: Its end in the hub.
        reached: Sequence number of the first event that is in no file.
        since: A time that this event is known not to be older than, if any.
        now: Wall clock.

    Returns:
        Nothing known where the hub is silent, or ends before `reached`: then it is not the hub that the files are of.
    """
    info = heads.known(now)
    if info is None or info.last + 1 < reached:
        return PartitionLag()
    first = max(reached, info.earliest)
    events = info.last + 1 - first
    seconds = heads.age(first, since, now).total_seconds() if events else 0.0
    return PartitionLag(events=events, seconds=round(seconds, 1))


def first_wanted(wanted: Position, info: PartitionInfo) -> int:
    """Where a partition that no host has opened yet will start.

    A time or an offset that lies among the retained events can only be found by a reader: all of them count until one
    did.
    """
    nothing = info.last + 1
    match wanted.type:
        case PositionType.LATEST:
            return nothing
        case PositionType.SEQUENCE_NUMBER if wanted.sequence_number is not None:
            return max(info.earliest, wanted.sequence_number)
        case PositionType.ENQUEUED_TIME if wanted.enqueued_time is not None:
            return nothing if info.last_enqueued_time < wanted.enqueued_time else info.earliest
        case PositionType.OFFSET:
            return nothing if info.last_offset == wanted.offset else info.earliest
    return info.earliest
