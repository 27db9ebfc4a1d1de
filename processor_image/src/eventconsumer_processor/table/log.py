"""Reads the log of the table, and writes its next version, for any response of the storage service.

A version is written only if no blob has its name. A put may be applied although its response was lost, and another
writer may be faster (another host, or Spark). So after each failure the version is read: whoever wrote it, its actions
are applied, and the caller decides from the new state what is left to do.

Writers remove old versions, so a name below the newest checkpoint can be free again for a writer that has not read the
log since. No reader applies a version that is written there. So after each put the last checkpoint is looked at.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eventconsumer_api.conditions import Reason
from eventconsumer_api.errors import Blocked
from eventconsumer_processor.table.delta import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    LogName,
    TableState,
    commit_name,
    parse_actions,
    parse_last_checkpoint,
    parse_name,
)
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import StorageError

FIELD = "spec.sink.table"
COMMIT_LIMIT = 64 * 1024**2  # bytes of a version; 100,000 files that OPTIMIZE replaces need about 40 MB
CHECKPOINT_LIMIT = 256 * 1024**2  # bytes of a checkpoint; 1,000,000 files need about 100 MB
LAST_CHECKPOINT_LIMIT = 1024**2  # bytes; Spark writes the columns of the checkpoint into it
AT_A_TIME = 8  # requests
ATTEMPTS = 3  # to read a log from which another host removes old versions

Offload = Callable[..., Awaitable[Any]]
"""Runs work that takes CPU time."""


def invalid(message: str) -> Blocked:
    """The error for a table that hosts cannot write to."""
    return Blocked(FIELD, Reason.TABLE_INVALID, message)


@dataclass(frozen=True)
class Listing:
    """The blobs of the log.

    Attributes:
        commits: Versions.
        checkpoints: Blobs of each complete checkpoint, by version.
    """

    commits: Mapping[int, BlobInfo]
    checkpoints: Mapping[int, tuple[tuple[LogName, BlobInfo], ...]]

    @property
    def newest_checkpoint(self) -> int:
        """Version of the newest complete checkpoint; -1: there is none."""
        return max(self.checkpoints, default=-1)

    def missing_before(self, last: int) -> int | None:
        """The first version after the newest checkpoint and up to `last` that does not exist; None: all exist."""
        expected = self.newest_checkpoint + 1
        while expected in self.commits:  # a blob may have any number: never count up to it
            expected += 1
        return expected if expected <= last else None


class TableLog:
    """The log of one table."""

    def __init__(self, blobs: BlobStore, prefix: str, offload: Offload) -> None:
        """Create a log; sends no request.

        Args:
            blobs: The container of the files.
            prefix: Folder of the files, the root of the table.
            offload: Runs work that takes CPU time.
        """
        self.root = f"{prefix}/"
        self.folder = f"{prefix}/{LOG_FOLDER}/"
        self.blobs = blobs
        self.offload = offload

    async def listing(self) -> Listing:
        """The blobs of the log.

        Raises:
            StorageError: The request failed.
        """
        commits: dict[int, BlobInfo] = {}
        parts: dict[tuple[int, object], list[tuple[LogName, BlobInfo]]] = defaultdict(list)
        for info in await self.blobs.list(self.folder):
            name = parse_name(info.name.removeprefix(self.folder))
            if name is None or not info.size:
                continue
            if name.checkpoint:
                # Checkpoints of one version: in one file, in a number of parts, or each with a name of its own.
                parts[name.version, name.part[1] if name.part else info.name].append((name, info))
            else:
                commits[name.version] = info
        complete = {}
        for (version, _), found in parts.items():
            if len(found) == (found[0][0].part or (1, 1))[1]:
                complete[version] = tuple(found)
        return Listing(commits, complete)

    async def read(self) -> tuple[TableState, int]:
        """The present state, and the version of the checkpoint from which it was read (-1: none).

        Raises:
            Blocked: The log is damaged.
            StorageError: A request failed.
        """
        missing = ""
        for _ in range(ATTEMPTS):
            listing = await self.listing()
            checkpoint = listing.newest_checkpoint
            last = max([checkpoint, *listing.commits])
            absent = listing.missing_before(last)
            if absent is not None:
                missing = f"version {absent} is missing"
                continue
            state = await self._checkpoint(listing, checkpoint)
            if state is not None:
                state, vanished = await self._follow(state, last)
                if vanished is None:
                    return state, checkpoint
                missing = f"version {vanished} is missing"
        raise self._damage(missing or "a checkpoint is missing")

    async def follow(self, state: TableState) -> TableState:
        """The state after all versions that exist now.

        Raises:
            Blocked: A version is damaged.
            StorageError: A request failed.
        """
        while (actions := await self._version(state.version + 1)) is not None:
            state = self._after(state, state.version + 1, actions)
        return state

    async def commit(self, state: TableState, content: bytes) -> TableState:
        """Write the next version, unless it exists; returns the state after all versions that exist then.

        Raises:
            Blocked: The log is damaged.
            StorageError: The version was not written, or the outcome is unknown: the next call finds it.
        """
        version = state.version + 1
        try:
            await self.blobs.put(f"{self.folder}{commit_name(version)}", content, if_absent=True)
        except StorageError:
            after = await self.follow(state)
            if after.version == state.version:
                raise
        else:
            after = self._after(state, version, list(parse_actions(content)))
        if await self._is_passed(version):
            after, _ = await self.read()
        return after

    async def last_checkpoint(self) -> tuple[int, str | None]:
        """The version of the checkpoint that `_last_checkpoint` names, -1: none; and the etag of this blob, if any.

        Raises:
            StorageError: The request failed.
        """
        blob = await self.blobs.read(f"{self.folder}{LAST_CHECKPOINT}", LAST_CHECKPOINT_LIMIT)
        return (parse_last_checkpoint(blob.data), blob.info.etag) if blob else (-1, None)

    async def _is_passed(self, version: int) -> bool:
        """Whether there is a checkpoint of this version or a later one.

        Writers name their checkpoint in `_last_checkpoint` before they remove the versions that it covers: hosts, see
        `checkpoint`; Spark, where `doLogCleanup` comes last in `checkpointAndCleanUpDeltaLog` ("Checkpoints.scala" of
        github.com/delta-io/delta); delta-rs, where `create_checkpoint` writes the blob and removes nothing.
        """
        named, _ = await self.last_checkpoint()
        return (named if named >= 0 else (await self.listing()).newest_checkpoint) >= version

    async def _checkpoint(self, listing: Listing, version: int) -> TableState | None:
        """The state in a checkpoint; None if a part of it has vanished."""
        state = TableState()
        for name, info in listing.checkpoints.get(version, ()):
            blob = await self._blob(info.name, CHECKPOINT_LIMIT)
            if blob is None:
                return None
            try:
                if name.json:
                    actions = await self.offload(lambda data=blob: list(parse_actions(data)))
                else:
                    from eventconsumer_processor.table.checkpoint_file import actions_of  # with pyarrow

                    actions = await self.offload(actions_of, blob)
                state = state.after(version, actions)
            except ValueError as error:
                raise self._damage(f"blob {info.name} cannot be read ({error})") from None
        return state

    async def _follow(self, state: TableState, last: int) -> tuple[TableState, int | None]:
        """The state at version `last`; or the first version that has vanished."""
        for start in range(state.version + 1, last + 1, AT_A_TIME):
            versions = range(start, min(start + AT_A_TIME, last + 1))
            found = await asyncio.gather(*(self._version(version) for version in versions))
            for version, actions in zip(versions, found, strict=True):
                if actions is None:
                    return state, version
                state = self._after(state, version, actions)
        return state, None

    async def _version(self, version: int) -> list[dict[str, Any]] | None:
        """The actions of a version that matter to hosts; None if it does not exist."""
        name = f"{self.folder}{commit_name(version)}"
        blob = await self._blob(name, COMMIT_LIMIT)
        if blob is None:
            return None
        try:
            actions: list[dict[str, Any]] = await self.offload(lambda: list(parse_actions(blob)))
        except ValueError as error:
            raise self._damage(f"blob {name} cannot be read ({error})") from None
        return actions

    def _after(self, state: TableState, version: int, actions: list[dict[str, Any]]) -> TableState:
        try:
            return state.after(version, actions)
        except ValueError as error:
            raise self._damage(f"blob {self.folder}{commit_name(version)} cannot be read ({error})") from None

    async def _blob(self, name: str, limit: int) -> bytes | None:
        blob = await self.blobs.read(name, limit)
        if blob is not None and blob.info.size > limit:
            raise invalid(
                f"blob {name} of the table's log has {blob.info.size} bytes, and hosts read at most {limit}: let Spark "
                "write a checkpoint of the table after it, or compact the table in smaller parts"
            )
        return blob.data if blob else None

    def _damage(self, what: str) -> Blocked:
        return invalid(
            f"the log of the table in {self.folder} is damaged: {what}. Restore it from a backup; or, to create the "
            "table again with all files that are not pruned, suspend this EventConsumer, remove the folder, and resume"
        )
