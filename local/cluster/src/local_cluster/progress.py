"""Show what happens, how far it is and how long it took, on a terminal and in a log alike.

On a terminal the running step is a spinner with a clock. Elsewhere each step is a line when it starts, a sign of life
every half minute, and a line when it ends. Where a program writes a log, its last line is shown: a step that takes
minutes must never look like one that hangs.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

SIGN_OF_LIFE = 30.0
_LINE = 70


class Progress:
    """Numbered steps of one command."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        """Start counting.

        Args:
            total: How many steps will come.
            console: Where to write; standard error by default, because standard output carries results.
        """
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._total = total
        self._number = 0
        self._began = time.monotonic()

    @contextmanager
    def step(self, title: str, log: Path | None = None) -> Iterator[None]:
        """One step: announced, timed, and reported as failed if it raises.

        Args:
            title: What is done.
            log: A file that grows while it is done; its last line is shown with each sign of life.
        """
        self._number += 1
        label = escape(f"[{self._number}/{self._total}] {title}")
        began = time.monotonic()
        ended = threading.Event()
        reporter = threading.Thread(target=self._report, args=(label, log, began, ended), daemon=True)
        reporter.start()
        outcome = "[red]failed after[/red]"
        try:
            yield
            outcome = ""
        finally:
            ended.set()
            reporter.join()
            self._console.print(f"{label}  {outcome} [dim]{time.monotonic() - began:.1f} s[/dim]")

    def note(self, text: str) -> None:
        """A line below the running step."""
        self._console.print(f"      [dim]{escape(text)}[/dim]")

    def finish(self, text: str) -> None:
        """The last line: what the user has now, and how long all of it took."""
        self._console.print(f"[green]{text}[/green] [dim]({time.monotonic() - self._began:.1f} s)[/dim]")

    def _report(self, label: str, log: Path | None, began: float, ended: threading.Event) -> None:
        if self._console.is_terminal:
            with self._console.status(f"{label} …") as status:
                while not ended.wait(1.0):
                    status.update(f"{label} … {time.monotonic() - began:.0f} s{_last_line(log)}")
            return
        if ended.wait(1.0):
            return  # a quick step needs one line, not two
        self._console.print(f"{label} …")
        while not ended.wait(SIGN_OF_LIFE):
            self._console.print(f"{label} … still at it after {time.monotonic() - began:.0f} s{_last_line(log)}")


def _last_line(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = file.read().decode(errors="replace").split("\n")
    latest = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": [dim]{escape(latest[:_LINE])}[/dim]" if latest else ""
