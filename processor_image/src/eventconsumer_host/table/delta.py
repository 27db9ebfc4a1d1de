"""The log of a Delta table: names of its blobs, the actions of hosts, and the state that they need. Pure.

Source: "PROTOCOL.md" of github.com/delta-io/delta ("the protocol" below). A version of the table is one blob of actions
in JSON, one action in each line; a reader applies all versions in order, or begins with a checkpoint. The table's root
is the folder of the files, so the path of a file in an action is its name below that folder.

The table is its own record of what hosts have registered. `txn` actions hold, for each partition of a segment, the last
sequence number that the table covers, and for the chain the totals. A version is written only if it does not exist, by
a writer that knows all versions before it. So of two writers one fails, and no file is registered twice or left out.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from eventconsumer_api.spec.column_types import parse_type
from eventconsumer_api.wire.columns_record import ColumnsOfFile, ColumnsRecord, parse_statistics
from eventconsumer_api.wire.file_columns import COLUMNS, ERROR, Column, delta_schema
from eventconsumer_host.sink.slots import Slot
from eventconsumer_host.table import protocol as delta_protocol
from eventconsumer_host.table.actions import logical_file, path_of

LOG_FOLDER = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"
_DIGITS = 20
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"(\d{20})\.checkpoint"
    r"(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<uuid>[0-9a-fA-F-]{36}))?"
    r"\.(?P<suffix>parquet|json)"
)
ENGINE = "EventConsumer"
_FOREVER = "interval 36500 days"
MOST_TRANSACTIONS = 100_000  # applications in the state: 2,000 partitions in each of 50 segments

_STATISTICS = "delta.dataSkippingStatsColumns"
PROPERTIES: Mapping[str, str] = {
    # VACUUM deletes files that the table does not use any more, after this time. It must not delete a file of the
    # chain: its name could be written again. Spark and delta-rs refuse a shorter time in the command.
    "delta.deletedFileRetentionDuration": _FOREVER,
    # Old versions of the log are removed after a checkpoint. A stream continues at the version after its last one, so
    # this is the time for which it may stop.
    "delta.logRetentionDuration": "interval 7 days",
    "delta.checkpointInterval": "100",  # of other writers; the default of 10 is for large commits
    _STATISTICS: ",".join(each.name for each in COLUMNS if each.statistics),  # of other writers
}
"""Properties of a new table."""


@dataclass(frozen=True, slots=True)
class LogName:
    """The name of a blob of the log.

    Attributes:
        version: Its version.
        checkpoint: Whether it is a checkpoint, or a part of one; else a commit.
        part: Number of the part, from 1, and number of parts; None: the whole checkpoint.
        json: Whether a checkpoint is JSON.
    """

    version: int
    checkpoint: bool = False
    part: tuple[int, int] | None = None
    json: bool = False


def parse_name(name: str) -> LogName | None:
    """The meaning of a name in the folder of the log; None: neither a commit nor a checkpoint."""
    if match := _COMMIT.fullmatch(name):
        return LogName(int(match[1]))
    if match := _CHECKPOINT.fullmatch(name):
        part = (int(match["part"]), int(match["parts"])) if match["part"] else None
        return LogName(int(match[1]), True, part, match["suffix"] == "json")
    return None


def parse_last_checkpoint(data: bytes) -> int:
    """The version that `_last_checkpoint` names; -1: none. A damaged one names none: it is a hint for readers."""
    try:
        version = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return version if isinstance(version, int) and not isinstance(version, bool) else -1


def version_name(version: int) -> str:
    """Name of a version in the folder of the log."""
    return f"{version:0{_DIGITS}d}.json"


def checkpoint_name(version: int) -> str:
    """Name of a checkpoint in one file."""
    return f"{version:0{_DIGITS}d}.checkpoint.parquet"


@dataclass(frozen=True, slots=True)
class TablePartition:
    """One partition of one segment of the chain."""

    segment_id: str
    partition: str


@dataclass(frozen=True)
class TableState:
    """The part of the table's state that hosts need, after `version`.

    Attributes:
        version: The last version that was applied; -1: there is no table.
        transactions: Version of each application (`txn`).
        protocol: The protocol action; None: none was seen.
        metadata: The metaData action; None: none was seen.
        watched: Paths of files that may be removed.
        files: The `add` of those that the table has, by path and deletion vector.
    """

    version: int = -1
    transactions: Mapping[str, int] = field(default_factory=dict)
    protocol: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    watched: frozenset[str] = frozenset()
    files: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)

    def after(self, version: int, actions: Iterable[Mapping[str, Any]]) -> "TableState":
        """The state after the actions of `version`.

        Raises:
            ValueError: An action cannot be parsed.
        """
        transactions, files = dict(self.transactions), dict(self.files)
        protocol, metadata = self.protocol, self.metadata
        try:
            for action in actions:
                if found := action.get("txn"):
                    transactions[str(found["appId"])] = int(found["version"])
                protocol = action.get("protocol") or protocol
                metadata = action.get("metaData") or metadata
                if (file := action.get("remove")) and path_of(file) in self.watched:
                    files.pop(logical_file(path_of(file), file.get("deletionVector")), None)
                if (file := action.get("add")) and path_of(file) in self.watched:
                    files[logical_file(path_of(file), file.get("deletionVector"))] = file
                if len(transactions) > MOST_TRANSACTIONS:
                    raise ValueError(f"it names more than {MOST_TRANSACTIONS} applications (txn)")
            _check_types(protocol or {}, metadata or {})
        except (AttributeError, KeyError, OverflowError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        return TableState(version, transactions, protocol, metadata, self.watched, files)

    def covered(self, chain: str, place: TablePartition) -> int | None:
        """The last sequence number of a partition that the table covers; None: none yet."""
        return self.transactions.get(_application(chain, place.segment_id, place.partition))

    def total(self, chain: str, what: str) -> int:
        """The total of `files` or `events` that the table covers, all partitions."""
        return self.transactions.get(_application(chain, what), 0)

    @property
    def unsupported(self) -> str:
        """The part of the table that a host must not write to, for a message; empty: none."""
        if self.protocol is None or self.metadata is None:
            return "a log without protocol and metaData"
        features = self.protocol.get("writerFeatures") or ()
        if reason := delta_protocol.unsupported(self.protocol.get("minWriterVersion"), features):
            return reason
        if self.metadata.get("partitionColumns"):
            return "partition columns"
        configuration = self.metadata.get("configuration") or {}
        if constraints := [key for key in configuration if key.startswith("delta.constraints.")]:
            return f"the constraint {constraints[0].removeprefix('delta.constraints.')}"
        text = str(self.metadata.get("schemaString"))
        return next((key for key in ("delta.invariants", "delta.generationExpression") if key in text), "")

    def with_columns(self, columns: Iterable[Column], bounded: Iterable[str]) -> Mapping[str, Any] | None:
        """The metaData action of a table that has these columns, too; None: it has them already.

        Columns are only added, behind those that are there, whoever added them.

        Args:
            columns: The columns.
            bounded: Names of those whose bounds other writers are to tell, too.

        Raises:
            ValueError: The table has a column of this name and another type, or its schema cannot be read.
        """
        metadata = dict(self.metadata or {})
        try:
            schema = json.loads(str(metadata.get("schemaString")))
            there = {str(field["name"]).lower(): (field["name"], field["type"]) for field in schema["fields"]}
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"its schema cannot be read ({type(error).__name__}: {error})") from None
        added: list[Column] = []
        for column in columns:
            found = there.get(column.name.lower())
            if found is None:
                added.append(column)
            elif found != (column.name, column.type):
                raise ValueError(
                    f"it has the column {found[0]} with type {_shown(found[1])}, and files have {column.name} with "
                    f"type {_shown(column.type)}"
                )
        if not added:
            return None
        schema["fields"] += delta_schema(added)["fields"]
        configuration = dict(metadata.get("configuration") or {})
        if _STATISTICS in configuration:
            names = {each.name for each in added}
            more = [name for name in bounded if name in names]
            configuration[_STATISTICS] = ",".join(filter(None, (configuration[_STATISTICS], *more)))
        kept = {key: value for key, value in metadata.items() if value is not None}
        return kept | {"schemaString": json.dumps(schema, separators=(",", ":")), "configuration": configuration}

    @property
    def keeps_files(self) -> str:
        """Why no file may be removed from the table; empty: files may be removed."""
        protocol, metadata = self.protocol or {}, self.metadata or {}
        features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
        if what := delta_protocol.unsupported(protocol.get("minWriterVersion"), features):
            return (
                f"the Delta table has {what}, which hosts do not support: delete old rows with DELETE in Spark, or "
                "remove the feature with ALTER TABLE ... DROP FEATURE"
            )
        if str((metadata.get("configuration") or {}).get("delta.appendOnly", "")).lower() == "true":
            return "the property delta.appendOnly of the Delta table is true: set it to false to delete old rows"
        return ""

    @property
    def log_retention(self) -> timedelta | None:
        """For how long versions before a checkpoint are kept; None: forever, or a duration that is not understood."""
        configuration = (self.metadata or {}).get("configuration") or {}
        if str(configuration.get("delta.enableExpiredLogCleanup", "true")).lower() != "true":
            return None
        return duration(str(configuration.get("delta.logRetentionDuration", "interval 30 days")))


def _check_types(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
    """Verify the parts that are read later.

    Raises:
        AttributeError: A part is no object.
        TypeError: A part has another type.
    """
    parts = (
        (protocol.get("writerFeatures") or [], list),
        (protocol.get("readerFeatures") or [], list),
        (metadata.get("configuration") or {}, dict),
    )
    for part, kind in parts:
        if not isinstance(part, kind):
            raise TypeError(f"{part!r} is no {kind.__name__}")
    features = (*(protocol.get("writerFeatures") or ()), *(protocol.get("readerFeatures") or ()))
    for text in (*features, *(metadata.get("configuration") or ())):
        if not isinstance(text, str):
            raise TypeError(f"{text!r} is no text")


_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def duration(text: str) -> timedelta | None:
    """An interval of Delta such as `interval 30 days`; None: it has another form, or is longer than 100,000 days."""
    match = re.fullmatch(r"(?:interval\s+)?(\d{1,12})\s+(second|minute|hour|day|week)s?", text.strip().lower())
    if match is None:
        return None
    seconds = int(match[1]) * _UNITS[match[2]]
    return timedelta(seconds=seconds) if seconds <= 100_000 * 86_400 else None


def new_table(table_id: str, now: datetime) -> bytes:
    """Version 0: an empty table with the columns of the files, which every reader of Delta can read."""
    return _lines(
        [
            _commit_info(now, "CREATE TABLE", {}),
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {
                "metaData": {
                    "id": table_id,
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps(delta_schema(COLUMNS), separators=(",", ":")),
                    "partitionColumns": [],
                    "configuration": dict(PROPERTIES),
                    "createdTime": _milliseconds(now),
                }
            },
        ]
    )


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"))


@dataclass(frozen=True)
class FileColumns:
    """The columns of bodies in a file.

    Attributes:
        columns: In the order of the file; they end with `ERROR`.
        statistics: Those that have some, by name: see `body.statistics`.
    """

    columns: tuple[Column, ...] = ()
    statistics: Mapping[str, tuple[int, Any, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, slot: Slot, record: ColumnsRecord) -> "FileColumns | None":
        """The columns of a file; None: the record does not have them.

        Raises:
            ValueError: The metadata of the slot or the record cannot be read.
        """
        if not slot.columns:
            return cls()
        of_file = ColumnsOfFile.parse(slot.columns)
        columns = of_file.among(record)
        if columns is None:
            return None
        names = {number: each.name for number, each in zip(of_file.numbers, columns, strict=True)}
        found = parse_statistics(slot.statistics)
        if not found.keys() <= names.keys():
            raise ValueError("there are statistics of other columns than the file has")
        typed = (Column(each.name, parse_type(each.type), "") for each in columns)
        return cls((*typed, ERROR), {names[number]: facts for number, facts in found.items()})


@dataclass(frozen=True)
class TableCommit:
    """One commit: files to register, in chain order in each partition.

    Attributes:
        chain: Identity of the chain.
        slots: Files by partition, each of which begins where the table ends.
        files: Total of files that the table covers then.
        events: Total of events that it covers then.
        columns: The columns of bodies in the files, by path; absent: none.
        metadata: The metaData action of a table that gets columns with these files; None: it has them.
    """

    chain: str
    slots: Mapping[TablePartition, tuple[Slot, ...]]
    files: int
    events: int
    columns: Mapping[str, FileColumns] = field(default_factory=dict)
    metadata: Mapping[str, Any] | None = None

    def actions(self, root: str, now: datetime) -> Iterator[dict[str, Any]]:
        """Its actions.

        Args:
            root: The folder of the files, with a slash at its end.
            now: Wall clock.
        """
        yield _commit_info(now, "WRITE", {"mode": "Append", "partitionBy": "[]"})
        if self.metadata is not None:
            yield {"metaData": dict(self.metadata)}
        updated = _milliseconds(now)
        totals = (
            (_application(self.chain, what), total) for what, total in (("files", self.files), ("events", self.events))
        )
        ends = (
            (_application(self.chain, place.segment_id, place.partition), slots[-1].last)
            for place, slots in self.slots.items()
        )
        for application, version in (*totals, *ends):
            yield {"txn": {"appId": application, "version": version, "lastUpdated": updated}}
        for place, slots in self.slots.items():
            # Files that were pruned have no events any more, and others never had: the handler dropped all. The table
            # covers them, and has no rows of them.
            for slot in slots:
                if slot.count and not slot.tombstone:
                    yield _add(slot, place.partition, root, self.columns.get(slot.path, FileColumns()))

    def content(self, root: str, now: datetime) -> bytes:
        """The blob of its version; see `actions`."""
        return _lines(self.actions(root, now))


def removal(state: TableState, now: datetime) -> bytes:
    """A version that removes the watched files that the table has.

    Args:
        state: The table before it.
        now: Wall clock.
    """
    actions: list[Mapping[str, Any]] = [_commit_info(now, "DELETE", {"predicate": "[]"})]
    for file in state.files.values():
        facts = {"deletionTimestamp": _milliseconds(now), "dataChange": True, "extendedFileMetadata": True}
        actions.append({"remove": {"partitionValues": {}, **file, **facts}})
    return _lines(actions)


def _application(chain: str, *parts: str) -> str:
    return "/".join(("eventconsumer", chain, *parts))


def _commit_info(now: datetime, operation: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    facts = {"timestamp": _milliseconds(now), "operation": operation, "operationParameters": dict(parameters)}
    return {"commitInfo": {**facts, "isBlindAppend": operation == "WRITE", "engineInfo": ENGINE}}


def _add(slot: Slot, partition: str, root: str, columns: FileColumns) -> dict[str, Any]:
    least: dict[str, Any] = {"partition_id": partition}
    greatest: dict[str, Any] = {"partition_id": partition}
    if not slot.dropped:  # else the first or the last event may have no row, and bounds must not be wider than the rows
        least["sequence_number"], greatest["sequence_number"] = slot.first, slot.last
    if slot.enqueued is not None:  # of older files, readers have no statistics of the time, and read all of them
        least["enqueued_time"] = _timestamp(slot.enqueued.earliest)
        greatest["enqueued_time"] = _timestamp(slot.enqueued.latest)
    nulls = dict.fromkeys(least, 0)
    for name, (count, low, high) in columns.statistics.items():
        nulls[name] = count
        if low is not None:
            least[name], greatest[name] = low, high
    stats = {"numRecords": slot.count, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return {
        "add": {
            "path": slot.path.removeprefix(root),
            "partitionValues": {},
            "size": slot.size,
            "modificationTime": _milliseconds(slot.committed_at),
            "dataChange": True,
            "stats": json.dumps(stats, separators=(",", ":"), ensure_ascii=False),
        }
    }


def _timestamp(time: datetime) -> str:
    """A time in statistics, which the protocol cuts to milliseconds; enqueued times have no more digits."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def _lines(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """A version. Characters are not escaped: delta-rs 1.6 reads those of U+20000 and above as others then."""
    texts = (json.dumps(action, separators=(",", ":"), ensure_ascii=False) for action in actions)
    return b"".join(text.encode(errors="backslashreplace") + b"\n" for text in texts)
