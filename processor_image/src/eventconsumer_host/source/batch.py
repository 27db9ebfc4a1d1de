"""Events as columns: the form in which a source, the pump and the sink pass events.

An `EventBatch` is an Arrow record batch, so no object exists per event: counting, slicing and encoding cost the same
for every receiver, and a slice shares the memory of its batch. Code that needs single events uses `rows`. A source may
deliver an event again; `rising` and `after` drop the repeated events.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventconsumer_api.wire import file_columns
from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_host.source.lastenqueued import LastEnqueued
from eventconsumer_host.source.rows import EVENT_OVERHEAD_BYTES, EventRows, FlatMap
from eventconsumer_host.source.schema import arrow_schema

KINDS = {"properties": "property_kinds", "system_properties": "system_property_kinds"}
"""Column of maps -> column of a `rows.PropertyKind` per value."""
COLUMNS = pa.schema(
    [
        *arrow_schema((each for each in file_columns.COLUMNS if each.name != "partition_id"), unit="ms"),
        *(pa.field(name, pa.list_(pa.uint8())) for name in KINDS.values()),
        pa.field("size", pa.int64()),  # bytes of body, key and properties, plus the overhead
    ]
)
"""The columns of a file, but for its partition, and what files do not contain."""


class EventBatch:
    """Events of one partition, in sequence order; immutable.

    Attributes:
        columns: The record batch with the schema `COLUMNS`.
        numbers: Sequence numbers.
        sizes: Bytes of each event.
        last_enqueued: Runtime metrics of the last event or a later one, if they were requested.
    """

    __slots__ = ("columns", "last_enqueued", "numbers", "sizes")

    def __init__(self, columns: pa.RecordBatch, last_enqueued: LastEnqueued | None = None) -> None:
        self.columns = columns
        self.last_enqueued = last_enqueued
        self.numbers: npt.NDArray[np.int64] = columns.column("sequence_number").to_numpy()
        self.sizes: npt.NDArray[np.int64] = columns.column("size").to_numpy()

    @classmethod
    def of(cls, rows: EventRows) -> "EventBatch":
        """Create a batch from rows."""
        return cls.of_columns(columns_of(rows))

    @classmethod
    def of_columns(cls, values: Mapping[str, Any], last_enqueued: LastEnqueued | None = None) -> "EventBatch":
        """Create a batch from columns.

        Args:
            values: An array, no slice of another one, or a list for each column; the size may be absent.
            last_enqueued: Runtime metrics.
        """
        fields = (field for field in COLUMNS if field.name != "size" or "size" in values)
        arrays = {
            field.name: column if isinstance(column := values[field.name], pa.Array) else pa.array(column, field.type)
            for field in fields
        }
        arrays.setdefault("size", sizes_of(arrays))
        return cls(pa.RecordBatch.from_arrays(list(arrays.values()), schema=COLUMNS), last_enqueued)

    @classmethod
    def joined(cls, batches: "Sequence[EventBatch]") -> "EventBatch":
        """Consecutive batches as one batch; copies the events."""
        return cls(pa.concat_batches([batch.columns for batch in batches]), batches[-1].last_enqueued)

    def noting(self, last_enqueued: LastEnqueued | None) -> "EventBatch":
        """The same events, with runtime metrics."""
        return EventBatch(self.columns, last_enqueued)

    def rows(self) -> EventRows:
        """The events as lists, which creates objects per event; not cached."""
        names = ("sequence_number", "offset", "enqueued_time", "partition_key", "body")
        number, offset, time, key, body = (self.columns.column(name) for name in names)
        own = (self.columns.column(name).to_pylist() for name in ("content_type", "message_id", "correlation_id"))
        return EventRows(
            number.to_pylist(),
            offset.to_pylist(),
            time.view(pa.int64()).to_pylist(),
            key.to_pylist(),
            body.to_pylist(),
            self.maps("properties"),
            self.maps("system_properties"),
            *own,
        )

    def maps(self, name: str) -> FlatMap:
        """A column of maps, with the kinds of the values."""
        maps, kinds = self.columns.column(name), self.columns.column(KINDS[name])
        ends = maps.offsets.to_numpy()
        base, count = int(ends[0]), int(ends[-1] - ends[0])
        return FlatMap(
            (ends[1:] - base).tolist(),
            maps.keys.slice(base, count).to_pylist(),
            maps.items.slice(base, count).to_pylist(),
            bytearray(kinds.flatten().to_numpy()),
        )

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def size(self) -> int:
        """Bytes of all events."""
        return int(self.sizes.sum())

    @property
    def first(self) -> int:
        """Sequence number of the first event."""
        return int(self.numbers[0])

    @property
    def last(self) -> int:
        """Sequence number of the last event."""
        return int(self.numbers[-1])

    @property
    def last_offset(self) -> str:
        """Offset of the last event."""
        return str(self.columns.column("offset")[-1].as_py())

    @property
    def last_enqueued_ms(self) -> int:
        """Enqueued time of the last event: milliseconds since 1970, UTC."""
        return int(self.columns.column("enqueued_time")[-1].value)

    @property
    def enqueued_ms(self) -> tuple[int, int]:
        """The earliest and the latest enqueued time: milliseconds since 1970, UTC. The batch is not empty."""
        times = pc.min_max(self.columns.column("enqueued_time").view(pa.int64()))
        return int(times["min"].as_py()), int(times["max"].as_py())

    @property
    def undecoded(self) -> list[int]:
        """Indices of the events that could not be decoded: their body is the whole message."""
        maps = self.columns.column("system_properties")
        ends = maps.offsets.to_numpy()
        names = maps.keys.slice(ends[0], ends[-1] - ends[0])
        if names.index(UNDECODED).as_py() < 0:
            return []
        found = np.flatnonzero(pc.equal(names, UNDECODED)) + ends[0]
        return [int(index) for index in np.searchsorted(ends[1:], found, side="right")]

    def slice(self, start: int, stop: int) -> "EventBatch":
        """The events from `start` up to, but not including, `stop`; shares memory."""
        return EventBatch(self.columns.slice(start, stop - start), self.last_enqueued)

    def rising(self) -> "EventBatch":
        """The events whose sequence number is above all earlier ones, which drops redelivered events."""
        numbers = self.numbers
        if bool(np.all(numbers[1:] > numbers[:-1])):
            return self
        keep = np.concatenate(([True], numbers[1:] > np.maximum.accumulate(numbers)[:-1]))
        return self.take(np.flatnonzero(keep))

    def take(self, indices: "npt.NDArray[np.int64] | Sequence[int]") -> "EventBatch":
        """The events at rising indices; copies them."""
        return EventBatch(self.columns.take(pa.array(indices, pa.int64())), self.last_enqueued)

    def head(self, count: int) -> "EventBatch":
        """The first `count` events; the batch itself if it has no more."""
        return self if count >= len(self) else self.slice(0, count)

    def after(self, sequence_number: int) -> "EventBatch":
        """The events above `sequence_number`; the batch itself if all are. Sequence numbers must rise."""
        start = int(np.searchsorted(self.numbers, sequence_number, side="right"))
        return self.slice(start, len(self)) if start else self


def columns_of(rows: EventRows) -> dict[str, Any]:
    """The columns of rows by name, for `EventBatch.of_columns`."""
    return {
        "sequence_number": rows.sequence_numbers,
        "offset": rows.offsets,
        "enqueued_time": rows.enqueued_ms,
        "partition_key": rows.partition_keys,
        "body": rows.bodies,
        "properties": _map(rows.properties),
        "system_properties": _map(rows.system_properties),
        "content_type": rows.content_types,
        "message_id": rows.message_ids,
        "correlation_id": rows.correlation_ids,
        "property_kinds": _kinds(rows.properties),
        "system_property_kinds": _kinds(rows.system_properties),
    }


def sizes_of(columns: Mapping[str, pa.Array]) -> pa.Int64Array:
    """Bytes of each event's body, key and properties, plus the overhead; the columns must not be slices."""
    sizes = EVENT_OVERHEAD_BYTES + np.diff(_ends(columns["body"])) + np.diff(_ends(columns["partition_key"]))
    for maps in (columns[name] for name in KINDS):
        at = _ends(maps)
        for texts in (maps.keys, maps.items):
            sizes += np.diff(_ends(texts)[at])
    return pa.array(sizes, pa.int64())


def _ends(column: pa.Array) -> npt.NDArray[np.int64]:
    """The start of the first value and the end of each value; the column must not be a slice."""
    count = len(column)
    if not count or column.null_count == count:
        return np.zeros(count + 1, np.int64)
    return np.frombuffer(column.buffers()[1], np.int32, count + 1).astype(np.int64)


def _map(column: FlatMap) -> pa.MapArray:
    offsets = pa.array([0, *column.ends], pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.array(column.keys, pa.string()), pa.array(column.values, pa.string()))


def _kinds(column: FlatMap) -> pa.ListArray:
    kinds = np.frombuffer(column.kinds or bytes(len(column.values)), np.uint8)
    return pa.ListArray.from_arrays(pa.array([0, *column.ends], pa.int32()), pa.array(kinds))
