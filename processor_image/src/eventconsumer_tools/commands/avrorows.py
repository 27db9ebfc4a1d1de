"""In the child of `confined`: the rows of an Avro file of a host."""

import io
import json
from collections.abc import Callable, Sequence

import fastavro

from eventconsumer_storage.confined.child import Readable

_READ_BYTES = 1024**2


def rows(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> None:
    """Number, offset and enqueued time (milliseconds since 1970) of each row, as JSON, one in each line."""
    for row in fastavro.reader(io.BufferedReader(sources[0], _READ_BYTES)):
        found = (row["SequenceNumber"], row["Offset"], row["SystemProperties"]["x-opt-enqueued-time"])
        emit(json.dumps(found).encode() + b"\n")
