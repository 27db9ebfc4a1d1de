"""PURE: finds the single items that make a run fail, by halving; the caller executes the runs.

    search([a, b, c, d], fails)      fails([a, b]) -> None      fails([c, d]) -> fails([c]) -> "cause"

An item is found only if it failed alone, twice: a failure that does not repeat is transient. About 2 log2(n) runs for
each item; the number of runs is limited, because each run is a job.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from eventconsumer_spark.errors import SearchError

Item = TypeVar("Item", bound=Hashable)
_TIMES_ALONE = 2


def budget(items: int) -> int:
    """Maximum number of runs of a search among so many items: sufficient for about four failing items."""
    return 8 * (items.bit_length() + 1)


def search(items: Sequence[Item], fails: Callable[[Sequence[Item]], str | None]) -> dict[Item, str]:
    """Find the items that fail alone, after all together failed.

    Args:
        items: In any order; neighbours are run together.
        fails: Runs some of the items; returns the cause of a failure, or None.

    Returns:
        Each found item with its cause.

    Raises:
        SearchError: No item fails alone, or the runs did not suffice.
    """
    found = _Search(fails, budget(len(items)))
    found.descend(items, failed=1)
    if not found.causes:
        raise SearchError(f"no file fails alone ({found.runs} runs): the cause is not in one file, or was transient")
    return found.causes


@dataclass
class _Search(Generic[Item]):
    fails: Callable[[Sequence[Item]], str | None]
    limit: int
    runs: int = 0
    causes: dict[Item, str] = field(default_factory=dict)

    def descend(self, group: Sequence[Item], failed: int) -> bool:
        """Find failing items in a group that failed `failed` times; return whether it fails."""
        if len(group) == 1:
            return self._alone(group, failed)
        half = len(group) // 2
        left, right = group[:half], group[half:]
        left_fails = self._run(left) is not None and self.descend(left, failed=1)
        # If the left half passes, the right half failed: it need not be run as a whole.
        if left_fails or len(right) == 1:
            right_fails = self._run(right) is not None and self.descend(right, failed=1)
        else:
            right_fails = self.descend(right, failed=0)
        return left_fails or right_fails

    def _alone(self, group: Sequence[Item], failed: int) -> bool:
        cause = None
        for _ in range(_TIMES_ALONE - failed):
            if (cause := self._run(group)) is None:
                return False
        self.causes[group[0]] = cause or ""
        return True

    def _run(self, group: Sequence[Item]) -> str | None:
        if self.runs == self.limit:
            raise SearchError(
                f"stopped after {self.runs} runs, with {len(self.causes)} failing files found: so many are rather a "
                "fault of the program"
            )
        self.runs += 1
        return self.fails(group)
