"""Rates of events, from samples of one consumer. Pure.

Hosts count events; a rate is the difference of two counts of the same ownership (host and epoch). Files are committed
at intervals, so the rate of events in files needs a window of some length.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from eventconsumer_cli.view import Look, Partition

WINDOW_SECONDS = 60.0


@dataclass(frozen=True)
class Rate:
    """Rates of one partition, or of all; events and files per second.

    Attributes:
        received: Events received from the hub.
        filed: Events committed in files.
        files: Committed files.
    """

    received: float = 0.0
    filed: float = 0.0
    files: float = 0.0


class Rates:
    """Keeps the samples of the last minute."""

    def __init__(self, window: float = WINDOW_SECONDS) -> None:
        """Keep samples for `window` seconds."""
        self._window = window
        self._seen: deque[tuple[float, dict[str, Partition]]] = deque()

    def add(self, look: Look) -> None:
        """Add a newer sample."""
        now = look.now.timestamp()
        self._seen.append((now, {each.id: each for each in look.partitions()}))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window:
            self._seen.popleft()

    def by_partition(self) -> dict[str, Rate]:
        """Rates of the partitions with two samples of the present owner."""
        if not self._seen:
            return {}
        newest_time, newest = self._seen[-1]
        found = {}
        for id_, now in newest.items():
            before = next(((time, old[id_]) for time, old in self._seen if _same_tenure(old.get(id_), now)), None)
            if before and newest_time > before[0]:
                found[id_] = _between(before[1], now, newest_time - before[0])
        return found


def total(rates: Mapping[str, Rate]) -> Rate | None:
    """Rates of all partitions together; None: unknown."""
    if not rates:
        return None
    return Rate(
        sum(each.received for each in rates.values()),
        sum(each.filed for each in rates.values()),
        sum(each.files for each in rates.values()),
    )


def _same_tenure(before: Partition | None, now: Partition) -> bool:
    if before is None or before.report is None or now.report is None:
        return False
    return (before.owner, before.report.epoch) == (now.owner, now.report.epoch)


def _between(before: Partition, now: Partition, seconds: float) -> Rate:
    old, new = before.report, now.report
    if old is None or new is None:
        return Rate()
    received = 0
    if new.sequence_number is not None:
        # Before the first event of an ownership, its chain says where it continues.
        first = old.sequence_number
        if first is None and old.next_sequence_number is not None:
            first = old.next_sequence_number - 1
        received = new.sequence_number - first if first is not None else 0
    return Rate(
        max(0, received) / seconds,
        max(0, new.events - old.events) / seconds,
        max(0, new.files - old.files) / seconds,
    )
