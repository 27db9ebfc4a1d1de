"""The manifests and commit records of Spark batches in storage, and how a new leader restores its state from them.

A manifest freezes a batch, and a commit record finishes it. Both are written only if absent, so two leaders cannot
disagree. An attempt publishes its commit record itself; those of parallel batches are published here, in order. All
state is in storage: the last manifest has the start of the next batch in each partition. The existence of a commit
record counts, independent of its content: a record that cannot be parsed is reported as a problem, but its files are
not processed again.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

import structlog
from pydantic import ValidationError

from eventconsumer_api.spec.spark import IN_FLIGHT_MAX
from eventconsumer_api.wire.batch import BatchCommit, BatchManifest, attempt_name, commit_name, decided, manifest_name
from eventconsumer_api.wire.host_report import BatchReport, CommitReport
from eventconsumer_host.batch.memory import manifest_limit
from eventconsumer_host.batch.report import batch_report, commit_report
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.confined.reader import container_memory
from eventconsumer_storage.errors import Conflict, Damaged, StorageError

COMMIT_LIMIT = 4 * 1024 * 1024  # it lists the quarantined files, at most all files of a manifest

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OpenBatch:
    """A batch without a commit record: its report, and its manifest's watermark."""

    report: BatchReport
    watermark: datetime | None

    @classmethod
    def of(cls, manifest: BatchManifest) -> Self:
        """The open batch of a manifest."""
        return cls(batch_report(manifest), manifest.watermark)


@dataclass(frozen=True)
class BatchState:
    """The last batches.

    Attributes:
        last: The manifest of the last one; None: no batch yet.
        open: The batches without a commit record, by number; they are the last ones.
        committed_reason: Why the last committed batch started.
        commit: The record of the last committed batch; None: no such record, or it cannot be parsed.
        damage: Why it cannot be parsed.
        watermark: All events that were enqueued before are in committed batches, by their manifests; None: unknown.
    """

    last: BatchManifest | None = None
    open: tuple[OpenBatch, ...] = ()
    committed_reason: str = ""
    commit: CommitReport | None = None
    damage: Damaged | None = None
    watermark: datetime | None = None

    @property
    def committed_number(self) -> int:
        """Number of the last committed batch; 0: none."""
        return 0 if self.last is None else self.last.number - len(self.open)

    @property
    def processed_files(self) -> int:
        """Files in committed batches."""
        return 0 if self.last is None else self.last.totals.files - sum(batch.report.files for batch in self.open)

    @property
    def processed_bytes(self) -> int:
        """Bytes of the files in committed batches."""
        return 0 if self.last is None else self.last.totals.bytes - sum(batch.report.bytes for batch in self.open)

    def then(self, manifest: BatchManifest) -> "BatchState":
        """The state after the next batch is frozen."""
        return replace(self, last=manifest, open=(*self.open, OpenBatch.of(manifest)))


class BatchLog:
    """The manifests and commit records of one consumer."""

    def __init__(self, blobs: BlobStore, prefix: str, memory: int | None = None) -> None:
        """Create.

        Args:
            blobs: The container of the sink.
            prefix: Folder of the sink.
            memory: Memory that manifests must fit into, bytes; None: the limit of the container.
        """
        self._blobs = blobs
        self._prefix = prefix
        self._limit = manifest_limit(container_memory() if memory is None else memory)

    async def restore(self) -> BatchState:
        """The state in storage.

        Raises:
            StorageError: A request failed, or a manifest cannot be parsed.
        """
        folder = manifest_name(self._prefix, 0).rpartition("/")[0] + "/"
        names = [info.name for info in await self._blobs.list(folder)]
        numbers = [int(name.removeprefix(folder).removesuffix(".json")) for name in names]
        if not numbers:
            return BatchState()
        last = manifest = await self._read(max(numbers))
        open_batches: list[OpenBatch] = []
        while not (found := await self._commit(manifest.number)).there:
            open_batches.insert(0, OpenBatch.of(manifest))
            if manifest.number == 1:
                return BatchState(last, tuple(open_batches))
            was_parallel = manifest.parallel and len(open_batches) < IN_FLIGHT_MAX
            manifest = await self._read(manifest.number - 1)
            if not was_parallel:  # then the batch before is committed
                found = await self._commit(manifest.number)
                break
        return BatchState(
            last,
            tuple(open_batches),
            committed_reason=manifest.reason,
            commit=found.report,
            damage=found.damage,
            watermark=manifest.watermark,
        )

    async def poll(self, state: BatchState) -> BatchState:
        """Look for commit records of open batches, and read a damaged one again; returns the new state.

        Raises:
            StorageError: A request failed.
        """
        if state.damage:
            found = await self._commit(state.committed_number)
            state = replace(state, commit=found.report, damage=found.damage)
        while state.open:
            first = state.open[0]
            found = await self._commit(first.report.number)
            if not found.there:
                break
            state = replace(
                state,
                open=state.open[1:],
                committed_reason=first.report.reason,
                commit=found.report,
                damage=found.damage,
                watermark=first.watermark or state.watermark,
            )
        return state

    async def publish(self, state: BatchState) -> bool:
        """Publish the commits of decided parallel batches, in order; returns whether there are any.

        Every host makes the same record, so it does not matter whose put succeeds.

        Raises:
            Damaged: The record of the batch before is missing or cannot be parsed.
            StorageError: A request failed.
        """
        published = False
        for batch in state.open:
            if not batch.report.parallel or not await self._publish(batch.report.number):
                break
            published = True
        return published

    async def manifest(self, number: int) -> BatchManifest:
        """The manifest of a batch.

        Raises:
            StorageError: The request failed, or the manifest is missing or cannot be parsed.
        """
        return await self._read(number)

    async def excluded(self, last: int, after: int = 0) -> set[str]:
        """Paths of the files that committed batches excluded.

        A commit record names the last earlier batch that excluded files, so only the records of such batches are read.

        Args:
            last: Number of the last batch to look at, which is committed.
            after: Number of the batch before the first one to look at.

        Raises:
            StorageError: A request failed, or a record is missing or cannot be parsed.
        """
        paths: set[str] = set()
        number = last
        while number > after:
            found = await self._commit(number)
            if found.record is None:
                name = commit_name(self._prefix, number)
                raise found.damage or Damaged(f"commit record {name} is missing: restore it from a backup")
            left = found.record.quarantine
            if left is None or left.number <= after:
                break
            paths.update(file.path for file in left.files)
            number = min(left.number, number) - 1
        return paths

    async def freeze(self, manifest: BatchManifest) -> BatchManifest:
        """Write a manifest; returns the existing one if another leader was faster."""
        data = await asyncio.to_thread(lambda: manifest.model_dump_json(by_alias=True).encode())
        try:
            await self._blobs.put(manifest_name(self._prefix, manifest.number), data, if_absent=True)
        except StorageError:
            there = await self._find(manifest.number)  # ours or another leader's: the existing manifest counts
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
        blob = await self._blobs.read(name, self._limit)
        if blob is None:
            return None
        if blob.info.size > self._limit:
            raise Damaged(
                f"batch manifest {name} has {blob.info.size} bytes, and this host has memory for {self._limit}: "
                "restore it from a backup if another program wrote it, else raise spec.pods.resources.limits.memory"
            )
        try:
            return await asyncio.to_thread(BatchManifest.model_validate_json, blob.data)
        except ValidationError:
            raise Damaged(f"batch manifest {name} cannot be read: restore it from a backup") from None

    async def _publish(self, number: int) -> bool:
        """Publish the commit of a parallel batch after that of the batch before, if an attempt has decided it."""
        blob = await self._blobs.read(attempt_name(self._prefix, number), COMMIT_LIMIT)
        own = await asyncio.to_thread(decided, blob.data) if blob else None
        if own is None:
            return False
        before = await self._commit(number - 1) if number > 1 else _Found()
        if before.damage:
            raise before.damage
        if number > 1 and before.record is None:
            raise Damaged(
                f"commit record {commit_name(self._prefix, number - 1)} is missing, and the totals of batch {number} "
                "continue from it: restore it (soft delete or versions of the storage account)"
            )
        data = own.after(before.record).model_dump_json(by_alias=True, indent=2).encode()
        try:
            await self._blobs.put(commit_name(self._prefix, number), data, if_absent=True)
        except Conflict:
            return True  # another leader was faster
        log.info("batch committed", number=number, application=own.application)
        return True

    async def _commit(self, number: int) -> "_Found":
        """The commit record of a batch."""
        name = commit_name(self._prefix, number)
        blob = await self._blobs.read(name, COMMIT_LIMIT)
        if blob is None:
            return _Found()
        try:
            if blob.info.size > COMMIT_LIMIT:
                raise ValueError(f"it has {blob.info.size} bytes, {COMMIT_LIMIT} at most are read")
            commit = await asyncio.to_thread(BatchCommit.model_validate_json, blob.data)
            if commit.number != number:
                raise ValueError(f"it is of batch {commit.number}")
            return _Found(True, commit)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            text = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
        except ValueError as error:
            text = str(error)
        cause = f"commit record {name} cannot be read ({text}): it was written or changed by something else; restore it"
        return _Found(True, damage=Damaged(cause))


@dataclass(frozen=True)
class _Found:
    """A commit record: whether it exists, its content, and why the content cannot be parsed."""

    there: bool = False
    record: BatchCommit | None = None
    damage: Damaged | None = None

    @property
    def report(self) -> CommitReport | None:
        return commit_report(self.record) if self.record else None
