"""Gaps: sequence numbers that are in no file, and why. Pure.

A gap is never skipped silently: it is recorded in the metadata of the file behind it, and from there it reaches the
resource's status.

- `retention`: the hub no longer had the events when they were to be read;
- `foreign`: another program that shares the leases processed them, as its checkpoint says.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class GapReason(StrEnum):
    """Why events are in no file."""

    RETENTION = "retention"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing sequence numbers `first` to `last`, inclusive."""

    first: int
    last: int
    reason: GapReason = GapReason.RETENTION

    def __len__(self) -> int:
        return self.last - self.first + 1

    def above(self, sequence_number: int) -> "Gap | None":
        """What of it is above `sequence_number`."""
        if self.last <= sequence_number:
            return None
        return Gap(max(self.first, sequence_number + 1), self.last, self.reason)


def find(expected: int, numbers: Iterable[int]) -> list[Gap]:
    """What is missing in rising `numbers` that should start at `expected` and have no holes."""
    found = []
    for number in numbers:
        if number > expected:
            found.append(Gap(expected, number - 1))
        expected = number + 1
    return found


def text(found: Iterable[Gap]) -> str:
    """As in a file's metadata, such as `foreign:3-9;retention:17-20,22-22`; empty for none."""
    by_reason: dict[str, list[str]] = {}
    for gap in found:
        by_reason.setdefault(gap.reason, []).append(f"{gap.first}-{gap.last}")
    return ";".join(f"{reason}:{','.join(ranges)}" for reason, ranges in by_reason.items())


def parse(value: str) -> list[Gap]:
    """The gaps in a file's metadata; parts that cannot be read are left out."""
    found = []
    for part in filter(None, value.split(";")):
        reason, _, ranges = part.partition(":")
        for item in ranges.split(","):
            first, _, last = item.partition("-")
            if reason in set(GapReason) and first.isdigit() and last.isdigit():
                found.append(Gap(int(first), int(last), GapReason(reason)))
    return found
