"""PURE: files of the output: their number for a batch, and small files to compact.

Spark does not decide by size. A batch of many small files would become as many output files, and a batch of few large
files would use one task; a table that grows by a batch every few minutes would have a hundred thousand files per year.
"""

from collections.abc import Iterable
from dataclasses import dataclass

SMALL = 0.5
"""Files below this share of the target are small.

Two of them always fit into one file. Delta packs small files in order of size into files of at most the target
(`OptimizeExecutor.groupFilesIntoBins`), so a compaction leaves at most one small file, and rewrites few bytes again.
"""
ENOUGH_FILES = 32
"""This number of small files is compacted, whatever their size."""
ENOUGH_FULL = 8
"""This number of small files is compacted if they fill a whole file; fewer would be rewritten too often."""
LOOK_EVERY = 4
"""Number of batches between checks of a table's file sizes, which take seconds; fewer do not fill a file."""
LEAST_SHARE = 4
"""A batch may be split into files of a quarter of the target, so that all cores write."""


@dataclass(frozen=True)
class SmallFiles:
    """The small files of one partition of a table; `bytes` is their total size."""

    partition: str
    files: int
    bytes: int


def output_files(size: int, target: int, cores: int) -> int:
    """Number of files of a batch: of the target size, or smaller if cores would be idle.

    Args:
        size: Total size of the batch's files, bytes; its output has about the same.
        target: `spark.output.targetFileBytes`.
        cores: Number of parallel tasks.
    """
    whole = -(-size // target)
    return max(1, whole, min(cores, -(-size * LEAST_SHARE // target)))


def worth_looking(number: int) -> bool:
    """Whether to check for small files after batch `number`."""
    return number % LOOK_EVERY == 0


def worth_compacting(small: Iterable[SmallFiles], target: int) -> list[str]:
    """The partitions of a table to compact, the fullest first."""
    due = [
        found
        for found in small
        if found.files >= ENOUGH_FILES or (found.files >= ENOUGH_FULL and found.bytes >= target)
    ]
    return [found.partition for found in sorted(due, key=lambda found: (-found.files, found.partition))]
