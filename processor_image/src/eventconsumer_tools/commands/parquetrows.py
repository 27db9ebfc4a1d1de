"""In the child of `confined`: the rows of a Parquet file of a host. A column is decompressed page by page."""

import json
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventconsumer_storage.confined.child import Readable

_ROWS = 10_000  # in memory
_BODIES = 16  # in memory: each may have a megabyte
_READ_BYTES = 1024**2  # of a column at once


def rows(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """Number, offset and enqueued time (milliseconds since 1970) of each row, as JSON, one in each line."""
    columns = ["sequence_number", "offset", "enqueued_time"]
    with pq.ParquetFile(pa.PythonFile(sources[0], "r"), buffer_size=_READ_BYTES) as file:
        for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
            found = (batch.column("sequence_number"), batch.column("offset"), _milliseconds(batch))
            for row in zip(*(column.to_pylist() for column in found), strict=True):
                emit(json.dumps(row).encode() + b"\n")


def errors(
    sources: Sequence[Readable], emit: Callable[[bytes], None], *, error: str, rows: int, groups: int, size: int
) -> None:
    """Why bodies do not fit their columns: a column is not null. As JSON, one value in each line.

    Args:
        sources: The file.
        emit: Receives the number of errors. Then, for each error: it, the number of events, the last sequence number;
            null for all that are more than `groups`. Then, for each of the last events: sequence number, enqueued time
            (milliseconds since 1970), error.
        error: The name of the column.
        rows: The number of events.
        groups: The number of errors.
        size: Characters of an error, at most.
    """
    counts: dict[str | None, tuple[int, int]] = {}
    last = deque[tuple[int, int, str]](maxlen=rows)
    columns = ["sequence_number", "enqueued_time", error]
    with pq.ParquetFile(pa.PythonFile(sources[0], "r"), buffer_size=_READ_BYTES) as file:
        for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
            wrong = batch.filter(pc.is_valid(batch.column(error)))
            found = (wrong.column("sequence_number"), _milliseconds(wrong), wrong.column(error))
            for number, time, text in zip(*(column.to_pylist() for column in found), strict=True):
                cause = text[:size]
                last.append((number, time, cause))
                group = cause if cause in counts or len(counts) < groups else None
                counts[group] = counts.get(group, (0, 0))[0] + 1, number
    emit(b"%d\n" % len(counts))
    for group, (events, number) in counts.items():
        emit(json.dumps([group, events, number]).encode() + b"\n")
    for row in last:
        emit(json.dumps(row).encode() + b"\n")


def _milliseconds(batch: pa.RecordBatch) -> pa.Array:
    return batch.column("enqueued_time").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())


def bodies(sources: Sequence[Readable], emit: Callable[[bytes], None], *, events: int, size: int) -> None:
    """Number and body, in base64, of the first rows, as JSON, one in each line: at most `events`, of `size` bytes."""
    columns = ["sequence_number", "body"]
    with pq.ParquetFile(pa.PythonFile(sources[0], "r"), buffer_size=_READ_BYTES) as file:
        for batch in file.iter_batches(_BODIES, columns=columns, use_threads=False):
            for number, body in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                size -= len(body or b"")
                if events == 0 or size < 0:
                    return
                events -= 1
                emit(json.dumps([number, None if body is None else b64encode(body).decode()]).encode() + b"\n")
