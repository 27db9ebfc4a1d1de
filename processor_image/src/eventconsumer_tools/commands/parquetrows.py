"""In the child of `confined`: the rows of a Parquet file of a host. A column is decompressed page by page."""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence

import pyarrow as pa
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
            times = batch.column("enqueued_time").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
            found = (batch.column("sequence_number"), batch.column("offset"), times)
            for row in zip(*(column.to_pylist() for column in found), strict=True):
                emit(json.dumps(row).encode() + b"\n")


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
