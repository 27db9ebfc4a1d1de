"""Gaps: sequence numbers that are in no file, and their cause. Pure.

Every gap is recorded: in the metadata of the next file, and from there in the resource's status.

- `retention`: retention removed the events before they were read;
- `foreign`: another program that shares the leases processed the events, according to its checkpoint;
- `compaction`: log compaction removed the events, or the numbers were never events; no event is lost.

Many ranges become one entry with the first and the last missing number and their count, such as `compaction:17-90/31`.
Ranges of log compaction always do.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

RANGES = 100  # at most 4 KB of the 8 KiB limit of a blob's metadata
SHOWN = 10  # ranges in a log line
_RANGE = re.compile(r"(\d{1,20})-(\d{1,20})(?:/(\d{1,20}))?", re.ASCII)
_LAST = (1 << 63) - 1  # the greatest sequence number


class GapReason(StrEnum):
    """The cause of a gap."""

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
        """The part of the gap above `sequence_number`; None: no part."""
        if self.last <= sequence_number:
            return None
        return Gap(max(self.first, sequence_number + 1), self.last, self.reason)


def text(found: Iterable[Gap]) -> str:
    """Gaps as text for a file's metadata, such as `foreign:3-9;retention:17-20,22-22`; empty for no gaps.

    More than `RANGES` gaps of one reason become one entry with a count.
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
    """The gaps in a file's metadata; parts that cannot be parsed, or have no possible size, are ignored."""
    found = []
    for part in filter(None, value.split(";")):
        reason, _, ranges = part.partition(":")
        for item in ranges.split(","):
            match = _RANGE.fullmatch(item)
            if match and reason in set(GapReason):
                first, last = int(match[1]), int(match[2])
                count = None if match[3] is None else int(match[3])
                most = last - first + 1
                if 0 < most <= _LAST and last <= _LAST and (count is None or 0 < count <= most):
                    found.append(Gap(first, last, GapReason(reason), count))
    return found
