"""Numbered steps with elapsed time, and the error type of the demo."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.text import Text

from eventconsumer_api.shared.console import Console

console = Console(soft_wrap=True)


class DemoError(Exception):
    """A step failed. `hint` is the remedy; `detail` contains the relevant log lines."""

    def __init__(self, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        self.detail = detail
        if detail:
            self.add_note(detail)  # for tracebacks, of tests above all


class Steps:
    """Counts steps out of a known total."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._started = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show a step's number and title, then how long it took."""
        self._number += 1
        console.print(Text.assemble((f"[{self._number}/{self._total}]", "bold"), f" {title}"))
        started = time.monotonic()
        yield
        console.print(Text.assemble("      ", ("done", "green"), f" in {time.monotonic() - started:.1f} s"))

    @property
    def elapsed(self) -> float:
        """Seconds since the first step."""
        return time.monotonic() - self._started
