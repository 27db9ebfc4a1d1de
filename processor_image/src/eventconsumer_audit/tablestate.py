"""PURE: the state of the Delta table over the drained files, from the actions in its log.

Written from the published protocol, intentionally without the writer's code. Source: "Action Reconciliation" in
github.com/delta-io/delta/blob/master/PROTOCOL.md. The consumer's own files are kept in columns of machine numbers, so
that a million of them take 50 MB; files of other programs are kept as hashes.
"""

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from eventconsumer_audit import names
from eventconsumer_audit.capture import digest
from eventconsumer_audit.codes import Code
from eventconsumer_audit.model import ChainKey, Findings

APP = "eventconsumer"  # first part of the `appId` of the hosts' positions
UNKNOWN = -1
MOST_FILES = 2_000_000  # 50 bytes each; the same again for a moment when the checkpoint is sorted
OTHER_WEIGHT = 4  # a file of another program takes so many times the memory
_REMOVED, _ACTIVE = 0, 1
_UNREADABLE_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview"})  # commits may be in a catalog only
_LATEST_READER = 3

Action = Mapping[str, Any]
Owner = tuple[str, str, str]
"""Chain, segment and partition of a position."""
Logical = tuple[str, str]
"""Path, and the id of its deletion vector; empty: none. The key of a file in the protocol."""


@dataclass(frozen=True, slots=True)
class Stats:
    """The statistics of a file in the log, as far as the audit needs them; `UNKNOWN`: absent."""

    records: int = UNKNOWN  # rows of the file, deleted ones included
    lowest: int = UNKNOWN  # sequence number
    highest: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class TableFile:
    """One of the consumer's files that the table has, or had."""

    start: int
    active: bool
    size: int = UNKNOWN
    stats: Stats = Stats()


class TableSlots:
    """The files of one partition that the table has or had, by start."""

    def __init__(self) -> None:
        self._columns = [array("q") for _ in range(6)]  # start, active, size, records, lowest, highest
        self._taken = bytearray()  # by index, after the first `take`

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[TableFile]:
        return (self._at(index) for index in range(len(self._columns[0])))

    def append(self, file: TableFile) -> None:
        """Add a file of a checkpoint, in any order; call `settle` after the last one."""
        for column, value in zip(self._columns, _row(file), strict=True):
            column.append(value)

    def settle(self) -> list[int]:
        """Sort the appended files; returns the starts of those that were added twice.

        A file can be both removed and added: with another deletion vector, as another logical file.
        """
        starts, active = self._columns[0], self._columns[1]
        order = sorted(range(len(starts)), key=lambda index: (starts[index], -active[index]))
        kept, twice = list[int](), list[int]()
        for index in order:
            if kept and starts[kept[-1]] == starts[index]:
                if active[index]:
                    twice.append(starts[index])
                continue
            kept.append(index)
        self._columns = [array("q", (column[index] for index in kept)) for column in self._columns]
        return twice

    def find(self, start: int) -> TableFile | None:
        """The file that starts there."""
        index = self._index(start)
        return self._at(index) if self._has(index, start) else None

    def take(self, start: int) -> TableFile | None:
        """The same; `left` does not return it any more. No file may be added after the first call."""
        self._taken = self._taken or bytearray(len(self._columns[0]))
        index = self._index(start)
        if not self._has(index, start):
            return None
        self._taken[index] = 1
        return self._at(index)

    def left(self) -> Iterator[TableFile]:
        """Active files that were never taken."""
        taken = self._taken or bytearray(len(self._columns[0]))
        return (file for file, met in zip(self, taken, strict=True) if file.active and not met)

    def put(self, file: TableFile) -> None:
        """Add or replace a file."""
        index = self._index(file.start)
        found = self._has(index, file.start)
        for column, value in zip(self._columns, _row(file), strict=True):
            if found:
                column[index] = value
            else:
                column.insert(index, value)

    def _index(self, start: int) -> int:
        return bisect_left(self._columns[0], start)

    def _has(self, index: int, start: int) -> bool:
        return index < len(self._columns[0]) and self._columns[0][index] == start

    def _at(self, index: int) -> TableFile:
        start, active, size, records, lowest, highest = (column[index] for column in self._columns)
        return TableFile(start, active == _ACTIVE, size, Stats(records, lowest, highest))


def _row(file: TableFile) -> tuple[int, ...]:
    stats = file.stats
    return file.start, _ACTIVE if file.active else _REMOVED, file.size, stats.records, stats.lowest, stats.highest


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a program must support to read and write the table."""

    reader: int = 1
    writer: int = 1
    features: frozenset[str] = frozenset()  # of readers and writers

    @property
    def unreadable(self) -> str:
        """Why the log does not tell the files of the table; empty: it does."""
        if self.reader > _LATEST_READER:
            return f"it requires reader version {self.reader} of the Delta protocol"
        if found := sorted(self.features & _UNREADABLE_FEATURES):
            return f"it has the table feature {found[0]}, so its commits are in a catalog"
        return ""


@dataclass
class TableState:
    """A version of the table.

    Attributes:
        version: Of the table.
        protocol: Newest.
        configuration: The table properties.
        positions: Last sequence number that the table covers, by owner.
        slots: The consumer's files, by partition.
        vectors: The deletion vectors of active files of the consumer, as in the log.
        others: Rows of each active file of other programs, by a hash of path and deletion vector; `UNKNOWN`: no count.
        findings: What is wrong with the actions.
    """

    version: int = -1
    protocol: Protocol = Protocol()
    configuration: dict[str, str] = field(default_factory=dict)
    positions: dict[Owner, int] = field(default_factory=dict)
    slots: dict[ChainKey, TableSlots] = field(default_factory=dict)
    vectors: dict[tuple[ChainKey, int], Action] = field(default_factory=dict)
    others: dict[int, int] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)

    def find(self, place: ChainKey, start: int) -> TableFile | None:
        """One of the consumer's files, if the table has or had it."""
        slots = self.slots.get(place)
        return slots.find(start) if slots else None

    def is_active(self, place: ChainKey, start: int) -> bool:
        """Whether the table has this file."""
        file = self.find(place, start)
        return file is not None and file.active

    @property
    def rows(self) -> int | None:
        """Rows of the table; None: the log does not give the number of each file."""
        counts = [file.stats.records for slots in self.slots.values() for file in slots if file.active]
        if UNKNOWN in counts or UNKNOWN in self.others.values():
            return None
        deleted = sum(int(vector.get("cardinality") or 0) for vector in self.vectors.values())
        return sum(counts) + sum(self.others.values()) - deleted

    def load(self, actions: Iterator[Action]) -> None:
        """Read a part of a checkpoint, whose actions are reconciled; call `settle` after the last part.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: An action is malformed.
        """
        for action in actions:
            self._set(action)
            if add := action.get("add"):
                self._load(_logical(add), _file_of(add, active=True), add)
            elif remove := action.get("remove"):
                self._load(_logical(remove), _file_of(remove, active=False), remove)
        self._check_size()

    def settle(self, version: int) -> None:
        """End the checkpoint of this version."""
        self.version = version
        for place, slots in self.slots.items():
            for start in slots.settle():
                self._twice(place, start, f"the checkpoint of version {version} has it twice")

    def apply(self, version: int, actions: Iterable[Action]) -> None:
        """Apply the commit of the next version.

        Args:
            version: The version.
            actions: Its actions, which are iterated several times.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: An action is malformed.
        """
        restores = any((action.get("commitInfo") or {}).get("operation") == "RESTORE" for action in actions)
        removed: set[tuple[ChainKey, int]] = set()
        for remove in (action["remove"] for action in actions if action.get("remove")):
            self._remove(_logical(remove), remove, removed)
        added: set[tuple[ChainKey, int]] = set()
        for add in (action["add"] for action in actions if action.get("add")):
            self._add(version, add, removed=removed, added=added, restores=restores)
        for action in actions:
            self._set(action, version)
        self._check_size()
        self.version = version

    def _check_size(self) -> None:
        own = sum(map(len, self.slots.values())) + len(self.positions)
        if own + OTHER_WEIGHT * (len(self.others) + len(self.vectors)) > MOST_FILES:
            raise ValueError(f"the table has more than {MOST_FILES} files, or a quarter of that of other programs")

    def _set(self, action: Action, version: int | None = None) -> None:
        """Apply an action that is about no file; without a version, one of a checkpoint."""
        if txn := action.get("txn"):
            owner = _owner(_text(txn["appId"]))
            if owner is not None:
                position = _number(txn["version"])
                before = self.positions.get(owner)
                if version is not None and before is not None and position < before:
                    text = f"version {version} of the table sets its position from {before} back to {position}"
                    self.findings.add(Code.TABLE_POSITION_WRONG, text, owner[1:])
                self.positions[owner] = position
        elif protocol := action.get("protocol"):
            features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
            reader, writer = _number(protocol["minReaderVersion"]), _number(protocol["minWriterVersion"])
            self.protocol = Protocol(reader, writer, frozenset(map(_text, features)))
        elif metadata := action.get("metaData"):
            properties = dict(metadata.get("configuration") or {})  # a checkpoint has pairs
            self.configuration = {str(key): str(value) for key, value in properties.items()}

    def _load(self, logical: Logical, file: TableFile, action: Action) -> None:
        key = _slot(logical[0])
        if key is None:
            if file.active:
                self.others[digest("\n".join(logical))] = _rows(action, file.stats)
            return
        self.slots.setdefault(key[0], TableSlots()).append(replace(file, start=key[1]))
        if file.active and action.get("deletionVector"):
            self.vectors[key] = action["deletionVector"]

    def _remove(self, logical: Logical, remove: Action, removed: set[tuple[ChainKey, int]]) -> None:
        key = _slot(logical[0])
        if key is None:
            self.others.pop(digest("\n".join(logical)), None)
            return
        place, start = key
        found = self.find(place, start)
        if found and found.active and vector_id(self.vectors.get(key)) != logical[1]:
            return  # another logical file: this one stays
        self.vectors.pop(key, None)
        if found and found.active:
            removed.add(key)
        gone = replace(found, active=False) if found else _file_of(remove, active=False)
        self.slots.setdefault(place, TableSlots()).put(replace(gone, start=start))

    def _add(
        self,
        version: int,
        add: Action,
        *,
        removed: set[tuple[ChainKey, int]],
        added: set[tuple[ChainKey, int]],
        restores: bool,
    ) -> None:
        logical, file = _logical(add), _file_of(add, active=True)
        key = _slot(logical[0])
        if key is None:
            self.others[digest("\n".join(logical))] = _rows(add, file.stats)
            return
        place, start = key
        found = self.find(place, start)
        if key in added:
            self._twice(place, start, f"version {version} of the table adds it twice")
        elif found and found.active and bool(add.get("dataChange", True)):
            self._twice(place, start, f"version {version} of the table adds it, but the table had it")
        elif found and not found.active and key not in removed and not restores:
            self._twice(place, start, f"version {version} of the table adds it, but it was removed before")
        added.add(key)
        self.slots.setdefault(place, TableSlots()).put(replace(file, start=start))
        if vector := add.get("deletionVector"):
            self.vectors[key] = vector
        else:
            self.vectors.pop(key, None)

    def _twice(self, place: ChainKey, start: int, text: str) -> None:
        self.findings.add(Code.TABLE_FILE_TWICE, f"file from {start}: {text}", place)


def vector_id(vector: Action | None) -> str:
    """The unique id of a deletion vector; empty: none. Source: "Deletion Vector Descriptor Schema" in the protocol."""
    if not vector:
        return ""
    offset = vector.get("offset")
    identity = f"{_text(vector['storageType'])}{_text(vector['pathOrInlineDv'])}"
    return identity if offset is None else f"{identity}@{offset}"


def path_of(place: ChainKey, start: int) -> str:
    """The path of a file in the log."""
    return f"segment={place[0]}/partition={place[1]}/from={start:020d}.parquet"


def _slot(path: str) -> tuple[ChainKey, int] | None:
    name = names.parse(path)
    if isinstance(name, names.SlotName) and name.extension == "parquet":
        return (name.segment_id, name.partition), name.start
    return None


def _logical(action: Action) -> Logical:
    # The path is a URI. Source: "Add File and Remove File" in the protocol.
    return unquote(_text(action["path"])), vector_id(action.get("deletionVector"))


def _file_of(action: Action, *, active: bool) -> TableFile:
    size = action.get("size")
    stats = stats_of(action) if active else Stats()
    return TableFile(0, active, UNKNOWN if size is None else _number(size), stats)


def stats_of(add: Action) -> Stats:
    """The statistics of an `add`: in JSON, or as a struct in some checkpoints. What cannot be read is unknown."""
    try:
        values = json.loads(add["stats"]) if add.get("stats") else add.get("stats_parsed")
    except (ValueError, TypeError, RecursionError):
        values = None
    if not isinstance(values, Mapping):
        return Stats()

    def number(value: object) -> int:
        try:
            return _number(value)
        except ValueError:
            return UNKNOWN

    def bound(key: str) -> int:
        columns = values.get(key)
        return number(columns.get("sequence_number")) if isinstance(columns, Mapping) else UNKNOWN

    return Stats(number(values.get("numRecords")), bound("minValues"), bound("maxValues"))


def _rows(action: Action, stats: Stats) -> int:
    vector = action.get("deletionVector") or {}
    return UNKNOWN if stats.records == UNKNOWN else stats.records - int(vector.get("cardinality") or 0)


def _owner(app: str) -> Owner | None:
    parts = app.split("/")
    return (parts[1], parts[2], parts[3]) if parts[0] == APP and len(parts) == 4 else None


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a 64-bit number that is 0 or more"[:200])
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text"[:200])
    return value
