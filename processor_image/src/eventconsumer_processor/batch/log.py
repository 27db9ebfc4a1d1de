"""The manifests and commit records of Spark batches in storage, and how a new leader restores its state from them.

A manifest freezes a batch, and a commit record finishes it. Both are written only if absent, so two leaders cannot
disagree. All state is in storage: the last manifest has the start of the next batch in each partition. The existence of
a commit record counts, independent of its content: a record that cannot be parsed is reported as a problem, but its
files are not processed again.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from eventconsumer_api.batch import BatchCommit, BatchManifest, commit_name, manifest_name
from eventconsumer_api.host_report import CommitReport
from eventconsumer_processor.batch.memory import container_memory, manifest_limit
from eventconsumer_processor.batch.report import commit_report
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Damaged, StorageError

COMMIT_LIMIT = 4 * 1024 * 1024  # it lists the quarantined files, at most all files of a manifest


@dataclass(frozen=True)
class BatchState:
    """The last batch.

    Attributes:
        last: Its manifest; None: no batch yet.
        committed: Whether it has a commit record.
        committed_reason: Why the last committed batch started.
        commit: The record of the last committed batch; None: no such record, or it cannot be parsed.
        damage: Why it cannot be parsed.
        watermark: All events that were enqueued before are in committed batches, by their manifests; None: unknown.
    """

    last: BatchManifest | None = None
    committed: bool = True
    committed_reason: str = ""
    commit: CommitReport | None = None
    damage: Damaged | None = None
    watermark: datetime | None = None

    @property
    def open(self) -> BatchManifest | None:
        """The batch that has no commit record yet."""
        return None if self.committed else self.last

    @property
    def committed_number(self) -> int:
        """Number of the last committed batch; 0: none."""
        return 0 if self.last is None else self.last.number - (0 if self.committed else 1)

    @property
    def processed_files(self) -> int:
        """Files in committed batches."""
        if self.last is None:
            return 0
        return self.last.totals.files - (0 if self.committed else len(self.last.files))

    @property
    def processed_bytes(self) -> int:
        """Bytes of the files in committed batches."""
        if self.last is None:
            return 0
        return self.last.totals.bytes - (0 if self.committed else sum(file.size for file in self.last.files))

    def then(self, manifest: BatchManifest) -> "BatchState":
        """The state after the next batch is frozen."""
        return replace(self, last=manifest, committed=False)


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
        last = await self._read(max(numbers))
        state = await self.poll(BatchState(last, committed=False))
        if state.committed or last.number == 1:
            return state
        before = await self._read(last.number - 1)
        _, commit, damage = await self._commit(before.number)
        return replace(state, committed_reason=before.reason, commit=commit, damage=damage, watermark=before.watermark)

    async def poll(self, state: BatchState) -> BatchState:
        """Look for the commit record of the open batch, and read a damaged one again; returns the new state."""
        if state.damage:
            _, commit, damage = await self._commit(state.committed_number)
            state = replace(state, commit=commit, damage=damage)
        if state.open is None:
            return state
        there, commit, damage = await self._commit(state.open.number)
        if not there:
            return state
        return replace(
            state,
            committed=True,
            committed_reason=state.open.reason,
            commit=commit,
            damage=damage,
            watermark=state.open.watermark or state.watermark,
        )

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

    async def _commit(self, number: int) -> tuple[bool, CommitReport | None, Damaged | None]:
        """Whether a batch is committed, its commit record, and why the record cannot be parsed."""
        name = commit_name(self._prefix, number)
        blob = await self._blobs.read(name, COMMIT_LIMIT)
        if blob is None:
            return False, None, None
        try:
            if blob.info.size > COMMIT_LIMIT:
                raise ValueError(f"it has {blob.info.size} bytes, {COMMIT_LIMIT} at most are read")
            commit = await asyncio.to_thread(BatchCommit.model_validate_json, blob.data)
            if commit.number != number:
                raise ValueError(f"it is of batch {commit.number}")
            return True, commit_report(commit), None
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            text = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
        except ValueError as error:
            text = str(error)
        return (
            True,
            None,
            Damaged(
                f"commit record {name} cannot be read ({text}): it was written or changed by something else; restore it"
            ),
        )
