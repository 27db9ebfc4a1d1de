"""Events as columns: the form in which a source, the pump and the sink pass events.

An `EventBatch` is an Arrow record batch, so no object exists per event: counting, slicing and encoding cost the same
for every receiver, and a slice shares the memory of its batch. Code that needs single events uses `rows`. A source may
deliver an event again; `rising` and `after` drop the repeated events.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_host.source.lastenqueued import LastEnqueued
from eventconsumer_host.source.rows import EVENT_OVERHEAD_BYTES, EventRows, FlatMap

COLUMNS = pa.schema(
    [
        ("sequence_number", pa.int64()),
        ("offset", pa.string()),
        ("enqueued_time", pa.timestamp("ms", tz="UTC")),
        ("partition_key", pa.string()),
        ("body", pa.binary()),  # null: the message has no body
        ("properties", pa.map_(pa.string(), pa.string())),
        ("system_properties", pa.map_(pa.string(), pa.string())),
        ("content_type", pa.string()),
        ("message_id", pa.string()),
        ("correlation_id", pa.string()),
        ("property_kinds", pa.list_(pa.uint8())),  # a `rows.Kind` per value
        ("system_property_kinds", pa.list_(pa.uint8())),
        ("size", pa.int64()),  # bytes of body, key and properties, plus the overhead
    ]
)


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
        self.numbers: npt.NDArray[np.int64] = columns.column(0).to_numpy()
        self.sizes: npt.NDArray[np.int64] = columns.column(12).to_numpy()

    @classmethod
    def of(cls, rows: EventRows) -> "EventBatch":
        """Create a batch from rows."""
        properties, system = rows.properties, rows.system_properties
        columns: list[Any] = [
            rows.sequence_numbers, rows.offsets, rows.enqueued_ms, rows.partition_keys, rows.bodies,
            _map(properties), _map(system), rows.content_types, rows.message_ids, rows.correlation_ids,
            _kinds(properties), _kinds(system),
        ]  # fmt: skip
        arrays = [
            column if isinstance(column, pa.Array) else pa.array(column, kind)
            for column, kind in zip(columns, COLUMNS.types[:-1], strict=True)
        ]
        return cls(pa.RecordBatch.from_arrays([*arrays, sizes_of(arrays)], schema=COLUMNS))

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
            _flat(self.columns.column("properties"), self.columns.column("property_kinds")),
            _flat(self.columns.column("system_properties"), self.columns.column("system_property_kinds")),
            *own,
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


def sizes_of(columns: Sequence[pa.Array]) -> pa.Int64Array:
    """Bytes of each event's body, key and properties, plus the overhead; the columns must not be slices."""
    _, _, _, key, body, properties, system, *_ = columns
    sizes = EVENT_OVERHEAD_BYTES + np.diff(_ends(body)) + np.diff(_ends(key))
    for maps in (properties, system):
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


def _flat(maps: pa.MapArray, kinds: pa.ListArray) -> FlatMap:
    ends = maps.offsets.to_numpy()
    base, count = int(ends[0]), int(ends[-1] - ends[0])
    return FlatMap(
        (ends[1:] - base).tolist(),
        maps.keys.slice(base, count).to_pylist(),
        maps.items.slice(base, count).to_pylist(),
        bytearray(kinds.flatten().to_numpy()),
    )
