"""PURE: the files of one partition that batch manifests name, in columns of machine numbers.

A million files take 60 MB; objects would take ten times as much. An audit runs beside a host, within its memory limit.
Names and etags are kept as hashes, which are sufficient for comparison.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """A file as a manifest froze it."""

    start: int
    last: int
    count: int
    size: int
    batch: int
    path: int  # hash of its name
    etag: int  # hash


class FrozenFiles:
    """The files of one partition, by start."""

    def __init__(self) -> None:
        self._columns = [array("q") for _ in range(5)] + [array("Q") for _ in range(2)]
        self._taken = bytearray()
        self._sorted = True

    def add(self, file: FrozenFile) -> None:
        """Add a file; in rising order, unless manifests are damaged."""
        starts = self._columns[0]
        self._sorted = self._sorted and (not starts or starts[-1] <= file.start)
        values = (file.start, file.last, file.count, file.size, file.batch, file.path, file.etag)
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        self._taken.append(0)

    def take(self, start: int) -> list[FrozenFile]:
        """The files that start there: one, or none, or several where batches overlap."""
        indexes = list(self._indexes(start))
        for index in indexes:
            self._taken[index] = 1
        return [self._at(index) for index in indexes]

    def find(self, start: int) -> list[FrozenFile]:
        """The files that start there, without taking them."""
        return [self._at(index) for index in self._indexes(start)]

    def _indexes(self, start: int) -> Iterator[int]:
        self._sort()
        starts = self._columns[0]
        index = bisect_left(starts, start)
        while index < len(starts) and starts[index] == start:
            yield index
            index += 1

    def left(self) -> Iterator[FrozenFile]:
        """Files that were never taken."""
        return (self._at(index) for index, taken in enumerate(self._taken) if not taken)

    def _at(self, index: int) -> FrozenFile:
        return FrozenFile(*(column[index] for column in self._columns))

    def _sort(self) -> None:
        if not self._sorted:  # all files are added before the first is taken
            order = sorted(range(len(self._taken)), key=self._columns[0].__getitem__)
            self._columns = [array(column.typecode, (column[index] for index in order)) for column in self._columns]
            self._sorted = True
