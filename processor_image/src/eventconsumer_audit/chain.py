"""PURE: checks one partition's chain from its slots, in name order; slots are not kept in memory.

The chain must start where the genesis record says, each slot at the previous one's last + 1 (S2); facts must agree with
each other, and rows, dropped events and recorded gaps must cover every sequence number once (S3, S4); epochs never fall
(S6); the checkpoint is start - 1 or some file's last (S5).
"""

from dataclasses import dataclass, field

from eventconsumer_audit.codes import Code
from eventconsumer_audit.leases import LeaseFacts
from eventconsumer_audit.model import Findings, GapReport, PartitionAudit
from eventconsumer_audit.names import SlotFacts

KEPT_GAPS = 100
COMPACTION = "compaction"  # the reason of a gap: log compaction removed the events
_LATE = "a host may have written it while the chain was sealed: do not change the container, and report this"
FOREIGN = "foreign"  # the reason of a gap: another program that shares the leases processed the events


@dataclass
class ChainAudit:
    """The state of one partition of one segment, while its slots are read.

    Args:
        segment_id: Id of the segment.
        partition: Its id.
        start: From the genesis record; None: no record.
        lease: The partition's lease as it was *before* the slots were listed; None: no lease, or it belongs to another
            segment.
        findings: Collects findings.
    """

    segment_id: str
    partition: str
    start: int | None
    lease: LeaseFacts | None
    findings: Findings
    next: int | None = field(init=False)
    files: int = 0
    tombstones: int = 0
    events: int = 0
    bytes: int = 0
    gap_events: int = 0
    gaps: list[GapReport] = field(default_factory=list)
    compacted_events: int = 0
    dropped_events: int = 0  # by the handler
    seal: int | None = None  # position of the seal
    highest_epoch: int | None = None
    dead_letters: int = 0
    orphans: int = 0
    _previous: int = -1  # start of the last slot
    _blind: bool = False  # the previous slot is damaged: its end is unknown
    _damaged: bool = False  # any slot is damaged
    _at_checkpoint: SlotFacts | None = None

    def __post_init__(self) -> None:
        self.next = self.start

    def missing_before(self, start: int) -> int | None:
        """The start of the missing file before the one that starts at `start`; None: no file is missing."""
        return self.next if self.next is not None and self.next < start and not self._blind else None

    def went_by(self, start: int) -> bool:
        """Whether the listing has passed slots that start here."""
        return start <= self._previous

    def add(self, slot: SlotFacts) -> None:
        """Check the next slot."""
        if slot.start == self._previous:
            self._find(Code.SLOT_TWICE, f"two files start at {slot.start}", slot.name)
            return
        self._place(slot.start, slot.name)
        if self.seal is not None:
            self._find(Code.SEGMENT_WRONG, f"a file is after the seal at {self.seal}: {_LATE}", slot.name)
        self._previous, self._blind = slot.start, False
        self._check_facts(slot)
        self._count(slot)
        if self.highest_epoch is not None and slot.epoch < self.highest_epoch:
            self._find(
                Code.EPOCH_FELL, f"epoch {slot.epoch} follows epoch {self.highest_epoch}: a zombie wrote it", slot.name
            )
        self.highest_epoch = max(slot.epoch, self.highest_epoch or 0)
        self.next = max(self.next or 0, slot.last + 1)
        if self.lease and self.lease.checkpoint == slot.last:
            self._at_checkpoint = slot

    def count_dead_letter(self) -> None:
        """Count a dead letter of the partition."""
        self.dead_letters += 1

    def count_orphan(self) -> None:
        """Count a blob that does not belong to the chain."""
        self.orphans += 1

    def end(self, start: int, name: str) -> None:
        """Add the seal that ends the chain."""
        if self.seal is not None or (self.next is not None and start < self.next):
            self._find(Code.SEGMENT_WRONG, f"a seal is at {start}, inside the files or after another seal", name)
        elif self.missing_before(start) is not None:
            self._place(start, name)
        self.seal = start
        self._previous = max(self._previous, start)

    def damaged(self, name: str, start: int, why: str) -> None:
        """Add a blob that has a slot's name but is not a slot; its end is unknown."""
        self._find(Code.SLOT_CHANGED, f"the blob is not a file of the chain: {why}", name)
        if start != self._previous:
            self._place(start, name)
        self.files += 1
        self._previous, self._blind, self._damaged = start, True, True
        self.next = max(self.next or 0, start)

    def finish(self, *, shared: bool = False) -> None:
        """Check the checkpoint, after all slots (S5).

        Args:
            shared: Other programs move checkpoints too.
        """
        if self.lease is None or self.lease.checkpoint is None or self.next is None or self._damaged:
            return  # with a damaged file the ends of files are unknown
        checkpoint, start = self.lease.checkpoint, self.start
        if shared and self._at_checkpoint is None and (start is None or checkpoint != start - 1):
            text = f"no file ends at the checkpoint {checkpoint}: another program moved it"
            self._find(Code.CHECKPOINT_FOREIGN, text, self.lease.blob)
        elif checkpoint >= self.next:
            self._find(
                Code.CHECKPOINT_ABOVE_END,
                f"the checkpoint is {checkpoint}, but the files end at {self.next - 1}",
                self.lease.blob,
            )
        elif start is not None and checkpoint < start - 1:
            self._find(
                Code.CHECKPOINT_BELOW_START,
                f"the checkpoint is {checkpoint}, but the chain starts at {start}",
                self.lease.blob,
            )
        elif self._at_checkpoint is None and (start is None or checkpoint != start - 1):
            self._find(Code.CHECKPOINT_OFF_FILES, f"no file ends at the checkpoint {checkpoint}", self.lease.blob)
        elif self._at_checkpoint and _differ(self.lease.offset, self._at_checkpoint.last_offset):
            self._find(
                Code.CHECKPOINT_OFF_FILES,
                f"the checkpoint {checkpoint} has offset {self.lease.offset!r}, but the file that ends there has "
                f"offset {self._at_checkpoint.last_offset!r}",
                self.lease.blob,
            )

    def report(self, *, current: bool, head: int | None) -> PartitionAudit:
        """The partition's part of the report."""
        lag = None if head is None or self.next is None else max(0, head + 1 - self.next)
        return PartitionAudit(
            segment_id=self.segment_id,
            partition=self.partition,
            current=current,
            start=self.start,
            next=self.next,
            files=self.files,
            tombstones=self.tombstones,
            events=self.events,
            bytes=self.bytes,
            gap_events=self.gap_events,
            compacted_events=self.compacted_events,
            dropped_events=self.dropped_events,
            gaps=self.gaps,
            highest_epoch=self.highest_epoch,
            checkpoint=self.lease.checkpoint if self.lease else None,
            owner=self.lease.owner if self.lease else None,
            epoch=self.lease.epoch if self.lease else None,
            head=head,
            lag=lag,
            dead_letters=self.dead_letters,
            orphans=self.orphans,
            violations=self.findings.violations((self.segment_id, self.partition)),
        )

    def _place(self, start: int, name: str) -> None:
        """Check the position of a slot."""
        if self.next is None:
            self._find(
                Code.GENESIS_MISSING,
                "the chain has files, but no readable genesis record, which contains the start of the chain",
            )
            self.next = start
        if self.start is not None and start < self.start:
            self._find(Code.SLOT_BELOW_START, f"a file starts at {start}, but the chain starts at {self.start}", name)
        elif self.missing_before(start) is not None:
            self._find(
                Code.SLOT_MISSING,
                f"no file starts at {self.next}: events {self.next} to {start - 1} are missing before {start}",
                name,
            )
        elif start < self.next:
            self._find(
                Code.SLOTS_OVERLAP,
                f"the file starts at {start}, but the previous file ends at {self.next - 1}",
                name,
            )

    def _count(self, slot: SlotFacts) -> None:
        self.files += 1
        self.tombstones += slot.tombstone
        self.events += slot.count
        self.dropped_events += slot.dropped
        self.bytes += 0 if slot.tombstone else slot.size
        for gap in slot.gaps:
            if gap.reason == COMPACTION:
                self.compacted_events += gap.events
                continue
            self.gap_events += gap.events
            if len(self.gaps) < KEPT_GAPS:
                self.gaps.append(GapReport(first=gap.first, last=gap.last, reason=gap.reason))
            self._find(
                Code.FOREIGN_GAP if gap.reason == FOREIGN else Code.GAP,
                f"{'' if gap.count is None else f'{gap.count} of '}events {gap.first} to {gap.last} are in no file: "
                f"{gap.reason or 'no reason'}",
                slot.name,
            )

    def _check_facts(self, slot: SlotFacts) -> None:
        if slot.tombstone and slot.size and slot.data is None:
            self._find(Code.FACTS_WRONG, f"a tombstone must be empty, but has {slot.size} bytes", slot.name)
        if not slot.tombstone and not slot.size:
            self._find(Code.SLOT_CHANGED, "the file is empty but is not a tombstone", slot.name)
        known = slot.count + slot.dropped  # events
        if not slot.start <= slot.first <= slot.last or min(slot.count, slot.dropped, slot.epoch, known - 1) < 0:
            self._find(
                Code.FACTS_WRONG,
                f"from {slot.start}, first {slot.first}, last {slot.last}, count {slot.count}, dropped {slot.dropped} "
                f"and epoch {slot.epoch} contradict each other",
                slot.name,
            )
            return
        position = slot.start
        counted = [gap for gap in slot.gaps if gap.count is not None]
        for gap in counted:
            if not (slot.start <= gap.first <= gap.last < slot.last and 0 < gap.events <= gap.last - gap.first + 1):
                text = f"the gap {gap.first}-{gap.last}/{gap.count} does not fit a file of {slot.start} to {slot.last}"
                self._find(Code.FACTS_WRONG, text, slot.name)
                return
        for gap in (gap for gap in slot.gaps if gap.count is None):
            if not position <= gap.first <= gap.last < slot.last or gap.first <= slot.first <= gap.last:
                self._find(
                    Code.FACTS_WRONG,
                    f"the gap {gap.first}-{gap.last} does not fit a file of {slot.first} to {slot.last} from "
                    f"{slot.start}",
                    slot.name,
                )
                return
            position = gap.last + 1
        before = sum(gap.events for gap in slot.gaps if gap.last < slot.first)
        if any(gap.first < slot.first for gap in counted):
            before = slot.first - slot.start
        missing = slot.last - slot.start + 1 - known - sum(gap.events for gap in slot.gaps)
        if missing > 0 or before < slot.first - slot.start:
            self._find(
                Code.GAP_UNRECORDED,
                f"{max(missing, slot.first - slot.start - before)} events between {slot.start} and {slot.last} are not "
                "in the file, and no gap is recorded for them",
                slot.name,
            )
        elif missing < 0:
            self._find(
                Code.FACTS_WRONG,
                f"count {slot.count} and dropped {slot.dropped} do not fit between {slot.start} and {slot.last} with "
                "the recorded gaps",
                slot.name,
            )

    def _find(self, code: Code, message: str, blob: str = "") -> None:
        self.findings.add(code, message, (self.segment_id, self.partition), blob=blob)


def _differ(one: str, other: str) -> bool:
    """Whether both offsets are known, of the same form, and of different events.

    Offsets are opaque: geo-replication changes their form from a number to a text, so that one event may have both.
    """
    return bool(one and other) and one.isdecimal() == other.isdecimal() and one != other
