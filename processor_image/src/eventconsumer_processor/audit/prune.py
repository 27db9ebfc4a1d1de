"""Cleans up: replaces old files by tombstones, which keep the chain's names and facts and none of the events.

A slot's name is never deleted, because a free name could be written again: a tombstone is the same blob, empty, with
the same metadata and the time. Only files that are not needed are replaced: behind the checkpoint, in a committed batch
where there are batches (and processed by it: what it left out stays), and never the last one of a chain. A container
with a violation is not touched: what is there is evidence.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from eventconsumer_processor.audit.files import Progress
from eventconsumer_processor.audit.model import AuditReport
from eventconsumer_processor.audit.names import BadFacts, DataFile, SlotFacts, SlotName, bare, facts
from eventconsumer_processor.audit.read import Audit, Subject
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import Conflict, NotFound, Unavailable

AT_A_TIME = 8
ATTEMPTS = 5
FIRST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class PruneCandidate:
    """A file to be replaced."""

    name: str  # of the slot's blob
    start: int
    etag: str  # of that blob
    size: int  # bytes that become free
    data: DataFile | None  # layout Capture: what is removed too


@dataclass
class PrunePlan:
    """What pruning would do.

    Attributes:
        audit: The audit that it is based on; nothing is planned where it found a violation.
        files: What is replaced, in chain order.
        left: Data files of tombstones, which an interrupted run left.
        kept: Files that are old enough and stay, by reason.
    """

    audit: AuditReport
    files: list[PruneCandidate] = field(default_factory=list)
    left: list[DataFile] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=Counter)

    @property
    def refused(self) -> bool:
        """Whether the container must not be touched."""
        return self.audit.exit_code >= 2

    @property
    def bytes(self) -> int:
        """Bytes that become free."""
        return sum(file.size for file in self.files) + sum(file.size for file in self.left)


@dataclass
class Pruned:
    """What pruning did."""

    files: int = 0
    bytes: int = 0
    changed: list[str] = field(default_factory=list)  # blobs that were not what they were any more


async def plan(subject: Subject, before: datetime, *, batches: bool, progress: Progress | None = None) -> PrunePlan:
    """Find what may be replaced.

    Args:
        subject: The consumer, with its leases: without checkpoints nothing may be replaced.
        before: Only files committed before this time.
        batches: Whether Spark is on, so that files in no committed batch are still needed.
        progress: Told how far it is.
    """
    audit = Audit(subject)
    waiting: dict[str, tuple[PruneCandidate, str]] = {}  # the last file of each chain so far, and why it stays
    found: list[PruneCandidate] = []
    kept: Counter[str] = Counter()

    def settle(doomed: PruneCandidate, reason: str) -> None:
        if reason:
            kept[reason] += 1
        else:
            found.append(doomed)

    def seen(name: SlotName, info: BlobInfo, slot: SlotFacts, batch: int | None) -> None:
        if name.partition in waiting and audit.genesis.is_current(name.incarnation):
            settle(*waiting.pop(name.partition))
        if info.last_modified >= before or slot.tombstone:
            return
        if not audit.genesis.is_current(name.incarnation):
            kept["of an earlier incarnation of the hub"] += 1
            return
        lease = audit.leases.get(name.partition)
        reason = ""
        if lease is None or lease.checkpoint is None or slot.last > lease.checkpoint:
            reason = "not behind the checkpoint"
        elif (batches or audit.batches.used) and not audit.batches.committed(batch):
            reason = "in no committed batch"
        elif audit.batches.commits.left_out((name.incarnation, name.partition), name.start):
            reason = "left out by its batch, so that it is in no output"
        waiting[name.partition] = (PruneCandidate(info.name, name.start, info.etag, slot.size, slot.data), reason)

    report = await audit.run(progress or Progress(), seen)
    kept["the last file of its chain"] += len(waiting)
    result = PrunePlan(report, kept=+kept)
    if not result.refused:
        result.files = found
        result.left = [one.file for one in audit.left]
    return result


async def carry_out(plan: PrunePlan, store: BlobStore, now: datetime, progress: Progress | None = None) -> Pruned:
    """Replace the planned files.

    Args:
        plan: What to do.
        store: The container of the files.
        now: Wall clock; written into the tombstones.
        progress: Told how far it is.

    Raises:
        StorageError: A request failed; what is done stays done, and it can be run again.
    """
    done, limit = Pruned(), asyncio.Semaphore(AT_A_TIME)
    tell = progress or Progress()

    async def replace(file: PruneCandidate) -> None:
        async with limit:
            if await replace_with_tombstone(store, file, now):
                done.files += 1
                done.bytes += file.size
            else:
                done.changed.append(file.name)
            tell.read(file.size)

    async def remove(file: DataFile) -> None:
        async with limit:
            await _remove(store, file)
            done.bytes += file.size

    for part in _parts(plan.files):
        await asyncio.gather(*map(replace, part))
    await asyncio.gather(*map(remove, plan.left))
    return done


def _parts(files: list[PruneCandidate], size: int = 1000) -> Iterable[list[PruneCandidate]]:
    return (files[at : at + size] for at in range(0, len(files), size))


async def replace_with_tombstone(store: BlobStore, file: PruneCandidate, now: datetime) -> bool:
    """Replace one file; False where it is not the one that was planned.

    Raises:
        StorageError: A request failed for longer than it is repeated; run it again.
    """
    for attempt in range(ATTEMPTS):
        try:
            info = await store.head(file.name)
            if info is None:
                return False
            if "tombstone" not in {key.lower() for key in info.metadata}:
                if bare(info.etag) != bare(file.etag) or not _still(file, info):
                    return False
                metadata = {**info.metadata, "tombstone": now.astimezone(UTC).isoformat(timespec="seconds")}
                await store.put(file.name, b"", metadata=metadata, if_match=info.etag)
            if file.data:
                await _remove(store, file.data)
        except Conflict:
            continue  # perhaps our own, whose answer was lost: look again
        except Unavailable:
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(FIRST_PAUSE * 2**attempt)
        else:
            return True
    return False


def _still(file: PruneCandidate, info: BlobInfo) -> bool:
    try:
        facts(file.name, file.start, info.size, info.etag, info.metadata)
    except BadFacts:
        return False
    return True


async def _remove(store: BlobStore, file: DataFile) -> None:
    try:
        await store.remove(file.path, if_match=f'"{bare(file.etag)}"')
    except NotFound:
        return
