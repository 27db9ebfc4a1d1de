"""Gaps: sequence numbers that are in no file, and why. Pure.

A gap is never skipped silently: it is recorded in the metadata of the file behind it, and from there it reaches the
resource's status.

- `retention`: the hub no longer had the events when they were to be read;
- `foreign`: another program that shares the leases processed them, as its checkpoint says;
- `compaction`: log compaction removed them, or there never were any: no event is lost with these.

Ranges that are many are one entry with the first and the last number that is missing and how many are, such as
`compaction:17-90/31`; those of log compaction always are.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

RANGES = 100  # at most 4 KB of the 8 KiB that a blob's metadata may have
SHOWN = 10  # in a log line
_RANGE = re.compile(r"(\d+)-(\d+)(?:/(\d+))?", re.ASCII)


class GapReason(StrEnum):
    """Why events are in no file."""

    RETENTION = "retention"
    FOREIGN = "foreign"
    COMPACTION = "compaction"


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing sequence numbers `first` to `last`, inclusive, or `count` of them."""

    first: int
    last: int
    reason: GapReason = GapReason.RETENTION
    count: int | None = None  # None: all

    def __len__(self) -> int:
        return self.last - self.first + 1 if self.count is None else self.count

    def above(self, sequence_number: int) -> "Gap | None":
        """What of it is above `sequence_number`."""
        if self.last <= sequence_number:
            return None
        return Gap(max(self.first, sequence_number + 1), self.last, self.reason)


def text(found: Iterable[Gap]) -> str:
    """As in a file's metadata, such as `foreign:3-9;retention:17-20,22-22`; empty for none.

    More than `RANGES` of one reason are one entry with a count.
    """
    by_reason: dict[GapReason, list[Gap]] = {}
    for gap in found:
        by_reason.setdefault(gap.reason, []).append(gap)
    return ";".join(f"{reason}:{','.join(map(_range, _few(each)))}" for reason, each in by_reason.items())


def _few(found: list[Gap]) -> list[Gap]:
    if len(found) <= RANGES:
        return found
    first, last = min(gap.first for gap in found), max(gap.last for gap in found)
    return [Gap(first, last, found[0].reason, sum(map(len, found)))]


def _range(gap: Gap) -> str:
    return f"{gap.first}-{gap.last}" + ("" if gap.count is None else f"/{gap.count}")


def parse(value: str) -> list[Gap]:
    """The gaps in a file's metadata; parts that cannot be read are left out."""
    found = []
    for part in filter(None, value.split(";")):
        reason, _, ranges = part.partition(":")
        for item in ranges.split(","):
            match = _RANGE.fullmatch(item)
            if match and reason in set(GapReason):
                count = None if match[3] is None else int(match[3])
                found.append(Gap(int(match[1]), int(match[2]), GapReason(reason), count))
    return found
