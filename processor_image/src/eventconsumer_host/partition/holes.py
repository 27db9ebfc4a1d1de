"""Holes in the sequence numbers of a partition, and their causes. Pure; works on whole columns.

A compacted hub has many holes, so no function creates an object per hole.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from eventconsumer_host.sink.gaps import Gap, GapReason

Numbers = npt.NDArray[np.int64]
Holes = tuple[Numbers, Numbers]
"""The first and the last sequence number of each hole, rising."""


def missing(expected: int, numbers: Numbers) -> Holes:
    """The holes in rising `numbers`, which should start at `expected`."""
    before = np.concatenate(([expected - 1], numbers[:-1]))
    after_hole = np.flatnonzero(numbers - before > 1)
    return before[after_hole] + 1, numbers[after_hole] - 1


def removed(holes: Holes, earliest: int) -> list[Gap]:
    """The part of the holes that retention made: all numbers below the earliest event that the hub retains.

    Retention removes only the oldest events of a partition. Log compaction removed the numbers that are missing at or
    above `earliest` (Microsoft, "Log compaction in Azure Event Hubs": the other events keep their sequence numbers), or
    they never were events, such as the markers of Kafka transactions.
    """
    below = int(np.searchsorted(holes[0], earliest))
    ends = np.minimum(holes[1][:below], earliest - 1)
    return [Gap(first, last) for first, last in zip(holes[0][:below].tolist(), ends.tolist(), strict=True)]


def rest(start: int, numbers: Numbers, known: Iterable[Gap]) -> Holes:
    """The holes in `numbers` from `start` on that are outside the known gaps.

    Args:
        start: The first sequence number that should exist.
        numbers: The existing sequence numbers, rising.
        known: Gaps; each starts where a hole starts.
    """
    firsts, lasts = missing(start, numbers)
    for gap in known:
        inside = (firsts >= gap.first) & (firsts <= gap.last)
        firsts = np.where(inside, np.minimum(gap.last, lasts) + 1, firsts)
    left = firsts <= lasts
    return firsts[left], lasts[left]


def counted(found: Holes) -> list[Gap]:
    """Holes that log compaction made, as one gap with a count; empty for no holes."""
    firsts, lasts = found
    if not len(firsts):
        return []
    return [Gap(int(firsts[0]), int(lasts[-1]), GapReason.COMPACTION, int((lasts - firsts + 1).sum()))]
