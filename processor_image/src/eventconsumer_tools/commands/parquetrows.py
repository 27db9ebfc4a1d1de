"""In the child of `confined`: the rows of a Parquet file of a host. A column is decompressed page by page."""

import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_storage.confined.child import Readable

_ROWS = 10_000  # in memory
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
