"""The content of a checkpoint: the whole state of the table at one version, as a Parquet file.

Any writer of the table may have written what is read here, so it runs in the child of `confined` only. It imports
nothing that takes time or memory besides Arrow.

Source: "Checkpoints" and "Action Reconciliation" in the protocol; a checkpoint here is a classic one in one file, which
all readers know. It is made of the previous checkpoint and the versions after it, in blocks, so memory is needed for
the previous checkpoint and for the actions since.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventconsumer_host.table.actions import LINE_BYTES, emit_actions, needed, parse_actions
from eventconsumer_storage.confined.child import Readable, lines

ROWS = 20_000  # of a row group
READ_BYTES = 1024**2  # of a column at once

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    ("tags", _TEXTS),
                    ("deletionVector", _VECTOR),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("extendedFileMetadata", pa.bool_()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("deletionVector", _VECTOR),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", _TEXTS),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)
_FILES = ("add", "remove")


def state_of_parquet(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """In the child: `actions.needed` of a checkpoint, an action in each line."""
    emit_actions(needed(_others(sources[0])), emit)


def encode(sources: Sequence[Readable], emit: Callable[[bytes], None], parts: int) -> dict[str, int]:
    """In the child: encode a checkpoint.

    Args:
        sources: The parts of the previous checkpoint, and then the versions after it, in order.
        emit: Takes the content.
        parts: Number of the parts; 0: there is no previous checkpoint.

    Returns:
        The number of `actions`, and of `files` that the table uses.
    """
    newer, previous = _Newer(), sources[:parts]
    for part in previous:
        newer.apply(_others(part))
    for commit in sources[parts:]:
        newer.apply(_versions(commit))
    tally = {"actions": 0, "files": 0}
    with pa.PythonFile(_Written(emit), "w") as sink, pq.ParquetWriter(sink, SCHEMA, compression="zstd") as file:

        def write(batch: pa.RecordBatch) -> None:
            tally["actions"] += batch.num_rows
            tally["files"] += batch.num_rows - batch.column("add").null_count
            file.write_batch(batch)

        write(_batch(newer.others()))
        touched = pa.array(sorted({path for path, _ in newer.files}), pa.string())
        for part in previous:
            for batch in _batches(part, SCHEMA.names):
                kept = newer.untouched(_fitting(batch), touched)
                if kept.num_rows:
                    write(kept)
        actions = [*newer.files.values()]
        for start in range(0, len(actions), ROWS):
            write(_batch(actions[start : start + ROWS]))
    return tally


def _batches(source: Readable, wanted: Iterable[str]) -> Iterator[pa.RecordBatch]:
    source.seek(0)
    # A column is decompressed page by page. One thread: with several, more of the checkpoint is decoded at a time.
    with pq.ParquetFile(pa.PythonFile(source, "r"), buffer_size=READ_BYTES) as file:
        names = [name for name in file.schema_arrow.names if name in wanted]
        yield from file.iter_batches(ROWS, columns=names, use_threads=False)


def _others(source: Readable) -> Iterator[dict[str, Any]]:
    """The actions of a checkpoint that are not about files."""
    for batch in _batches(source, [name for name in SCHEMA.names if name not in _FILES]):
        for name in batch.schema.names:
            column = batch.column(name)
            values = column.filter(column.is_valid()).to_pylist()
            yield from ({name: _from_arrow(value, column.type)} for value in values)


def _versions(source: Readable) -> Iterator[dict[str, Any]]:
    for line in lines(source, LINE_BYTES):
        yield from parse_actions(line)


class _Written:
    """The part of a writable binary file that Arrow needs."""

    closed = False

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit
        self._written = 0

    def write(self, data: bytes) -> int:
        self._emit(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        self.closed = True


@dataclass
class _Newer:
    """The newest action of each kind and key ("Action Reconciliation" in the protocol)."""

    transactions: dict[str, dict[str, Any]] = field(default_factory=dict)
    single: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def apply(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Add the actions of one version. A null is no action, as in `delta.TableState.after`."""
        for action in actions:
            for name in ("metaData", "protocol"):
                if found := action.get(name):
                    self.single[name] = {name: found}
            if found := action.get("txn"):
                self.transactions[found["appId"]] = {"txn": found}
            for name in _FILES:
                if found := action.get(name):
                    content = {**found, "dataChange": False}  # as Spark writes it: a checkpoint changes no data
                    self.files[_key(content["path"], content.get("deletionVector"))] = {name: content}

    def others(self) -> list[dict[str, Any]]:
        """The actions that are not about files."""
        return [*self.single.values(), *self.transactions.values()]

    def untouched(self, batch: pa.RecordBatch, touched: pa.Array) -> pa.RecordBatch:
        """The rows of an older checkpoint about files on which there is no newer action."""
        wanted = pa.array([False] * batch.num_rows)
        for name in _FILES:
            column = batch.column(name)
            paths = pc.struct_field(column, "path")
            keep = pc.and_(column.is_valid(), pc.invert(pc.is_in(paths, value_set=touched)))
            for row in pc.indices_nonzero(pc.and_(column.is_valid(), pc.is_in(paths, value_set=touched))).to_pylist():
                value = column[row].as_py()
                if _key(value["path"], value["deletionVector"]) not in self.files:
                    keep = pc.or_(keep, pa.array([each == row for each in range(batch.num_rows)]))
            wanted = pc.or_(wanted, keep)
        others = [pa.nulls(batch.num_rows, kind.type) for kind in SCHEMA if kind.name not in _FILES]
        columns = dict(zip([name for name in SCHEMA.names if name not in _FILES], others, strict=True))
        columns |= {name: batch.column(name) for name in _FILES}
        return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA).filter(wanted)


def _key(path: str, vector: Mapping[str, Any] | None) -> tuple[str, str]:
    """A file and its deletion vector: "Deletion Vectors" in the protocol, uniqueId."""
    if not vector:
        return path, ""
    offset = vector.get("offset")
    return path, f"{vector['storageType']}{vector['pathOrInlineDv']}{'' if offset is None else f'@{offset}'}"


def _batch(actions: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    arrays = [
        pa.array([_to_arrow(action.get(field.name), field.type) for action in actions], field.type) for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _fitting(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a checkpoint of any writer that this schema has."""
    if batch.schema.equals(SCHEMA):
        return batch
    arrays = [
        _fit(batch.column(name) if name in batch.schema.names else None, SCHEMA.field(name).type, batch.num_rows)
        for name in SCHEMA.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _fit(array: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    if array is None:
        return pa.nulls(rows, kind)
    if not pa.types.is_struct(kind):
        return array.cast(kind)
    there = {each.name for each in array.type}
    children = [
        _fit(pc.struct_field(array, each.name) if each.name in there else None, each.type, rows) for each in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _from_arrow(value: Any, kind: pa.DataType) -> Any:
    """A value of a checkpoint as JSON has it: Arrow returns maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        return {each.name: _from_arrow(value[each.name], each.type) for each in kind}
    return value


def _to_arrow(value: Any, kind: pa.DataType) -> Any:
    """A value of JSON as Arrow takes it, without the fields that this schema does not have."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [*value.items()]
    if pa.types.is_struct(kind):
        return {each.name: _to_arrow(value.get(each.name), each.type) for each in kind}
    return value
