"""Detects gaps in a partition: sequence numbers that should have come and did not.

A link may skip events that the hub still has, so the first gap is not believed: the link is opened again at its start.
Where other events are missing too, log compaction is on. From then on holes are normal, and the hub is asked only now
and then which events retention has removed.
"""

from collections.abc import Callable, Sequence

import structlog

from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition import holes
from eventconsumer_host.sink import gaps
from eventconsumer_host.sink.gaps import Gap
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import Hub, PartitionInfo

EARLIEST_SECONDS = 60.0  # between two requests for the earliest retained event of a compacted hub

log = structlog.get_logger(__name__)


class GapDetector:
    """The gaps of one partition, for one pump."""

    def __init__(self, partition: str, hub: Hub, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._partition = partition
        self._hub = hub
        self._metrics = metrics
        self._clock = clock
        self._doubted: int | None = None  # where a gap was seen once
        self._compacted = False
        self._earliest = 0  # sequence number of the first event that the hub retains
        self._asked = 0.0  # when the hub reported it

    def note_earliest(self, info: PartitionInfo) -> None:
        """Record the first event that the hub retains."""
        self._earliest, self._asked = info.earliest, self._clock()

    async def lost(self, expected: int, fresh: EventBatch) -> list[Gap]:
        """Events that retention removed before and between received events; they are counted and logged.

        Args:
            expected: The sequence number that should come next.
            fresh: The received events: not empty, rising, from `expected` on.

        Raises:
            HubUnreachable: Open the link again and read the missing events once more.
            SourceError: The hub did not report its earliest event.
        """
        if fresh.last - expected + 1 == len(fresh):
            return []
        found = holes.missing(expected, fresh.numbers)
        if not self._compacted and self._doubted != expected:
            self._doubted = expected
            firsts, lasts = (ends[: gaps.SHOWN].tolist() for ends in found)
            shown = ", ".join(f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True))
            raise HubUnreachable(
                f"events {shown} of partition {self._partition} were not delivered: reading them again"
            )
        if not self._compacted or self._clock() - self._asked >= EARLIEST_SECONDS:
            self.note_earliest(await self._hub.partition(self._partition))
        lost = holes.removed(found, self._earliest)
        if not self._compacted and sum(map(len, lost)) < (found[1] - found[0] + 1).sum():
            self._compacted = True
            log.info(
                "events are missing in the middle of the partition: log compaction is on",
                partition=self._partition,
                next=expected,
            )
        if lost:
            report_lost_events(self._metrics, self._partition, lost)
        return lost


def report_lost_events(metrics: Metrics, partition: str, lost: Sequence[Gap]) -> None:
    """Count and log events that retention removed before they were read."""
    count = sum(map(len, lost))
    metrics.gap_events.labels(partition).inc(count)
    log.error(
        "events expired before they were read",
        partition=partition,
        events=count,
        first_ranges=gaps.text(lost[: gaps.SHOWN]),
    )
