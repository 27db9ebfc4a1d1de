"""Events as columns: what moves from a source through the pump to the sink.

A batch holds one list per column instead of one object per event, so that slicing, counting and encoding cost the same
for any receiver. Application and system properties are flat: keys and values of all events in a row, and for each event
where its own end. Values are text; their kinds say what they were, for formats that tell 5 from "5". A source may give
an event again; `rising` and `after` drop what is not new.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from operator import lt

EVENT_OVERHEAD_BYTES = 64  # what an event costs besides its body, key and properties


class Kind(IntEnum):
    """What a property's value is the text of."""

    TEXT = 0  # a string, or JSON of a type that no format has: a truth value, a list, a map
    INTEGER = 1  # of 64 bits, signed
    FLOAT = 2
    NULL = 3
    BINARY = 4  # {"$binary":"<base64>"}


@dataclass(slots=True)
class FlatMap:
    """One map per event, flattened: event i has the entries `ends[i-1]` to `ends[i]`."""

    ends: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    kinds: bytearray = field(default_factory=bytearray)  # a `Kind` for each value; empty: all are texts

    def slice(self, start: int) -> "FlatMap":
        """The maps from the event `start` on."""
        base = self.ends[start - 1] if start else 0
        return FlatMap(
            [end - base for end in self.ends[start:]], self.keys[base:], self.values[base:], self.kinds[base:]
        )

    def head(self, count: int) -> "FlatMap":
        """The maps of the first `count` events."""
        entries = self.ends[count - 1] if count else 0
        return FlatMap(self.ends[:count], self.keys[:entries], self.values[:entries], self.kinds[:entries])

    def take(self, indices: Sequence[int]) -> "FlatMap":
        """The maps of the events at `indices`."""
        taken = FlatMap()
        for index in indices:
            entries = slice(self.ends[index - 1] if index else 0, self.ends[index])
            taken.keys += self.keys[entries]
            taken.values += self.values[entries]
            taken.kinds += self.kinds[entries]
            taken.ends.append(len(taken.keys))
        return taken


@dataclass(slots=True)
class EventBatch:
    """Events of one partition, in sequence order."""

    sequence_numbers: list[int] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    enqueued_ms: list[int] = field(default_factory=list)  # milliseconds since 1970, UTC
    partition_keys: list[str | None] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    properties: FlatMap = field(default_factory=FlatMap)
    system_properties: FlatMap = field(default_factory=FlatMap)
    content_types: list[str | None] = field(default_factory=list)
    message_ids: list[str | None] = field(default_factory=list)
    correlation_ids: list[str | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # bytes of body, key and properties, and the overhead

    def __len__(self) -> int:
        return len(self.sequence_numbers)

    @property
    def size(self) -> int:
        """Bytes of all events."""
        return sum(self.sizes)

    def rising(self) -> "EventBatch":
        """The events without any that does not rise above all before it, as redelivered ones do not."""
        numbers = self.sequence_numbers
        if all(map(lt, numbers, numbers[1:])):
            return self
        kept: list[int] = []
        for index, number in enumerate(numbers):
            if not kept or number > numbers[kept[-1]]:
                kept.append(index)
        return EventBatch(
            [self.sequence_numbers[index] for index in kept],
            [self.offsets[index] for index in kept],
            [self.enqueued_ms[index] for index in kept],
            [self.partition_keys[index] for index in kept],
            [self.bodies[index] for index in kept],
            self.properties.take(kept),
            self.system_properties.take(kept),
            [self.content_types[index] for index in kept],
            [self.message_ids[index] for index in kept],
            [self.correlation_ids[index] for index in kept],
            [self.sizes[index] for index in kept],
        )

    def head(self, count: int) -> "EventBatch":
        """The first `count` events; itself where these are all."""
        if count >= len(self):
            return self
        return EventBatch(
            self.sequence_numbers[:count],
            self.offsets[:count],
            self.enqueued_ms[:count],
            self.partition_keys[:count],
            self.bodies[:count],
            self.properties.head(count),
            self.system_properties.head(count),
            self.content_types[:count],
            self.message_ids[:count],
            self.correlation_ids[:count],
            self.sizes[:count],
        )

    def after(self, sequence_number: int) -> "EventBatch":
        """The events above `sequence_number`; itself where all are. Sequence numbers must rise."""
        start = bisect_right(self.sequence_numbers, sequence_number)
        if not start:
            return self
        return EventBatch(
            self.sequence_numbers[start:],
            self.offsets[start:],
            self.enqueued_ms[start:],
            self.partition_keys[start:],
            self.bodies[start:],
            self.properties.slice(start),
            self.system_properties.slice(start),
            self.content_types[start:],
            self.message_ids[start:],
            self.correlation_ids[start:],
            self.sizes[start:],
        )
