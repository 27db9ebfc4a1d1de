"""PURE: which files may be removed, and which of them are removed first."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

LAST = "the last file of its chain"
EARLIER = "of an earlier incarnation of the hub"
_FIRST = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a file for its readers.

    Attributes:
        passed: It ends at its partition's checkpoint or before.
        committed: It is in a committed batch, or no batch needs it.
        excluded: A committed batch excluded it.
        registered: It is in the Delta table or was in it, or there is no table.
        noticed: Its notice is acknowledged, or there are no notices.
    """

    passed: bool = True
    committed: bool = True
    excluded: bool = False
    registered: bool = True
    noticed: bool = True


def reason_to_keep(standing: Standing) -> str:
    """Why a file must be kept, whatever its age; empty: it may be removed."""
    if not standing.passed:
        return "not before the checkpoint"
    if not standing.committed:
        return "in no committed batch"
    if standing.excluded:
        return "excluded by its batch, so its events are in no output"
    if not standing.registered:
        return "not in the Delta table yet"
    return "" if standing.noticed else "without an acknowledged notice"


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file that may be removed, or one that the choice skips: a tombstone, or a file that stays for ever.

    Attributes:
        end: Start of the next file.
        time: Of its commit.
        size: Bytes of the content.
        events: Number of events in it.
        skipped: It stays as it is, and files after it may be removed.
    """

    end: int
    time: datetime
    size: int
    events: int = 0
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The oldest files of a partition that may be removed, in chain order.

    Attributes:
        files: The files.
        cut: More such files may follow, which were not looked at.
    """

    files: Sequence[OldFile] = ()
    cut: bool = False


def choose(windows: Mapping[str, Window], before: datetime | None, excess: int) -> dict[str, int]:
    """The number of files to remove or skip in each partition: the oldest ones of all partitions first.

    Args:
        windows: By partition.
        before: Files that were committed before this time are removed; None: age does not count.
        excess: Files are removed until they have at least this size in total, bytes.

    Returns:
        Partition -> number of files from the start of its window; partitions without any are absent.
    """
    chosen: dict[str, int] = {}
    rows = ([(name, number, file) for number, file in enumerate(each.files, start=1)] for name, each in windows.items())
    for name, number, file in heapq.merge(*rows, key=lambda row: _FIRST if row[2].skipped else row[2].time):
        if not file.skipped:
            if excess <= 0 and (before is None or file.time >= before):
                break
            excess -= file.size
        chosen[name] = number
        if windows[name].cut and number == len(windows[name].files):
            break  # the next file of this partition may be older than those of the others
    return chosen
