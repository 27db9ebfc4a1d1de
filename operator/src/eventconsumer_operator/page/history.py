"""The last hour of one EventConsumer: a ring of slots of 30 seconds. Pure, of bounded size.

Reconciles run every second or every fifteen, so their samples are put into slots of equal length: a slot keeps the
maximum of lags and the last of totals. A slot without a sample is unknown. The newest changes of owners are kept.

Memory is bounded: 1 KiB per partition (two numbers of four bytes per slot, so of seven digits), and at most 32 KiB for
moves and batches. A thousand consumers with 32 partitions take less than 64 MiB. `Histories` limits the partitions of
all consumers.
"""

import math
from array import array
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from eventconsumer_api.wire.host_report import BatchReport, CommitReport, PartitionLag

SLOT_SECONDS = 30
SLOTS = 120
MOVES = 96
BATCHES = 24
MAX_PARTITIONS = 2048  # Event Hubs has no hub with more; a wrong report must not exhaust the operator's memory
_TEXT = 256  # longest owner or reason of a report that is kept, characters
_MOST = 1e15  # greater numbers in a report are not plausible
_UNKNOWN = math.nan


class Move(NamedTuple):
    """A change of a partition's owner.

    Attributes:
        time: When it was observed, seconds since 1970.
        partition: Its id.
        source: Owner before; empty: none.
        target: Owner since; empty: none.
    """

    time: float
    partition: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class ObservedBatch:
    """A batch of files; None: not observed.

    Attributes:
        number: Its number.
        reason: Its trigger: Files, Bytes, Age or Schedule.
        files: Files in it.
        events: Events in them.
        created: When it was frozen.
        committed: When Spark committed it; None: not yet.
        rows: Rows written.
        seconds: Time Spark took.
    """

    number: int
    reason: str = ""
    files: int | None = None
    events: int | None = None
    created: datetime | None = None
    committed: datetime | None = None
    rows: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Sample:
    """The sample of one reconcile.

    Attributes:
        time: Seconds since 1970.
        partitions: Number of partitions; 0: unknown.
        lags: By partition; absent: unknown.
        owners: By partition; absent: no owner. None: not reported.
        files: Total of committed files; None: not reported.
        events: Events in them; None: not reported.
        batch: The open batch.
        commit: The last commit.
    """

    time: float
    partitions: int = 0
    lags: Mapping[str, PartitionLag] = field(default_factory=dict)
    owners: Mapping[str, str] | None = None
    files: int | None = None
    events: int | None = None
    batch: BatchReport | None = None
    commit: CommitReport | None = None


class _Ring:
    """A table of numbers: `width` per slot, NaN for unknown."""

    def __init__(self, typecode: str, width: int, cells: "array[float] | None" = None) -> None:
        self._typecode = typecode
        self.width = width
        self._cells = array(typecode, [_UNKNOWN]) * (SLOTS * width) if cells is None else cells

    def blank(self, slot: int) -> None:
        first = slot % SLOTS * self.width
        self._cells[first : first + self.width] = array(self._typecode, [_UNKNOWN]) * self.width

    def series(self, column: int, last: int) -> list[float | None]:
        """A column over the slots up to `last`, oldest first."""
        cells, first = self._cells[column :: self.width], (last + 1) % SLOTS
        return [None if math.isnan(value) else value for value in cells[first:] + cells[:first]]

    def put(self, slot: int, column: int, value: float | None, *, worst: bool = False) -> None:
        """Set a number; with `worst` only if it is greater than the present one. None and NaN are ignored."""
        bounded = None if value is None else min(value, _MOST)
        if bounded is None or math.isnan(bounded):
            return
        where = slot % SLOTS * self.width + column
        held = self._cells[where]
        if not worst or math.isnan(held) or bounded > held:
            self._cells[where] = max(0.0, bounded)

    def widened(self, width: int) -> "_Ring":
        """A copy with more columns."""
        missing = array(self._typecode, [_UNKNOWN]) * (width - self.width)
        rows = (self._cells[slot * self.width : (slot + 1) * self.width] + missing for slot in range(SLOTS))
        return _Ring(self._typecode, width, array(self._typecode, chain.from_iterable(rows)))


class History:
    """The last hour of one EventConsumer."""

    def __init__(self) -> None:
        """Create an empty history."""
        self.last: int | None = None
        """Number of the newest slot, counted since 1970; None: no sample yet."""
        self.owners: dict[int, str] = {}
        """The last reported owner of each partition."""
        self.owners_since: float | None = None
        """Since when all changes of owners are known, seconds since 1970; None: owners were never reported."""
        self.moves: deque[Move] = deque(maxlen=MOVES)
        self.batches: dict[int, ObservedBatch] = {}
        self._lag_events = _Ring("f", 0)
        self._lag_seconds = _Ring("f", 0)
        self._totals = _Ring("d", 2)

    @property
    def partitions(self) -> int:
        """Number of partitions with a row."""
        return self._lag_events.width

    def see(self, sample: Sample, most: int = MAX_PARTITIONS) -> None:
        """Add the sample of a reconcile; partitions from `most` on are ignored."""
        slot = self._turn(sample.time)
        self._widen(sample, most)
        for partition, lag in sample.lags.items():
            column = _column(partition)
            if column is not None and column < self.partitions:
                self._lag_events.put(slot, column, lag.events, worst=True)
                self._lag_seconds.put(slot, column, lag.seconds, worst=True)
        for column, total in enumerate((sample.files, sample.events)):
            self._totals.put(slot, column, total)
        if sample.owners is not None:
            self._see_owners(sample.time, sample.owners, most)
        self._see_batches(sample)

    def slots(self) -> range:
        """Numbers of the kept slots, oldest first; a slot starts at its number times SLOT_SECONDS."""
        return range(0) if self.last is None else range(self.last - SLOTS + 1, self.last + 1)

    def lag_events(self, partition: int) -> list[int | None]:
        """Maximum of a partition's unwritten events in each slot."""
        return _whole(self._series(self._lag_events, partition))

    def lag_seconds(self, partition: int) -> list[int | None]:
        """Maximum age of a partition's oldest unwritten event in each slot, seconds."""
        return _whole(self._series(self._lag_seconds, partition))

    def new_files(self) -> list[int | None]:
        """New files in each slot: the growth of the total since the last report."""
        return self._growth(0)

    def new_events(self) -> list[int | None]:
        """New events in files in each slot."""
        return self._growth(1)

    def _turn(self, time: float) -> int:
        """Advance to the slot of `time`, and return its number."""
        slot = int(time // SLOT_SECONDS)
        if self.last is None or slot <= self.last - SLOTS:
            self.last = slot - SLOTS  # the first sample, or the clock was set back: start again
        for new in range(max(self.last + 1, slot - SLOTS + 1), slot + 1):
            for ring in (self._lag_events, self._lag_seconds, self._totals):
                ring.blank(new)
        self.last = max(self.last, slot)
        return slot

    def _widen(self, sample: Sample, most: int) -> None:
        named = (_column(partition) for partition in sample.lags)
        width = max(sample.partitions, *(column + 1 for column in named if column is not None), 0)
        width = min(width, most)
        if width > self.partitions:
            self._lag_events = self._lag_events.widened(width)
            self._lag_seconds = self._lag_seconds.widened(width)

    def _see_owners(self, time: float, told: Mapping[str, str], most: int) -> None:
        # One name is shared by many partitions and moves.
        names = {owner: owner for owner in self.owners.values()}
        owners: dict[int, str] = {}
        for partition, whole in told.items():
            column, owner = _column(partition), whole[:_TEXT]
            if column is not None and column < most:
                owners[column] = names.setdefault(owner, owner)
        if self.owners_since is None:
            self.owners_since = time
        else:
            for moved in sorted(owners.keys() | self.owners.keys()):
                source, target = self.owners.get(moved, ""), owners.get(moved, "")
                if source != target:
                    if len(self.moves) == MOVES:
                        self.owners_since = self.moves[0].time
                    self.moves.append(Move(time, moved, source, target))
        self.owners = owners

    def _see_batches(self, sample: Sample) -> None:
        if (batch := sample.batch) is not None:
            seen = ObservedBatch(batch.number, batch.reason[:_TEXT], batch.files, batch.events, batch.created_at)
            held = self.batches.get(batch.number)
            if held is None or held.committed is None:
                self.batches[batch.number] = seen
        if (commit := sample.commit) is not None:
            held = self.batches.get(commit.number, ObservedBatch(commit.number))
            self.batches[commit.number] = ObservedBatch(
                held.number,
                held.reason,
                held.files,
                held.events,
                held.created,
                commit.committed_at,
                commit.rows_written,
                commit.seconds,
            )
        for number in sorted(self.batches)[:-BATCHES]:
            del self.batches[number]

    def _series(self, ring: _Ring, column: int) -> list[float | None]:
        return [] if self.last is None else ring.series(column, self.last)

    def _growth(self, column: int) -> list[int | None]:
        grown: list[int | None] = []
        before: float | None = None
        for total in self._series(self._totals, column):
            grown.append(None if total is None or before is None else max(0, int(total - before)))
            before = before if total is None else total
        return grown


def _column(partition: str) -> int | None:
    return int(partition) if partition.isascii() and partition.isdecimal() and len(partition) < 5 else None


def _whole(values: list[float | None]) -> list[int | None]:
    return [None if value is None else round(value) for value in values]
