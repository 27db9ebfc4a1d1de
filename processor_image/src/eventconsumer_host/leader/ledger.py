"""The state of the lag measurement: the files of the consumer, and the end of each partition in the hub.

A `Ledger` counts the files of one partition, which `tail` finds. `Heads` stores when each end was observed, which
limits the age of the oldest event that is in no file without reading that event. Events
that retention removed are not lag, independent of the checkpoint; they are a gap.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_api.wire.host_report import PartitionLag
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host.leader.tail import STALE, Follower, Segment
from eventconsumer_host.sink import gaps
from eventconsumer_host.sink.gaps import GapReason
from eventconsumer_host.sink.slots import Slot
from eventconsumer_host.source.hub import PartitionInfo

LOOKS = 2000  # stored observations per partition: almost 3 hours at one in 5 s


@dataclass
class Ledger:
    """A partition's files, counted up to `next`."""

    follower: Follower
    start: int  # start of the first file that is in no batch
    next: int
    keep: bool = True  # store each file that is in no batch; else only count them
    pending: deque[Slot] = field(default_factory=deque)  # files in no batch, in chain order
    files: int = 0  # files in no batch
    events: int = 0
    bytes: int = 0
    gap_events: int = 0  # events that retention removed, recorded in files that are in no batch
    newest_gap: str = ""  # for example 17-20
    last_event_time: datetime | None = None  # enqueued time of the last event in a file
    last_file_time: datetime | None = None
    newest: datetime | None = None  # the latest enqueued time of the events in files, as far as it is known
    end: EventMark | None = None  # the last event in files, or before the first file; None: unknown
    end_sought: bool = False  # whether `end` is as known as it can be

    async def count(self, *, look: bool = False, many: bool = False) -> None:
        """Add the files from `next` on; the options are those of `Follower.files`."""
        async for slot in self.follower.files(self.next, look=look, many=many):
            if slot.start == self.next:
                self.add(slot)

    def add(self, slot: Slot) -> None:
        """Add the slot at `next`. Batches do not contain files that were pruned before the first batch."""
        if self.keep and slot.tombstone and not self.pending:
            self.start = slot.last + 1
        else:
            if self.keep:
                self.pending.append(slot)
            self._count(slot, 1)
        self.next = slot.last + 1
        self.last_event_time = slot.last_enqueued_time
        self.ends_with(slot)

    def ends_with(self, slot: Slot) -> None:
        """Record the last file before `next`."""
        self.end, self.end_sought = slot.mark, True
        self.last_file_time = slot.committed_at
        latest = max(slot.enqueued.latest, slot.last_enqueued_time) if slot.enqueued else slot.last_enqueued_time
        self.newest = latest if self.newest is None else max(self.newest, latest)

    async def seek_end(self) -> None:
        """Learn the last event before `next`, if no file was added yet.

        Raises:
            StorageError: A request failed.
        """
        if self.end_sought:
            return
        slot = await self.follower.chain.last_before(self.next - 1)
        if slot is not None:
            self.ends_with(slot)
        elif (genesis := await self.follower.chain.genesis()) is not None:
            self.end, self.end_sought = genesis.before, True

    def forget_last_event_time(self) -> None:
        """Discard the time of the last event: it bounds the age of the next event too loosely."""
        self.last_event_time = None

    def batched(self, position: int) -> None:
        """Record that all files below `position` are in a batch, including files that were not followed yet."""
        while self.pending and self.pending[0].start < position:
            self._count(self.pending.popleft(), -1)
        self.start = max(self.start, position)
        if self.next < position:  # another host froze the batch and knew more files
            self.follower.reach(position)
            self.next, self.last_event_time = position, None
            self.end, self.end_sought = None, False

    def _count(self, slot: Slot, sign: int) -> None:
        self.files += sign
        self.events += sign * slot.count
        self.bytes += sign * (slot.size + slot.removed)
        lost = [gap for gap in gaps.parse(slot.gap) if gap.reason is GapReason.RETENTION]
        self.gap_events += sign * sum(map(len, lost))
        if lost and sign > 0:
            self.newest_gap = ",".join(f"{gap.first}-{gap.last}" for gap in lost)


@dataclass
class Account:
    """The ledgers of one segment.

    Attributes:
        segment: Its files.
        ledgers: By partition, for partitions whose chain has begun.
        complete: Whether all files are counted: the segment has ended.
    """

    segment: Segment
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    complete: bool = False

    @property
    def segment_id(self) -> str:
        """Name of the folder of the files."""
        return self.segment.segment_id

    @property
    def pending(self) -> dict[str, tuple[Slot, ...]]:
        """The files in no batch as they are now, by partition; partitions without any are absent."""
        return {partition: tuple(ledger.pending) for partition, ledger in self.ledgers.items() if ledger.pending}

    def mark_complete(self) -> None:
        """Record that all files of the segment are counted."""
        self.complete = True


@dataclass(frozen=True, slots=True)
class _Look:
    """One observation of the end of a partition."""

    when: datetime
    last: int
    last_time: datetime  # enqueued time of the last event


@dataclass
class Heads:
    """The end of one partition in the hub, over time."""

    info: PartitionInfo | None = None
    asked: datetime | None = None  # time of the response
    sent: datetime | None = None  # time of the request
    _looks: deque[_Look] = field(default_factory=deque)  # the latest observation of each end

    def see(self, info: PartitionInfo, now: datetime, sent: datetime | None = None) -> None:
        """Record a response of the hub, and when it was requested."""
        self.info, self.asked, self.sent = info, now, sent
        if self._looks and self._looks[-1].last == info.last:
            self._looks.pop()
        elif len(self._looks) >= LOOKS:  # a long lag is less exact; the first observation is kept
            self._looks = deque(islice(self._looks, 0, None, 2))
        self._looks.append(_Look(now, info.last, info.last_enqueued_time))

    def known(self, now: datetime) -> PartitionInfo | None:
        """The last response of the hub; None if it is stale."""
        return self.info if self.asked and now - self.asked < STALE else None

    def age(self, number: int, since: datetime | None, now: datetime) -> timedelta:
        """The age of the retained event `number`.

        The event was enqueued after the last observation without it, which is the upper limit of its age. Without such
        an observation (a new leader finds waiting events), the age of the end in the first observation is used.

        Args:
            number: Its sequence number; must not fall between calls.
            since: A time before which it was not enqueued, if known.
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
    """The lag of a partition: the retained events from `reached` on.

    Args:
        heads: Its end in the hub.
        reached: Sequence number of the first event that is in no file.
        since: A time before which this event was not enqueued, if known.
        now: Wall clock.

    Returns:
        An unknown lag if the hub does not respond, or ends before `reached`: then the files are of another hub.
    """
    info = heads.known(now)
    if info is None or info.last + 1 < reached:
        return PartitionLag()
    first = max(reached, info.earliest)
    events = max(0, info.last + 1 - first)
    seconds = heads.age(first, since, now).total_seconds() if events else 0.0
    return PartitionLag(events=events, seconds=round(seconds, 1))


def first_wanted(wanted: Position, info: PartitionInfo) -> int:
    """The start of a partition that no host has opened yet.

    Only a reader can find a time or an offset among the retained events. Until then all retained events count.
    """
    nothing = info.last + 1
    match wanted.type:
        case PositionType.LATEST:
            return nothing
        case PositionType.SEQUENCE_NUMBER if wanted.sequence_number is not None:
            return max(info.earliest, wanted.sequence_number)
        case PositionType.ENQUEUED_TIME if wanted.enqueued_time is not None:
            return nothing if info.ends_before(wanted.enqueued_time) else info.earliest
    return info.earliest
