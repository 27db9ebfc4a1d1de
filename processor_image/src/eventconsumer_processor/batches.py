"""Batches for Spark: when one starts, what it holds, and how a new leader goes on where the last one stopped.

A batch is frozen by a manifest and finished by a commit record, both put-if-absent, so that two leaders cannot
disagree. Everything is derived from storage: the last manifest says where the next batch starts in each partition.
`trigger` and `freeze` are pure.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from eventconsumer_api.batch import BatchFile, BatchManifest, Range, Totals, commit_name, manifest_name
from eventconsumer_api.host_config import ResourceRef
from eventconsumer_api.spark import Trigger
from eventconsumer_processor import gaps
from eventconsumer_processor.errors import Damaged, StorageError
from eventconsumer_processor.gaps import GapReason
from eventconsumer_processor.sink.slots import Slot
from eventconsumer_processor.storage import BlobStore

MANIFEST_LIMIT = 256 * 1024 * 1024


def trigger(when: Trigger, files: int, oldest_seconds: float) -> str:
    """Which limit is reached: Files, Age, or neither (an empty text).

    Args:
        when: The limits.
        files: Number of files in no batch.
        oldest_seconds: Age of the oldest of them.
    """
    if files <= 0:
        return ""
    if files >= when.files:
        return "Files"
    return "Age" if oldest_seconds >= when.age_seconds else ""


def freeze(
    last: BatchManifest | None,
    slots: Mapping[str, Iterable[Slot]],
    starts: Mapping[str, int],
    *,
    resource: ResourceRef,
    incarnation: str,
    reason: str,
    now: datetime,
) -> BatchManifest:
    """The next batch: all these files.

    Args:
        last: The batch before, if any.
        slots: Files in no batch, in chain order, by partition.
        starts: Where each partition's chain starts.
        resource: The consumer.
        incarnation: The hub's.
        reason: What fired.
        now: Wall clock.
    """
    before = {**starts, **(last.next if last else {})}
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
        resource=resource,
        incarnation=incarnation,
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


@dataclass(frozen=True)
class BatchState:
    """The last batch."""

    last: BatchManifest | None = None
    committed: bool = True
    committed_reason: str = ""

    @property
    def open(self) -> BatchManifest | None:
        """The batch that has no commit record yet."""
        return None if self.committed else self.last

    @property
    def committed_number(self) -> int:
        """Number of the last committed batch, 0 where there is none."""
        return 0 if self.last is None else self.last.number - (0 if self.committed else 1)

    @property
    def processed_files(self) -> int:
        """Files in committed batches."""
        if self.last is None:
            return 0
        return self.last.totals.files - (0 if self.committed else len(self.last.files))


class BatchLog:
    """The manifests and commit records of one consumer."""

    def __init__(self, blobs: BlobStore, prefix: str) -> None:
        self._blobs = blobs
        self._prefix = prefix

    async def restore(self) -> BatchState:
        """The state that storage holds.

        Raises:
            StorageError: A request failed, or a manifest cannot be read.
        """
        folder = manifest_name(self._prefix, 0).rpartition("/")[0] + "/"
        names = [info.name for info in await self._blobs.list(folder)]
        numbers = [int(name.removeprefix(folder).removesuffix(".json")) for name in names]
        if not numbers:
            return BatchState()
        last = await self._read(max(numbers))
        before = await self._read(last.number - 1) if last.number > 1 else None
        return await self.poll(BatchState(last, committed=False, committed_reason=before.reason if before else ""))

    async def poll(self, state: BatchState) -> BatchState:
        """The state after looking for the open batch's commit record."""
        if state.open is None or not await self._blobs.head(commit_name(self._prefix, state.open.number)):
            return state
        return BatchState(state.open, committed=True, committed_reason=state.open.reason)

    async def freeze(self, manifest: BatchManifest) -> BatchManifest:
        """Write a manifest; the one that is there where another leader was faster."""
        data = await asyncio.to_thread(lambda: manifest.model_dump_json(by_alias=True).encode())
        try:
            await self._blobs.put(manifest_name(self._prefix, manifest.number), data, if_absent=True)
        except StorageError:
            there = await self._find(manifest.number)  # ours or another's: what is there counts
            if there is None:
                raise
            return there
        return manifest

    async def _read(self, number: int) -> BatchManifest:
        manifest = await self._find(number)
        if manifest is None:
            raise Damaged(f"batch manifest {manifest_name(self._prefix, number)} is missing: restore it from a backup")
        return manifest

    async def _find(self, number: int) -> BatchManifest | None:
        name = manifest_name(self._prefix, number)
        blob = await self._blobs.read(name, MANIFEST_LIMIT)
        if blob is None:
            return None
        try:
            return await asyncio.to_thread(BatchManifest.model_validate_json, blob.data)
        except ValidationError:
            raise Damaged(f"batch manifest {name} cannot be read: restore it from a backup") from None
