"""The buffer of a pump: received events that are not committed yet, and when they must be written to a file.

Each chunk costs some kilobytes of memory and some encoding time, however few events it holds. So small chunks are
joined, each event once. The memory of the buffer stays close to the bytes that it counts.
"""

from dataclasses import dataclass, field

from eventconsumer_api.v1alpha1 import Roll
from eventconsumer_processor.sink.gaps import Gap
from eventconsumer_processor.source.batch import EventBatch

SMALL_BYTES = 256 * 1024  # smaller chunks are joined
JOINED_BYTES = 1024 * 1024  # small chunks are joined when they reach this size
JOINED_BATCHES = 64  # small chunks are joined when there are this many


@dataclass(slots=True)
class Buffer:
    """Chunks of events of one partition, in sequence order; no chunk is empty."""

    batches: list[EventBatch] = field(default_factory=list)
    size: int = 0  # bytes
    count: int = 0  # events
    since: float = 0.0  # when the oldest chunk arrived, seconds of the host's clock
    gaps: list[Gap] = field(default_factory=list)  # before and between the events
    _small: int = 0  # small chunks at the end, not joined yet
    _small_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.batches)

    @property
    def first(self) -> int:
        """Sequence number of the first event."""
        return self.batches[0].first

    @property
    def last(self) -> int:
        """Sequence number of the last event."""
        return self.batches[-1].last

    def add(self, batch: EventBatch, now: float) -> None:
        """Append a chunk that is not empty."""
        if not self.batches:
            self.since = now
        size = batch.size
        if size >= SMALL_BYTES:
            self._join()
        self.batches.append(batch)
        self.size += size
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
        self._small = self._small_bytes = 0
        self.size = sum(batch.size for batch in kept)
        self.count = sum(len(batch) for batch in kept)
        self.gaps = [rest for gap in self.gaps if (rest := gap.above(sequence_number))]

    def clear(self) -> None:
        """Drop all events and gaps."""
        self.batches = []
        self.size = self.count = self._small = self._small_bytes = 0
        self.gaps.clear()

    def _join(self) -> None:
        if self._small > 1:
            self.batches[-self._small :] = [EventBatch.joined(self.batches[-self._small :])]
        self._small = self._small_bytes = 0

    def seconds_left(self, roll: Roll, now: float) -> float:
        """Seconds until the buffer must be written to a file; 0: now. The maximum age for an empty buffer."""
        if not self.batches:
            return float(roll.max_seconds)
        if self.size >= roll.max_bytes or self.count >= roll.max_events:
            return 0.0
        return max(0.0, self.since + roll.max_seconds - now)
