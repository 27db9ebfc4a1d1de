"""In the child of `confined`: rows of the Avro files that the audit reads."""

import io
import struct
from collections.abc import Callable, Sequence
from typing import Any

import fastavro

from eventconsumer_storage.confined.child import Readable

_READ_BYTES = 1024**2


def numbers(sources: Sequence[Readable], emit: Callable[[bytes], None]) -> dict[str, Any]:
    """The sequence numbers of a file, as signed numbers of 64 bits in network order."""
    for row in fastavro.reader(io.BufferedReader(sources[0], _READ_BYTES)):
        emit(struct.pack(">q", row["SequenceNumber"]))
    return {}
