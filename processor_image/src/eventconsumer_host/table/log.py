"""Reads the log of the table, writes its next version, and removes files, for any response of the storage service.

A version is written only if no blob has its name. A put may be applied although its response was lost, and another
writer may be faster (another host, or Spark). So after each failure the version is read: whoever wrote it, its actions
are applied, and the caller decides from the new state what is left to do.

Writers remove old versions, so a name below the newest checkpoint can be free again for a writer that has not read the
log since. No reader applies a version that is written there. So after each put the last checkpoint is looked at.

Any writer of the table may have written what is read here. Small versions in JSON are parsed in this process: JSON
takes up to 30 times its size in memory. Checkpoints and large versions are read by a child (`confined`), which returns
what hosts need of them. A blob that cannot be read costs up to minutes of CPU time, so it is read again after a while
only, and at once if it was replaced.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_host.table.actions import needed, parse_actions, path_of
from eventconsumer_host.table.delta import (
    LAST_CHECKPOINT,
    LOG_FOLDER,
    LogName,
    TableState,
    parse_last_checkpoint,
    parse_name,
    removal,
    version_name,
)
from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.confined import reader
from eventconsumer_storage.confined.reader import Confined, Unreadable, Vanished
from eventconsumer_storage.errors import StorageError, Unavailable

FIELD = "spec.sink.table"
COMMIT_LIMIT = 64 * 1024**2  # bytes of a version; 100,000 files that OPTIMIZE replaces need about 40 MB
CHECKPOINT_LIMIT = 256 * 1024**2  # bytes of a checkpoint; 1,000,000 files need about 100 MB
SMALL_LIMIT = 256 * 1024  # bytes of a version that is parsed in this process; 600 files need as much
STATE_LIMIT = 16 * 1024**2  # bytes of `actions.needed` of one blob; 100,000 transactions need about 12 MB
LAST_CHECKPOINT_LIMIT = 1024**2  # bytes; Spark writes the columns of the checkpoint into it
AT_A_TIME = 8  # requests
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0  # seconds before a blob that cannot be read is read again
ATTEMPTS = 3  # to read a log from which another host removes old versions
SIDECARS = 1000  # blobs of a checkpoint; each has tens of thousands of files
REMOVALS = 20  # attempts to remove files: other programs commit too
FIRST_REMOVAL_PAUSE, LONGEST_REMOVAL_PAUSE = 0.5, 8.0  # seconds


def invalid(message: str) -> Blocked:
    """The error for a table that hosts cannot write to."""
    return Blocked(FIELD, Reason.TABLE_INVALID, message)


@dataclass(frozen=True)
class LogListing:
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


@dataclass(frozen=True)
class _Unreadable:
    """A blob that could not be read: its name and etag, why, and until when it is not read again."""

    blob: tuple[str, str]
    cause: str
    pause: float
    until: float


class TableLog:
    """The log of one table."""

    def __init__(self, blobs: BlobStore, prefix: str, confined: Confined) -> None:
        """Create a log; sends no request.

        Args:
            blobs: The container of the files.
            prefix: Folder of the files, the root of the table.
            confined: Reads what others may have written.
        """
        self.root = f"{prefix}/"
        self.folder = f"{prefix}/{LOG_FOLDER}/"
        self.blobs = blobs
        self.confined = confined
        self._unreadable: _Unreadable | None = None

    async def listing(self) -> LogListing:
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
        return LogListing(commits, complete)

    async def read(self, watched: frozenset[str] = frozenset()) -> tuple[TableState, int]:
        """The present state, and the version of the checkpoint from which it was read (-1: none).

        Args:
            watched: Paths of files that may be removed.

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
            state = await self._checkpoint(listing, checkpoint, watched)
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
        while (actions := await self._version(state.version + 1, state.watched)) is not None:
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
            await self.blobs.put(f"{self.folder}{version_name(version)}", content, if_absent=True)
        except StorageError:
            after = await self.follow(state)
            if after.version == state.version:
                raise
        else:
            after = self._after(state, version, parse_actions(content))
        if await self._is_passed(version):
            after, _ = await self.read(state.watched)
        return after

    async def remove(self, paths: Collection[str], now: datetime, check: Callable[[], None]) -> None:
        """Remove files from the table; afterwards no version has them.

        Everything is decided from the log: a version removes the files that the table still has, until it has none.
        So neither a lost response nor a version of another program changes the result.

        Args:
            paths: The files.
            now: Wall clock; written into the log.
            check: Called before each version; raises if this host must not write any more.

        Raises:
            Blocked: The table does not allow it, the log is damaged, or other programs commit all the time.
            StorageError: A request failed; the next call continues.
        """
        watched = frozenset(paths)
        state, _ = await self.read(watched)
        for attempt in range(REMOVALS):
            if not state.files:
                return
            if reason := state.keeps_files:
                raise invalid(reason)
            check()
            try:
                state = await self.commit(state, removal(state, now))
            except Unavailable:
                await asyncio.sleep(min(FIRST_REMOVAL_PAUSE * 2**attempt, LONGEST_REMOVAL_PAUSE))
                state, _ = await self.read(watched)
        if state.files:
            raise invalid(f"{len(state.files)} files could not be removed from the Delta table in {REMOVALS} attempts")

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

    async def _checkpoint(self, listing: LogListing, version: int, watched: frozenset[str]) -> TableState | None:
        """The state in a checkpoint; None if a part of it has vanished."""
        state = TableState(watched=watched)
        blobs: list[tuple[BlobInfo, bool]] = [
            (info, not name.json) for name, info in listing.checkpoints.get(version, ())
        ]
        for info, parquet in blobs:  # grows by the sidecars of a V2 checkpoint, which have its files
            self._check_size(info, CHECKPOINT_LIMIT)
            try:
                found = parse_actions(await self._needed(info, watched, parquet=parquet))
                actions = [action for action in found if "remove" not in action]  # a tombstone of another logical file
                state = state.after(version, actions)
                for sidecar in (action["sidecar"] for action in actions if action.get("sidecar")):
                    part = await self.blobs.head(f"{self.folder}_sidecars/{path_of(sidecar)}")
                    if part is None:
                        return None
                    blobs.append((part, True))
                    if len(blobs) > SIDECARS:
                        raise ValueError(f"it has more than {SIDECARS} sidecars")
            except Vanished:
                return None
            except (ValueError, KeyError, TypeError) as error:
                raise self._damage(f"blob {info.name} cannot be read ({error})") from None
        return state

    async def _needed(self, info: BlobInfo, watched: frozenset[str], *, parquet: bool) -> bytes:
        """The actions of a blob that hosts need, as lines of JSON.

        Raises:
            ValueError: It cannot be read; `Vanished`: it was deleted or replaced.
            StorageError: A request failed.
        """
        target = "checkpoint_file:state_of_parquet" if parquet else "actions:state_of_json"
        source = reader.blob(self.blobs, info)
        known, now = self._unreadable, asyncio.get_running_loop().time
        same = known is not None and known.blob == (info.name, info.etag)
        if known is not None and same and now() < known.until:
            raise Unreadable(known.cause)
        try:
            arguments = {"watched": sorted(watched)} if watched else None
            running = self.confined.run(
                f"eventconsumer_host.table.{target}", [source], most=STATE_LIMIT, arguments=arguments
            )
            return await reader.whole(running)
        except Vanished:
            raise
        except Unreadable as error:
            pause = min(known.pause * 2, LONGEST_PAUSE) if known is not None and same else FIRST_PAUSE
            self._unreadable = _Unreadable((info.name, info.etag), str(error), pause, now() + pause)
            raise

    async def _follow(self, state: TableState, last: int) -> tuple[TableState, int | None]:
        """The state at version `last`; or the first version that has vanished."""
        for start in range(state.version + 1, last + 1, AT_A_TIME):
            versions = range(start, min(start + AT_A_TIME, last + 1))
            found = await asyncio.gather(*(self._version(version, state.watched) for version in versions))
            for version, actions in zip(versions, found, strict=True):
                if actions is None:
                    return state, version
                state = self._after(state, version, actions)
        return state, None

    async def _version(self, version: int, watched: frozenset[str]) -> list[dict[str, Any]] | None:
        """The actions of a version that matter to hosts; None if it does not exist."""
        name = f"{self.folder}{version_name(version)}"
        blob = await self.blobs.read(name, SMALL_LIMIT)
        if blob is None:
            return None
        self._check_size(blob.info, COMMIT_LIMIT)
        try:
            large = blob.info.size > SMALL_LIMIT
            data = await self._needed(blob.info, watched, parquet=False) if large else blob.data
            return list(needed(parse_actions(data), watched))
        except Vanished:
            return None
        except ValueError as error:
            raise self._damage(f"blob {name} cannot be read ({error})") from None

    def _after(self, state: TableState, version: int, actions: Iterable[dict[str, Any]]) -> TableState:
        try:
            return state.after(version, actions)
        except ValueError as error:
            raise self._damage(f"blob {self.folder}{version_name(version)} cannot be read ({error})") from None

    def _check_size(self, info: BlobInfo, limit: int) -> None:
        if info.size > limit:
            raise invalid(
                f"blob {info.name} of the table's log has {info.size} bytes, and hosts read at most {limit}: let Spark "
                "write a checkpoint of the table after it, or compact the table in smaller parts"
            )

    def _damage(self, what: str) -> Blocked:
        return invalid(
            f"the log of the table in {self.folder} is damaged: {what}. Restore it from a backup; or, to create the "
            "table again with all files that retention did not remove, suspend this EventConsumer, remove the folder, "
            "and resume"
        )
