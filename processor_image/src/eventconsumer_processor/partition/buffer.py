"""What a pump has received and not committed: batches in order, and when they must become a file.

A batch takes some kilobytes and some time to encode however few events it holds, so small ones are joined, each event
once: what the buffer takes stays near the bytes that it counts.
"""

from dataclasses import dataclass, field

from eventconsumer_api.v1alpha1 import Roll
from eventconsumer_processor.sink.gaps import Gap
from eventconsumer_processor.source.batch import EventBatch

SMALL_BYTES = 256 * 1024  # a batch below that is joined with others
JOINED_BYTES = 1024 * 1024  # enough to join them
JOINED_BATCHES = 64  # likewise


@dataclass(slots=True)
class Buffer:
    """Batches of one partition, in sequence order, none of them empty."""

    batches: list[EventBatch] = field(default_factory=list)
    size: int = 0  # bytes
    count: int = 0  # events
    since: float = 0.0  # when the oldest batch came, seconds of the host's clock
    gaps: list[Gap] = field(default_factory=list)  # before the events or in between
    _small: int = 0  # batches at the end that are to be joined
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
        """Append a batch that is not empty."""
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
        """Forget the events up to and including `sequence_number`."""
        kept = [batch for batch in (batch.after(sequence_number) for batch in self.batches) if len(batch)]
        self.batches = kept
        self._small = self._small_bytes = 0
        self.size = sum(batch.size for batch in kept)
        self.count = sum(len(batch) for batch in kept)
        self.gaps = [rest for gap in self.gaps if (rest := gap.above(sequence_number))]

    def clear(self) -> None:
        """Forget everything."""
        self.batches = []
        self.size = self.count = self._small = self._small_bytes = 0
        self.gaps.clear()

    def _join(self) -> None:
        if self._small > 1:
            self.batches[-self._small :] = [EventBatch.joined(self.batches[-self._small :])]
        self._small = self._small_bytes = 0

    def seconds_left(self, roll: Roll, now: float) -> float:
        """Seconds until the buffer must become a file, 0 where it must now; the full age while it is empty."""
        if not self.batches:
            return float(roll.max_seconds)
        if self.size >= roll.max_bytes or self.count >= roll.max_events:
            return 0.0
        return max(0.0, self.since + roll.max_seconds - now)
