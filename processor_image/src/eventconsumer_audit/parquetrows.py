"""In the child of `confined`: rows of the Parquet files that the audit reads. A column is decompressed page by page.

It imports nothing that takes time or memory besides Arrow, which has to be there before the child has its limits.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_audit.tablerows import emit_needed
from eventconsumer_storage.confined.child import Readable

ROWS = 10_000  # in memory
_READ_BYTES = 1024**2  # of a column at once
_TEXT = 200  # characters of a value in the metadata, or of the names of columns, that are returned
# Struct columns are named by their fields, so that partition values, tags and most statistics are not decoded.
_COLUMNS = (
    "txn.appId", "txn.version", "protocol", "metaData.configuration", "sidecar.path",
    "add.path", "add.size", "add.stats", "add.deletionVector", "add.stats_parsed.numRecords",
    "add.stats_parsed.minValues.sequence_number", "add.stats_parsed.maxValues.sequence_number",
    "remove.path", "remove.size", "remove.deletionVector",
)  # fmt: skip


def checkpoint(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """The actions of a checkpoint of the table, or of one of its parts: see `tablerows`."""
    with _opened(sources[0]) as file:
        for batch in file.iter_batches(ROWS, columns=list(_COLUMNS), use_threads=False):
            for kind in batch.schema.names:
                column = batch.column(kind)
                for action in column.filter(column.is_valid()).to_pylist():
                    emit_needed({kind: action}, emit)


def numbers(
    sources: Sequence[Readable],
    emit: Callable[[bytes], None],
    columns: Sequence[str],
    keys: Sequence[str],
    partition: str,
) -> dict[str, Any]:
    """The sequence numbers of a file, as signed numbers of 64 bits in network order.

    Args:
        sources: The file.
        emit: Takes the numbers.
        columns: The names of its columns.
        keys: Of the metadata that is returned.
        partition: The partition of its rows.

    Returns:
        `metadata`; `columns`, where they are others; whether there are rows of another partition: `foreign`.
    """
    foreign = False
    with _opened(sources[0]) as file:
        names = file.schema_arrow.names
        recorded = {
            key.decode(): value for key, value in (file.metadata.metadata or {}).items() if key.decode() in keys
        }
        for batch in file.iter_batches(ROWS, columns=["sequence_number", "partition_id"], use_threads=False):
            foreign = foreign or any(value != partition for value in batch.column("partition_id").unique().to_pylist())
            found = batch.column("sequence_number").to_pylist()
            emit(struct.pack(f">{len(found)}q", *found))
    return {
        "metadata": {key: value[:_TEXT].decode(errors="replace") for key, value in recorded.items()},
        "columns": None if names == list(columns) else ", ".join(names)[:_TEXT],
        "foreign": foreign,
    }


def _opened(source: Readable) -> pq.ParquetFile:
    return pq.ParquetFile(pa.PythonFile(source, "r"), buffer_size=_READ_BYTES)
