"""Gaps: sequence numbers that the hub no longer has, because its retention was faster than the host. Pure.

A gap is never skipped silently: the pump reads once more from where it starts, then records it in the file's metadata
and reports it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_report import Problem
from eventconsumer_processor import problems


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing sequence numbers, as inclusive ranges in rising order."""

    ranges: tuple[tuple[int, int], ...]

    @property
    def events(self) -> int:
        """How many are missing."""
        return sum(last - first + 1 for first, last in self.ranges)

    def __str__(self) -> str:
        """Such as `17-20,22-22`."""
        return ",".join(f"{first}-{last}" for first, last in self.ranges)


def find(expected: int, numbers: Iterable[int]) -> Gap:
    """What is missing in rising `numbers` that should start at `expected` and have no holes."""
    ranges = []
    for number in numbers:
        if number > expected:
            ranges.append((expected, number - 1))
        expected = number + 1
    return Gap(tuple(ranges))


def problem(partition: str, gap: Gap) -> Problem:
    """What the user is told."""
    return Problem(
        field=f"{problems.HUB}.name",
        reason=Reason.DATA_GAP,
        message=f"events {gap} of partition {partition} were removed by the hub's retention before they were read: "
        "raise the retention, or the number of hosts",
    )
