"""Prunes files: replaces old files by tombstones, which keep the chain's names and metadata but no events.

A slot's name is never deleted, because a free name could be written again: a tombstone is the same blob, empty, with
the same metadata and the time. A file is replaced only if it is before the checkpoint, is not the last file of its
chain, and, with Spark, was processed by a committed batch that did not exclude it. A file that a Delta table has is
removed from the table first. A container with a violation is not changed, because its blobs are evidence.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from eventconsumer_audit.files import Progress
from eventconsumer_audit.model import AuditReport, Place
from eventconsumer_audit.names import DataFile, SlotFacts, SlotName
from eventconsumer_audit.read import Audit, Subject
from eventconsumer_audit.tablelog import TableLog
from eventconsumer_host.prune.rules import EARLIER, LAST, Standing, reason_to_keep
from eventconsumer_host.prune.tableprune import MOST, refusal, remove_files
from eventconsumer_host.prune.tombstones import (
    AT_A_TIME,
    Content,
    Doomed,
    remove_content,
    replace_with_tombstone,
)
from eventconsumer_storage.blobs import BlobInfo, BlobStore

VIOLATION = 2  # exit code of the audit


@dataclass(frozen=True, slots=True)
class PruneCandidate:
    """A file to be replaced."""

    name: str  # of the slot's blob
    place: Place
    start: int
    etag: str  # of that blob
    size: int  # bytes that become free
    data: DataFile | None  # layout Capture: the data file, which is removed too
    in_table: bool = False  # the Delta table has it


@dataclass(frozen=True)
class PrunePlan:
    """The files to prune.

    Attributes:
        audit: The audit that the plan is based on. If it found a violation, the plan is empty.
        files: The files to replace, in chain order.
        left: Data files of tombstones, left by an interrupted run.
        kept: Number of files that are old enough but stay, by reason.
        log: Of the Delta table; None: no table.
        refusal: Why files may not be removed from the table, and nothing may be changed; empty: they may.
    """

    audit: AuditReport
    files: list[PruneCandidate] = field(default_factory=list)
    left: list[DataFile] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=Counter)
    log: TableLog | None = None
    refusal: str = ""

    @property
    def refused(self) -> bool:
        """Whether the audit found a violation, so that the container must not be changed."""
        return self.audit.exit_code >= VIOLATION

    @property
    def in_table(self) -> int:
        """Number of files that are removed from the Delta table first."""
        return sum(file.in_table for file in self.files)

    @property
    def bytes(self) -> int:
        """Bytes that become free."""
        return sum(file.size for file in self.files) + sum(file.size for file in self.left)


@dataclass(frozen=True)
class Pruned:
    """The result of pruning."""

    files: int = 0
    bytes: int = 0
    changed: list[str] = field(
        default_factory=list
    )  # blobs that changed after they were planned, and were not replaced


async def plan(subject: Subject, before: datetime, *, batches: bool, progress: Progress | None = None) -> PrunePlan:
    """Find the files that may be replaced.

    Args:
        subject: The consumer, with its leases: without checkpoints no file may be replaced.
        before: Only files committed before this time.
        batches: Whether Spark is enabled: files in no committed batch are then still needed.
        progress: Receives the progress.
    """
    audit = Audit(subject)
    waiting: dict[str, tuple[PruneCandidate, str]] = {}  # the last file of each chain so far, and the reason to keep it
    found: list[PruneCandidate] = []
    kept: Counter[str] = Counter()

    def settle(candidate: PruneCandidate, reason: str) -> None:
        if reason:
            kept[reason] += 1
        else:
            found.append(candidate)

    def seen(name: SlotName, info: BlobInfo, slot: SlotFacts, batch: int | None) -> None:
        if name.partition in waiting and audit.genesis.is_current(name.incarnation):
            settle(*waiting.pop(name.partition))
        if info.last_modified >= before or slot.tombstone:
            return
        if not audit.genesis.is_current(name.incarnation):
            kept[EARLIER] += 1
            return
        place = (name.incarnation, name.partition)
        lease = audit.leases.get(name.partition)
        reason = reason_to_keep(
            Standing(
                passed=lease is not None and lease.checkpoint is not None and slot.last <= lease.checkpoint,
                committed=not (batches or audit.batches.used) or audit.batches.committed(batch),
                excluded=audit.batches.commits.left_out(place, name.start),
                registered=not audit.table.exists or audit.table.covers(place, name.start),
            )
        )
        in_table = audit.table.state is not None and audit.table.state.is_active(place, name.start)
        candidate = PruneCandidate(info.name, place, name.start, info.etag, slot.size, slot.data, in_table)
        waiting[name.partition] = (candidate, reason)

    report = await audit.run(progress or Progress(), seen)
    kept[LAST] += len(waiting)
    if report.exit_code >= VIOLATION:
        return PrunePlan(report, kept=+kept)
    left = [one.file for one in audit.left]
    if audit.table.state is None:
        return PrunePlan(report, found, left, +kept)
    reason = refusal(audit.table.state) if any(file.in_table for file in found) else ""
    return PrunePlan(report, [] if reason else found, [] if reason else left, +kept, audit.log, reason)


async def carry_out(plan: PrunePlan, store: BlobStore, now: datetime, progress: Progress | None = None) -> Pruned:
    """Replace the planned files.

    Args:
        plan: The files.
        store: The container of the files.
        now: Wall clock; written into the tombstones.
        progress: Receives the progress.

    Raises:
        CommandError: Files cannot be removed from the Delta table.
        StorageError: A request failed. Replaced files stay replaced; run it again.
    """
    limit = asyncio.Semaphore(AT_A_TIME)
    report = progress or Progress()
    files, size, changed = 0, 0, list[str]()

    async def replace(file: PruneCandidate) -> bool:
        async with limit:
            content = Content(file.data.path, file.data.etag) if file.data else None
            replaced = await replace_with_tombstone(store, Doomed(file.name, file.etag, content), now)
            report.read(file.size)
            return replaced

    async def remove(file: DataFile) -> None:
        async with limit:
            await remove_content(store, Content(file.path, file.etag))

    for part in _parts(plan.files):
        if plan.log:
            await remove_files(plan.log, store, ((file.place, file.start) for file in part), now)
        for file, replaced in zip(part, await asyncio.gather(*map(replace, part)), strict=True):
            if replaced:
                files, size = files + 1, size + file.size
            else:
                changed.append(file.name)
    await asyncio.gather(*map(remove, plan.left))
    return Pruned(files, size + sum(file.size for file in plan.left), changed)


def _parts(files: list[PruneCandidate], size: int = MOST) -> Iterable[list[PruneCandidate]]:
    return (files[at : at + size] for at in range(0, len(files), size))
