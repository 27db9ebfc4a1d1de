"""Splits events into chunks of rows, so that an encoder works on a limited number of bytes at a time. Pure.

A chunk is a part of an `EventBatch` and shares its memory: a batch may hold many events of a megabyte each.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from eventconsumer_host.source.batch import EventBatch

Encoder = Callable[[Sequence[EventBatch], str, Mapping[str, str]], Iterator[bytes]]
"""Encodes events of one partition as the blocks of a file: batches, partition id, metadata. Equal arguments give equal
blocks."""


def groups(batches: Iterable[EventBatch], limit: int) -> Iterator[list[EventBatch]]:
    """All rows in order, in groups of at most `limit` bytes; a larger row is a separate group."""
    group: list[EventBatch] = []
    used = 0
    for batch in batches:
        ends = np.cumsum(batch.sizes)
        start = done = 0  # rows and bytes of this batch that are in a group
        while start < len(batch):
            stop = int(np.searchsorted(ends, done + limit - used, side="right"))
            if stop == start and not used:
                stop = start + 1
            if stop > start:
                group.append(batch if stop - start == len(batch) else batch.slice(start, stop))
                used += int(ends[stop - 1]) - done
                start, done = stop, int(ends[stop - 1])
            if start < len(batch):
                yield group
                group, used = [], 0
    if group:
        yield group
