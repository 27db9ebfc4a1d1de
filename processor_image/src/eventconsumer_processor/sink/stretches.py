"""Cuts batches into stretches of rows, so that an encoder works on a bounded number of bytes at a time. Pure.

A stretch points into its batch instead of copying it: a batch may hold many events of a megabyte each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from eventconsumer_processor.sink.content import Content
from eventconsumer_processor.source.batch import EventBatch

Encoder = Callable[[Sequence[EventBatch], str, Mapping[str, str]], Content]
"""Turns the batches of one partition into a file's content: batches, partition id, metadata."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The rows from `start` up to, but not including, `stop` of a batch."""

    batch: EventBatch
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def groups(batches: Iterable[EventBatch], limit: int) -> Iterator[list[Stretch]]:
    """All rows in order, in groups of at most `limit` bytes; a larger row is a group of its own."""
    group: list[Stretch] = []
    used = 0
    for batch in batches:
        start = 0
        for row, size in enumerate(batch.sizes):
            if used and used + size > limit:
                if row > start:
                    group.append(Stretch(batch, start, row))
                yield group
                group, used, start = [], 0, row
            used += size
        if len(batch) > start:
            group.append(Stretch(batch, start, len(batch)))
    if group:
        yield group
