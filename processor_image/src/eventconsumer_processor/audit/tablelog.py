"""Reads the log of the Delta table over the drained files: the newest complete checkpoint, and the commits after it.

Hosts and Spark may write during the read. Storage lists names consistently, so the newest checkpoint and all later
commits of one listing are one version of the table. A host deletes old commits that a checkpoint covers: if a blob of
the listing does not exist any more, everything is read again. Source: "Delta Table Specification" in
github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

import asyncio
import io
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_processor.audit.container import RECORD_MAX_BYTES, Container
from eventconsumer_processor.audit.inorder import in_order
from eventconsumer_processor.audit.tablestate import Action, TableState

FOLDER = "_delta_log/"
ATTEMPTS = 5
CHECKPOINT_MAX_BYTES = 256 * 1024 * 1024  # of a part; a million files need about 100 MB
_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")
_ROWS = 10_000  # actions of a checkpoint in memory
# Struct columns are named by their fields, so that partition values, tags and most statistics are not decoded.
_COLUMNS = (
    "txn.appId", "txn.version", "protocol", "metaData.configuration", "sidecar.path",
    "add.path", "add.size", "add.stats", "add.deletionVector", "add.stats_parsed.numRecords",
    "add.stats_parsed.minValues.sequence_number", "add.stats_parsed.maxValues.sequence_number",
    "remove.path", "remove.size", "remove.deletionVector",
)  # fmt: skip


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
    """

    def __init__(self, container: Container, root: str) -> None:
        self._container = container
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
                await self._load(state, blob, listing.sizes[blob])
            await asyncio.to_thread(_parsed, checkpoint.blobs[0], state.settle, covered)
        async with (  # a host that loses the lead ends in the middle
            aclosing(_wanted(listing, covered, newest)) as wanted,
            aclosing(in_order(self._commit, wanted, at_a_time=2)) as commits,
        ):
            async for version, data in commits:
                await asyncio.to_thread(_parsed, self.commit_name(version), _apply, state, version, data)
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
        data = await self._container.read(f"{self._folder}_last_checkpoint")
        try:
            version = json.loads(data or b"{}")["version"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return -1
        return version if isinstance(version, int) else -1

    async def _commit(self, item: tuple[int, int]) -> tuple[int, bytes]:
        version, size = item
        return version, await self._blob(self.commit_name(version), size, RECORD_MAX_BYTES)

    async def _load(self, state: TableState, blob: str, size: int) -> None:
        data = await self._blob(blob, size, CHECKPOINT_MAX_BYTES)
        sidecars: list[str] = await asyncio.to_thread(_parsed, blob, _load, state, blob, data)
        del data
        for path in sidecars:  # of a V2 checkpoint: parts with all `add` and `remove` actions
            name = f"{self._folder}_sidecars/{path}"
            part = await self._blob(name, 0, CHECKPOINT_MAX_BYTES)
            await asyncio.to_thread(_parsed, name, _load, state, name, part)

    async def _blob(self, name: str, size: int, limit: int) -> bytes:
        if size > limit:
            raise LogDamaged(
                f"blob {name} has {size} bytes, and the audit reads {limit} at most: run it again after the next "
                "checkpoint of the table, or move old rows to another table"
            )
        data = await self._container.read(name, limit)
        if data is None:
            raise _Vanished(f"the log of the Delta table has no blob {name}: it was deleted")
        return data


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
        text = f"blob {blob} of the Delta table cannot be read: {type(error).__name__}: {error}"
        raise LogDamaged(f"{text[:300]}; restore it from a backup") from error


def _apply(state: TableState, version: int, data: bytes) -> None:
    state.apply(version, list(actions_of(data)))


def actions_of(data: bytes) -> Iterator[Action]:
    """The actions in a commit, or in a V2 checkpoint in JSON: one in each line.

    Raises:
        ValueError: A line is no JSON object.
        RecursionError: Values are nested too deep.
    """
    for line in io.BytesIO(data):
        if line.strip():
            action = json.loads(line)
            if not isinstance(action, dict):
                raise ValueError(f"a line is no action: {line[:100]!r}")
            yield action


def _load(state: TableState, blob: str, data: bytes) -> list[str]:
    """Read a blob of a checkpoint; returns the paths of its sidecars."""
    sidecars: list[str] = []

    def kept(actions: Iterator[Action]) -> Iterator[Action]:
        for action in actions:
            if sidecar := action.get("sidecar"):
                sidecars.append(unquote(str(sidecar["path"])))
            yield action

    state.load(kept(actions_of(data) if blob.endswith(".json") else _rows(data)))
    return sidecars


def _rows(data: bytes) -> Iterator[Action]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        for batch in file.iter_batches(batch_size=_ROWS, columns=list(_COLUMNS), use_threads=False):
            for kind in batch.schema.names:
                column = batch.column(kind)
                for action in column.filter(column.is_valid()).to_pylist():
                    yield {kind: action}
