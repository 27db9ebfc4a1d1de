"""PURE: when a batch starts, which files it takes, and the manifest that freezes them.

S8: in each partition and segment a batch takes the oldest files that are in none, without a hole, so successive batches
are disjoint and contiguous and everything comes in the end. Where a batch cannot take all, files go by the time of
their commit, whatever their partition, so that no partition waits for another.

A scheduled time makes due what was committed by then, and no more: what came later waits for the next time. It starts
one batch. It is spent when a batch was frozen after it, unless that batch was full: then what it had to leave follows.
All of this is told by the last manifest and the files, so that a new leader neither repeats nor misses a time.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from eventconsumer_api.batch import BatchFile, BatchManifest, Range, Totals
from eventconsumer_api.host_config import ResourceRef
from eventconsumer_api.spark import BatchLimits, Trigger
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_processor.sink import gaps
from eventconsumer_processor.sink.gaps import GapReason
from eventconsumer_processor.sink.slots import Slot

FILES, BYTES, AGE, SCHEDULE = "Files", "Bytes", "Age", "Schedule"


@dataclass(frozen=True, slots=True)
class Waiting:
    """The files in no batch: how many, how many bytes, and when the oldest was committed."""

    files: int = 0
    bytes: int = 0
    oldest: datetime | None = None


def trigger(when: Trigger, waiting: Waiting, now: datetime, tick: datetime | None = None) -> str:
    """What starts a batch now: Files, Bytes, Age or Schedule; empty: nothing does.

    Args:
        when: The limits.
        waiting: The files in no batch.
        now: Wall clock.
        tick: The last scheduled time that is not spent, if any; see `unspent`.
    """
    if waiting.files <= 0 or waiting.oldest is None:
        return ""
    if waiting.files >= when.files:
        return FILES
    if waiting.bytes >= when.bytes:
        return BYTES
    if (now - waiting.oldest).total_seconds() >= when.age_seconds:
        return AGE
    return SCHEDULE if tick is not None and waiting.oldest <= tick else ""


def unspent(
    tick: datetime | None, last: BatchManifest | None, limits: BatchLimits, oldest: Slot | None
) -> datetime | None:
    """The scheduled time `tick` where it may still start a batch, else None.

    Args:
        tick: The last scheduled time, if any.
        last: The last batch, if any.
        limits: How much a batch takes.
        oldest: The oldest file in no batch, if any.
    """
    if tick is None or last is None or tick > last.created_at or oldest is None:
        return tick
    size = sum(file.size for file in last.files)
    full = len(last.files) >= limits.max_files or size + oldest.size > limits.max_bytes
    return tick if full else None


def oldest_first(pending: Mapping[str, Sequence[Slot]]) -> Iterator[tuple[str, Slot]]:
    """All files with their partitions, by the time of their commit; in each partition in chain order."""
    by_partition = ([(partition, slot) for slot in slots] for partition, slots in pending.items())
    return heapq.merge(*by_partition, key=lambda found: found[1].committed_at)


def take(
    pending: Mapping[str, Sequence[Slot]], limits: BatchLimits, until: datetime | None = None
) -> dict[str, list[Slot]]:
    """The files of the next batch, by partition, in chain order: one at least, unless none is due.

    Args:
        pending: Files in no batch, in chain order, by partition.
        limits: How much a batch takes.
        until: Only files committed by then; None: all.
    """
    taken: dict[str, list[Slot]] = {}
    files = size = 0
    for partition, slot in oldest_first(pending):
        if until is not None and slot.committed_at > until:
            break  # it is the oldest of what is left
        if files and (files >= limits.max_files or size + slot.size > limits.max_bytes):
            break  # not a smaller one of another partition instead: this one might wait for ever
        taken.setdefault(partition, []).append(slot)
        files, size = files + 1, size + slot.size
    return taken


def freeze(
    last: BatchManifest | None,
    slots: Mapping[str, Iterable[Slot]],
    starts: Mapping[str, int],
    *,
    resource: ResourceRef,
    chain: str,
    incarnation: str,
    reason: str,
    now: datetime,
    file_format: FileFormat = FileFormat.PARQUET,
) -> BatchManifest:
    """The next batch: all these files.

    Args:
        last: The batch before, if any.
        slots: Files in no batch, in chain order, by partition.
        starts: Where each partition's chain starts.
        resource: The consumer.
        chain: Identity of its chain.
        incarnation: Of the segment that the files are of: a batch takes files of one segment.
        reason: What fired.
        now: Wall clock.
        file_format: Of the files.
    """
    goes_on = last is not None and last.incarnation == incarnation  # else the first batch of a segment
    before = {**starts, **(last.next if last and goes_on else {})}
    after = dict(before)
    files: list[BatchFile] = []
    ranges: dict[str, Range] = {}
    lost = 0
    for partition in sorted(slots):
        for slot in slots[partition]:
            files.append(
                BatchFile(
                    path=slot.path,
                    etag=slot.etag,
                    size=slot.size,
                    partition=partition,
                    first=slot.start,
                    last=slot.last,
                    count=slot.count,
                )
            )
            ranges[partition] = Range(first=before[partition], last=slot.last)
            after[partition] = slot.last + 1
            lost += sum(len(gap) for gap in gaps.parse(slot.gap) if gap.reason is GapReason.RETENTION)
    totals = last.totals if last else Totals()
    return BatchManifest(
        number=last.number + 1 if last else 1,
        created_at=now,
        reason=reason,
        chain=chain,
        resource=resource,
        incarnation=incarnation,
        format=file_format,
        files=files,
        ranges=ranges,
        next=after,
        totals=Totals(
            files=totals.files + len(files),
            events=totals.events + sum(file.count for file in files),
            bytes=totals.bytes + sum(file.size for file in files),
            gap_events=totals.gap_events + lost,
        ),
    )
