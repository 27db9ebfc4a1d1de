"""How a benchmark is run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Chosen by whoever runs it.

    Attributes:
        quick: smaller counts: to see that all works, not for figures.
        long: with the rows that take very long.
    """

    quick: bool = False
    long: bool = False

    def say(self, line: str) -> None:
        """Tell about progress."""
        print(line, flush=True)
