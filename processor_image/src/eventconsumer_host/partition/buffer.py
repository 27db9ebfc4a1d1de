"""The buffer of a pump: received events that are not committed yet, and when they must be written to a file.

A handler may have changed or dropped events. Of a dropped event, only the sequence number is kept: the file counts it.

Each chunk costs some kilobytes of memory and some encoding time, however few events it holds. So small chunks are
joined, each event once. The memory of the buffer stays close to the bytes that it counts.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from eventconsumer_api.v1alpha1 import Roll
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host.partition import marks
from eventconsumer_host.sink.gaps import Gap
from eventconsumer_host.source.batch import EventBatch

SMALL_BYTES = 256 * 1024  # smaller chunks are joined
JOINED_BYTES = 1024 * 1024  # small chunks are joined when they reach this size
JOINED_BATCHES = 64  # small chunks are joined when there are this many


@dataclass(slots=True)
class Buffer:
    """Chunks of events of one partition, in sequence order; no chunk is empty."""

    batches: list[EventBatch] = field(default_factory=list)  # rows for the file
    size: int = 0  # bytes, without those of typed columns
    typed_bytes: int = 0  # of the typed columns
    count: int = 0  # events, without dropped ones
    last: int = -1  # sequence number of the last event, kept or dropped, where there is one
    last_offset: str = ""
    last_enqueued_ms: int = 0  # milliseconds since 1970, UTC
    since: float = 0.0  # when the oldest chunk arrived, seconds of the host's clock
    gaps: list[Gap] = field(default_factory=list)  # before and between the events
    _dropped: "array[int]" = field(default_factory=lambda: array("q"))  # sequence numbers, rising
    _small: int = 0  # small chunks at the end, not joined yet
    _small_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.batches or self._dropped)

    @property
    def first(self) -> int:
        """Sequence number of the first event, kept or dropped."""
        return min([batch.first for batch in self.batches[:1]] + self._dropped[:1].tolist())

    @property
    def end(self) -> EventMark:
        """The last event, kept or dropped."""
        return marks.mark_of(self.last, self.last_offset, self.last_enqueued_ms)

    @property
    def dropped(self) -> int:
        """The number of dropped events."""
        return len(self._dropped)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The sequence numbers of all events, kept and dropped; rising."""
        return np.sort(np.concatenate([*(batch.numbers for batch in self.batches), np.array(self._dropped, np.int64)]))

    def add(self, batch: EventBatch, now: float, rows: EventBatch | None = None) -> None:
        """Append a chunk that is not empty.

        Args:
            batch: The events.
            now: The host's clock, seconds.
            rows: The rows for the file in place of the events; events without a row are dropped. None: the events.
        """
        if not self:
            self.since = now
        self.last, self.last_offset, self.last_enqueued_ms = batch.last, batch.last_offset, batch.last_enqueued_ms
        if rows is not None and len(rows) < len(batch):
            numbers = np.setdiff1d(batch.numbers, rows.numbers, assume_unique=True)
            self._dropped.frombytes(numbers.tobytes())
            self.size += numbers.nbytes
        if rows is None or len(rows):
            self._append(batch if rows is None else rows)

    def _append(self, batch: EventBatch) -> None:
        size = batch.size
        if size >= SMALL_BYTES:
            self._join()
        self.batches.append(batch)
        self.size += size
        self.typed_bytes += batch.typed_bytes
        self.count += len(batch)
        if size < SMALL_BYTES:
            self._small += 1
            self._small_bytes += size
            if self._small >= JOINED_BATCHES or self._small_bytes >= JOINED_BYTES:
                self._join()

    def set_gaps(self, gaps: list[Gap]) -> None:
        """Replace the known gaps."""
        self.gaps = [*gaps]

    def add_gaps(self, gaps: list[Gap]) -> None:
        """Append gaps to the known ones."""
        self.gaps += gaps

    def drop_through(self, sequence_number: int) -> None:
        """Drop the events up to and including `sequence_number`."""
        kept = [batch for batch in (batch.after(sequence_number) for batch in self.batches) if len(batch)]
        self.batches = kept
        del self._dropped[: bisect_right(self._dropped, sequence_number)]
        self._small = self._small_bytes = 0
        self.size = sum(batch.size for batch in kept) + self._dropped.itemsize * len(self._dropped)
        self.typed_bytes = sum(batch.typed_bytes for batch in kept)
        self.count = sum(len(batch) for batch in kept)
        self.gaps = [rest for gap in self.gaps if (rest := gap.above(sequence_number))]

    def clear(self) -> None:
        """Drop all events and gaps."""
        self.batches = []
        self._dropped = array("q")
        self.size = self.typed_bytes = self.count = self._small = self._small_bytes = 0
        self.gaps.clear()

    def _join(self) -> None:
        if self._small > 1:
            self.batches[-self._small :] = [EventBatch.joined(self.batches[-self._small :])]
        self._small = self._small_bytes = 0

    def seconds_left(self, roll: Roll, now: float) -> float:
        """Seconds until the buffer must be written to a file; 0: now. The maximum age for an empty buffer."""
        if not self:
            return float(roll.max_seconds)
        if self.size >= roll.max_bytes or self.count >= roll.max_events:
            return 0.0
        return max(0.0, self.since + roll.max_seconds - now)
