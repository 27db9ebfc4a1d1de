"""Holes in the sequence numbers that a partition gives, and what made them. Pure; whole columns at a time.

A compacted hub has holes everywhere, so nothing here costs objects for each of them.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from eventconsumer_processor.sink.gaps import Gap, GapReason

Numbers = npt.NDArray[np.int64]
Holes = tuple[Numbers, Numbers]
"""The first and the last sequence numbers that are missing, rising."""


def missing(expected: int, numbers: Numbers) -> Holes:
    """Holes in rising `numbers` that should start at `expected`: their first and their last sequence numbers."""
    before = np.concatenate(([expected - 1], numbers[:-1]))
    after_hole = np.flatnonzero(numbers - before > 1)
    return before[after_hole] + 1, numbers[after_hole] - 1


def removed(holes: Holes, earliest: int) -> list[Gap]:
    """What retention removed of these holes: all below the earliest event that the hub retains.

    Retention removes the oldest events of a partition and nothing behind them. What is missing at or above `earliest`
    was removed by log compaction (Microsoft, "Log compaction in Azure Event Hubs": sequence numbers of the rest stay),
    or was never an event, as the markers of Kafka transactions are none.
    """
    below = int(np.searchsorted(holes[0], earliest))
    ends = np.minimum(holes[1][:below], earliest - 1)
    return [Gap(first, last) for first, last in zip(holes[0][:below].tolist(), ends.tolist(), strict=True)]


def rest(start: int, numbers: Numbers, known: Iterable[Gap]) -> Holes:
    """What is missing in `numbers` from `start` on, and in no gap that is known.

    Args:
        start: The first sequence number that should be there.
        numbers: Those that are, rising.
        known: Gaps; each begins where a hole begins.
    """
    firsts, lasts = missing(start, numbers)
    for gap in known:
        inside = (firsts >= gap.first) & (firsts <= gap.last)
        firsts = np.where(inside, np.minimum(gap.last, lasts) + 1, firsts)
    left = firsts <= lasts
    return firsts[left], lasts[left]


def counted(found: Holes) -> list[Gap]:
    """Holes that log compaction made, as one entry; none for none."""
    firsts, lasts = found
    if not len(firsts):
        return []
    return [Gap(int(firsts[0]), int(lasts[-1]), GapReason.COMPACTION, int((lasts - firsts + 1).sum()))]
