"""Show steps, their progress and duration, on a terminal and in a log.

On a terminal the running steps are a spinner with their durations. Elsewhere each step is a line when it starts, a
progress line every half minute, and a line when it ends. If a program writes a log, its last line is shown, so that a
step of some minutes does not look like one that hangs. Threads may run steps concurrently.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.status import Status
from rich.text import Text

from eventconsumer_api.shared.console import Console

SIGN_OF_LIFE = 30.0
_LINE = 70


@dataclass(frozen=True)
class _Step:
    """A step that runs."""

    label: str
    log: Path | None
    began: float
    ended: threading.Event = field(default_factory=threading.Event)

    def text(self, state: str) -> Text:
        """Its title, its state with its duration, and the last line of its log."""
        latest = _last_line(self.log)
        end = (f": {latest}", "dim") if latest else ""
        return Text.assemble(f"{self.label} … {state}{time.monotonic() - self.began:.0f} s", end)


class Progress:
    """Numbered steps of one command."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        """Start counting.

        Args:
            total: Number of steps.
            console: The output; standard error by default, because results are on standard output.
        """
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._total = total
        self._number = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._running: list[_Step] = []
        self._status: Status | None = None

    @contextmanager
    def step(self, title: str, log: Path | None = None) -> Iterator[None]:
        """One step: announced, timed, and reported as failed if it raises.

        Args:
            title: The step's title.
            log: The step's log; its last line is shown with each progress line.
        """
        with self._lock:
            self._number += 1
            step = _Step(f"[{self._number}/{self._total}] {title}", log, time.monotonic())
            self._running.append(step)
            self._show()
        reporter = threading.Thread(target=self._report, args=(step,), daemon=True)
        reporter.start()
        outcome = "failed after"
        try:
            yield
            outcome = ""
        finally:
            step.ended.set()
            reporter.join()
            with self._lock:
                self._running.remove(step)
                self._show()
            duration = (f" {time.monotonic() - step.began:.1f} s", "dim")
            self._console.print(Text.assemble(f"{step.label}  ", (outcome, "red"), duration))

    def note(self, text: str) -> None:
        """A line below the running step."""
        self._console.print(f"      {text}", style="dim")

    def finish(self, text: str) -> None:
        """The last line: the result and the total duration."""
        self._console.print(Text.assemble((text, "green"), (f" ({time.monotonic() - self._began:.1f} s)", "dim")))

    def _show(self) -> None:
        """On a terminal: one spinner for all steps that run, for a console can have no more. Holds the lock."""
        if not self._console.is_terminal:
            return
        if not self._running:
            if self._status:
                self._status.stop()
            self._status = None
            return
        text = Text("\n").join(step.text("") for step in self._running)
        if self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        else:
            self._status.update(text)

    def _report(self, step: _Step) -> None:
        if self._console.is_terminal:
            while not step.ended.wait(1.0):
                with self._lock:
                    self._show()
            return
        if step.ended.wait(1.0):
            return  # a quick step needs one line, not two
        self._console.print(f"{step.label} …")
        while not step.ended.wait(SIGN_OF_LIFE):
            self._console.print(step.text("in progress for "))


def _last_line(log: Path | None) -> str:
    if log is None or not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = file.read().decode(errors="replace").split("\n")
    latest = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return latest[:_LINE]
