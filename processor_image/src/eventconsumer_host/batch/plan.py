"""When a batch starts, which files it contains, and the manifest that freezes them. Pure.

S8: in each partition and segment, a batch contains the oldest files that are in no batch, without a hole. So successive
batches are disjoint and contiguous, and every file is in a batch in the end. If a batch cannot contain all files, it
takes them by the time of their commit, over all partitions, so that no partition waits for another.

A scheduled time starts one batch with the files that were committed until then; later files wait for the next time. A
scheduled time is spent when a batch was frozen after it, unless that batch was full: then another batch follows with
the remaining files. The last manifest and the files determine all of this, so a new leader neither repeats nor misses a
scheduled time.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from eventconsumer_api.spec.spark import BatchLimits, Trigger
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.batch import BatchFile, BatchManifest, Range, Totals
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_host.sink import gaps
from eventconsumer_host.sink.gaps import GapReason
from eventconsumer_host.sink.slots import Slot

FILES, BYTES, AGE, SCHEDULE, WINDOW = "Files", "Bytes", "Age", "Schedule", "Window"


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """The files in no batch: their number, their bytes, and the commit time of the oldest."""

    files: int = 0
    bytes: int = 0
    oldest: datetime | None = None


def later(one: datetime | None, other: datetime | None) -> datetime | None:
    """The later of two times; None: unknown."""
    return max((time for time in (one, other) if time is not None), default=None)


def trigger(when: Trigger, waiting: WaitingFiles, now: datetime, tick: datetime | None = None) -> str:
    """The trigger that starts a batch now: Files, Bytes, Age or Schedule; empty: none.

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
    """The scheduled time `tick` if it may still start a batch, else None.

    Args:
        tick: The last scheduled time, if any.
        last: The last batch, if any.
        limits: The limits of a batch.
        oldest: The oldest file in no batch, if any.
    """
    if tick is None or last is None or tick > last.created_at or oldest is None:
        return tick
    size = sum(file.size for file in last.files)
    full = len(last.files) >= limits.max_files or size + oldest.size > limits.max_bytes
    return tick if full else None


def oldest_first(pending: Mapping[str, Sequence[Slot]]) -> Iterator[tuple[str, Slot]]:
    """All files with their partitions, by commit time; in chain order within each partition."""
    by_partition = ([(partition, slot) for slot in slots] for partition, slots in pending.items())
    return heapq.merge(*by_partition, key=lambda found: found[1].committed_at)


def take(
    pending: Mapping[str, Sequence[Slot]], limits: BatchLimits, until: datetime | None = None
) -> dict[str, list[Slot]]:
    """The files of the next batch, by partition, in chain order: at least one, unless none is due.

    Args:
        pending: Files in no batch, in chain order, by partition.
        limits: The limits of a batch.
        until: Only files that were committed until then; None: all.
    """
    taken: dict[str, list[Slot]] = {}
    files = size = 0
    for partition, slot in oldest_first(pending):
        if until is not None and slot.committed_at > until:
            break  # it is the oldest remaining file
        if files and (files >= limits.max_files or size + slot.size > limits.max_bytes):
            break  # a smaller file must not overtake it: it might wait forever
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
    segment_id: str,
    reason: str,
    now: datetime,
    file_format: FileFormat = FileFormat.PARQUET,
    watermark: datetime | None = None,
    parallel: bool = False,
) -> BatchManifest:
    """The manifest of the next batch with all these files.

    Args:
        last: The previous batch, if any.
        slots: Files in no batch, in chain order, by partition.
        starts: The start of each partition's chain.
        resource: The consumer.
        chain: Identity of its chain.
        segment_id: The segment of the files: a batch contains files of one segment.
        reason: The trigger.
        now: Wall clock.
        file_format: The format of the files.
        watermark: All events that were enqueued before are in these files, or in earlier batches; None: unknown.
        parallel: Batches before it may be open while it is processed.
    """
    continues = last is not None and last.segment_id == segment_id  # else the first batch of a segment
    before = {**starts, **(last.next if last and continues else {})}
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
        segment_id=segment_id,
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
        watermark=later(watermark, last.watermark if last else None),
        parallel=parallel,
    )
