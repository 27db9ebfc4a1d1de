"""PURE: how the output is laid out in files: how many a batch makes, and which small ones are worth compacting.

Spark decides neither by size. A batch of many small files would become as many, and one of few large files would keep
one task busy; a table that grows by a batch every few minutes would have a hundred thousand files a year.
"""

from collections.abc import Iterable
from dataclasses import dataclass

SMALL = 0.75
"""Files below this share of the target are small: two of them make a better one."""
ENOUGH_FILES = 32
"""So many small files are compacted whatever their size."""
ENOUGH_FULL = 8
"""So many small files are compacted where they make up a whole one; fewer would be rewritten too often."""
LOOK_EVERY = 4
"""After so many batches the sizes of a table's files are asked for, which takes seconds; fewer do not fill a file."""
LEAST_SHARE = 4
"""A batch may be cut to files of a quarter of the target, so that all cores write."""


@dataclass(frozen=True)
class SmallFiles:
    """The small files of one partition of a table; `bytes` is their size together."""

    partition: str
    files: int
    bytes: int


def output_files(size: int, target: int, cores: int) -> int:
    """How many files a batch is written as: of the target's size, or smaller where cores would be idle.

    Args:
        size: Of the batch's files, bytes; its output has about the same.
        target: `spark.output.targetFileBytes`.
        cores: Tasks that run at a time.
    """
    whole = -(-size // target)
    return max(1, whole, min(cores, -(-size * LEAST_SHARE // target)))


def worth_looking(number: int) -> bool:
    """Whether to look for small files after batch `number`."""
    return number % LOOK_EVERY == 0


def worth_compacting(small: Iterable[SmallFiles], target: int) -> list[str]:
    """The partitions of a table in which compaction pays, the fullest first."""
    due = [
        found
        for found in small
        if found.files >= ENOUGH_FILES or (found.files >= ENOUGH_FULL and found.bytes >= target)
    ]
    return [found.partition for found in sorted(due, key=lambda found: (-found.files, found.partition))]
