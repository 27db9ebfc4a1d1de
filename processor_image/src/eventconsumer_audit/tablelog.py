"""Reads the log of the Delta table over the drained files: the newest complete checkpoint, and the commits after it.

Hosts and Spark may write during the read. Storage lists names consistently, so the newest checkpoint and all later
commits of one listing are one version of the table. A host deletes old commits that a checkpoint covers: if a blob of
the listing does not exist any more, everything is read again. Source: "Delta Table Specification" in
github.com/delta-io/delta/blob/master/PROTOCOL.md.

Any writer of the table may have written what is read here. Small commits are parsed in this process; checkpoints and
large commits by a child (`confined`), which returns the actions that the audit needs.
"""

import asyncio
import io
import json
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_audit.container import RECORD_MAX_BYTES, Container
from eventconsumer_audit.inorder import in_order
from eventconsumer_audit.tablestate import Action, TableState
from eventconsumer_storage.confined.reader import Confined, Ranges, Reader, Unreadable, Vanished
from eventconsumer_storage.errors import Damaged

FOLDER = "_delta_log/"
ATTEMPTS = 5
CHECKPOINT_MAX_BYTES = 256 * 1024 * 1024  # of a part; a million files need about 100 MB
_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")
SMALL_MAX_BYTES = 256 * 1024  # of a commit that is parsed in this process; JSON takes 30 times its size in memory
COMMIT_OUTPUT = 32 * 1024 * 1024  # bytes of the actions of a commit, without what the audit does not need
CHECKPOINT_OUTPUT = 1024 * 1024 * 1024  # the same, of a part of a checkpoint; they are never in memory as a whole
HINT_MAX_BYTES = 1024 * 1024
SIDECARS = 1000  # of a checkpoint; each has tens of thousands of files


class LogDamaged(EventConsumerError):  # noqa: N818 - the name describes the state
    """A blob of the log cannot be read."""


class LogGap(EventConsumerError):  # noqa: N818
    """A version of the table is missing in the log, so no program can read the table."""


class _Vanished(LogGap):
    """A blob of the listing does not exist any more."""


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    version: int
    blobs: tuple[str, ...]


@dataclass
class _Listing:
    """The names in the log, and the sizes of the blobs."""

    commits: dict[int, int] = field(default_factory=dict)  # version -> bytes
    sizes: dict[str, int] = field(default_factory=dict)  # of checkpoints
    used: bool = False

    def newest(self) -> _Checkpoint | None:
        """The newest complete checkpoint. A multi-part checkpoint with missing parts is ignored, as readers must."""
        whole: dict[int, tuple[str, ...]] = {}
        parts: dict[tuple[int, int], list[str]] = {}
        for name in sorted(self.sizes):
            base = name.rpartition("/")[2]
            if found := _PART.fullmatch(base):
                parts.setdefault((int(found[1]), int(found[3])), []).append(name)
            elif found := _CLASSIC.fullmatch(base) or _V2.fullmatch(base):
                whole.setdefault(int(found[1]), (name,))
        for (version, count), blobs in parts.items():
            if len(blobs) == count:
                whole.setdefault(version, tuple(blobs))
        return _Checkpoint(max(whole), whole[max(whole)]) if whole else None


class TableLog:
    """The log of one table.

    Args:
        container: Of the files.
        root: The prefix with a slash: the root of the table.
        confined: Reads what others may have written.
    """

    def __init__(self, container: Container, root: str, confined: Confined | None = None) -> None:
        self._container = container
        self._confined = confined or Reader()
        self._folder = root + FOLDER

    def commit_name(self, version: int) -> str:
        """Name of the blob of a commit."""
        return f"{self._folder}{version:020d}.json"

    async def read(self) -> TableState | None:
        """The newest version of the table; None: no table.

        Raises:
            LogGap: A version is missing.
            LogDamaged: A blob cannot be read.
            StorageError: A request failed.
        """
        for attempt in range(ATTEMPTS):
            try:
                return await self._read()
            except LogGap:  # also a listing of more than one page can show one while a host deletes old commits
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _read(self) -> TableState | None:
        hint = await self._hint()  # before the listing, which then has this checkpoint
        listing = await self._list()
        if not listing.used:
            return None
        checkpoint = listing.newest()
        covered = checkpoint.version if checkpoint else -1
        newest = max([covered, *listing.commits])
        if hint > newest or newest < 0:
            end = f"ends at version {newest}" if newest >= 0 else "has no version"
            named = f", but _last_checkpoint names version {hint}" if hint > newest else ""
            raise LogGap(f"the log of the Delta table {end}{named}: commits were deleted")
        state = TableState()
        if checkpoint:
            for blob in checkpoint.blobs:
                await self._load(state, blob)
            await asyncio.to_thread(_parsed, checkpoint.blobs[0], state.settle, covered)
        async with (  # a host that loses the lead ends in the middle
            aclosing(_wanted(listing, covered, newest)) as wanted,
            aclosing(in_order(self._commit, wanted, at_a_time=2)) as commits,
        ):
            async for version, data in commits:
                await asyncio.to_thread(_parsed, self.commit_name(version), state.apply, version, Actions(data))
        if reason := state.protocol.unreadable:
            raise LogDamaged(f"the Delta table cannot be audited: {reason}")
        return state

    async def _list(self) -> _Listing:
        found = _Listing()
        async for info in self._container.walk(self._folder):
            if info.metadata.get("hdi_isfolder", "").lower() == "true":  # a folder, where names are hierarchical
                continue
            found.used = True
            base = info.name.removeprefix(self._folder)
            if commit := _COMMIT.fullmatch(base):
                found.commits[int(commit[1])] = info.size
            elif any(kind.fullmatch(base) for kind in (_CLASSIC, _PART, _V2)):
                found.sizes[info.name] = info.size
        return found

    async def _hint(self) -> int:
        """The version in `_last_checkpoint`; -1: none. Readers ignore one that is damaged."""
        try:
            data = await self._container.read(f"{self._folder}_last_checkpoint", HINT_MAX_BYTES)
        except Damaged:  # too large
            return -1
        try:
            version = json.loads(data or b"{}")["version"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return -1
        return version if isinstance(version, int) else -1

    async def _commit(self, item: tuple[int, int]) -> tuple[int, bytes]:
        version, size = item
        name = self.commit_name(version)
        _check_size(name, size, RECORD_MAX_BYTES)
        if size <= SMALL_MAX_BYTES:
            data = await self._container.read(name, SMALL_MAX_BYTES)
            if data is None:
                raise _vanished(name)
            return version, data
        async with aclosing(self._rows(name, RECORD_MAX_BYTES, COMMIT_OUTPUT)) as pieces:
            return version, b"".join([piece async for piece in pieces])

    async def _load(self, state: TableState, blob: str) -> None:
        sidecars = await self._load_part(state, blob)
        for path in sidecars:  # of a V2 checkpoint: parts with all `add` and `remove` actions
            await self._load_part(state, f"{self._folder}_sidecars/{path}")

    async def _load_part(self, state: TableState, blob: str) -> list[str]:
        """Read a blob of a checkpoint; returns the paths of its sidecars."""
        sidecars: list[str] = []
        rest = b""
        async with aclosing(self._rows(blob, CHECKPOINT_MAX_BYTES, CHECKPOINT_OUTPUT)) as pieces:
            async for piece in pieces:
                whole, _, rest = (rest + piece).rpartition(b"\n")
                await asyncio.to_thread(_parsed, blob, _load, state, whole, sidecars)
        return sidecars

    async def _rows(self, name: str, limit: int, most: int) -> AsyncGenerator[bytes, None]:
        """The actions of a blob that the audit needs: JSON, one in each line."""
        info = await self._container.head(name)
        if info is None:
            raise _vanished(name)
        _check_size(name, info.size, limit)
        target = "tablerows:of_json" if name.endswith(".json") else "parquetrows:checkpoint"
        source = Ranges(info.size, self._container.ranges(info))
        try:
            async with aclosing(self._confined.run(f"eventconsumer_audit.{target}", [source], most=most)) as pieces:
                async for piece in pieces:
                    yield piece
        except Vanished:
            raise _vanished(name) from None
        except Unreadable as error:
            raise _damaged(name, error) from error


def _check_size(name: str, size: int, limit: int) -> None:
    if size > limit:
        raise LogDamaged(
            f"blob {name} has {size} bytes, and the audit reads {limit} at most: run it again after the next "
            "checkpoint of the table, or move old rows to another table"
        )


def _vanished(name: str) -> "_Vanished":
    return _Vanished(f"the log of the Delta table has no blob {name}: it was deleted")


async def _wanted(listing: _Listing, covered: int, newest: int) -> AsyncGenerator[tuple[int, int], None]:
    """Versions and sizes of the commits after the checkpoint."""
    for version in range(covered + 1, newest + 1):
        if version not in listing.commits:
            raise LogGap(f"the log of the Delta table has no version {version} before version {newest}")
        yield version, listing.commits[version]


def _parsed(blob: str, parse: Any, *arguments: Any) -> Any:
    try:
        return parse(*arguments)
    except Exception as error:  # noqa: BLE001 - parsers raise errors of any type for damaged bytes
        raise _damaged(blob, error) from error


def _damaged(blob: str, error: Exception) -> LogDamaged:
    cause = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
    return LogDamaged(f"{f'blob {blob} of the Delta table cannot be read: {cause}'[:300]}; restore it from a backup")


class Actions:
    """The actions in a commit: one in each line. They are parsed each time, so that they are not in memory at once.

    Raises:
        ValueError: A line is no JSON object.
        RecursionError: Values are nested too deep.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Iterator[Action]:
        for line in io.BytesIO(self._data):
            if line.strip():
                action = json.loads(line)
                if not isinstance(action, dict):
                    raise ValueError(f"a line is no action: {line[:100]!r}")
                yield action


def _load(state: TableState, data: bytes, sidecars: list[str]) -> None:
    def kept(actions: Iterable[Action]) -> Iterator[Action]:
        for action in actions:
            if sidecar := action.get("sidecar"):
                sidecars.append(unquote(str(sidecar["path"])))
                if len(sidecars) > SIDECARS:
                    raise ValueError(f"it has more than {SIDECARS} sidecars")
            yield action

    state.load(kept(Actions(data)))
