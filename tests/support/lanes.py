"""Every suite in the least time that two cores allow: `python -m tests.support.lanes` ends `make test`.

1. The fault rows, alone: they are judged by time.
2. The end-to-end tests, which wait for a cluster most of the time, and beside them all other suites at low priority and
   with patience (`tests.support.patience`); what those print goes to build/suites.log.
3. What failed runs once more with nothing beside it. It counts as passed only if it passes there, and its first failure
   stays in what was printed, so that nobody overlooks it. More than a few failures are no coincidence: then there is no
   second run.

Exit code: 0 where every test passed, in the end; 1 otherwise. Ctrl-C ends all lanes.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
SECOND_CHANCES = 12


@dataclass(frozen=True)
class Lane:
    """Suites that one pytest runs.

    Attributes:
        name: Of its files in build/.
        arguments: Those of pytest.
        aside: Whether it runs at low priority and prints to a file.
        patience: How many times as long it waits, for what runs beside it.
    """

    name: str
    arguments: tuple[str, ...]
    aside: bool = False
    patience: int = 1

    @property
    def outcome(self) -> Path:
        """Where `tests.support.outcomes` writes what came of it."""
        return BUILD / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """What a lane aside prints."""
        return BUILD / f"{self.name}.log"

    def start(self) -> "subprocess.Popen[bytes]":
        """Start it in a process group of its own."""
        for file in (self.outcome, self.outcome.with_suffix(".failures")):
            file.unlink(missing_ok=True)
        command = ["pytest", "-p", "tests.support.outcomes", "--outcome", str(self.outcome), *self.arguments]
        command = ["nice", "-n", "10" if self.aside else "0", sys.executable, "-m", *command]
        with self.log.open("wb") if self.aside else nullcontext() as log:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "TESTS_PATIENCE": str(self.patience)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log and subprocess.STDOUT,
                process_group=0,
            )


FAULTS = Lane("faults", ("tests/faults",))
E2E = Lane("e2e", ("--durations=20", "tests/e2e", "--ignore=tests/e2e/test_kubeflow.py"), patience=2)
SUITES = Lane(
    "suites",
    (
        "-n2",
        "--dist=loadgroup",
        "--durations=20",
        *(f"tests/{each}" for each in ("unit", "docs", "contract", "simulation", "integration")),
    ),
    aside=True,
    patience=4,
)
TOGETHER: Sequence[Sequence[Lane]] = ((FAULTS,), (E2E, SUITES))


@dataclass(frozen=True)
class Outcome:
    """What came of a lane.

    Attributes:
        counts: Tests by "passed", "failed" and "skipped".
        failed: Node ids of tests that failed, in themselves or in what they stand on.
        finished: Whether every test had its turn; False where pytest was ended or could not collect.
    """

    counts: dict[str, int]
    failed: list[str]
    finished: bool

    @classmethod
    def of(cls, lane: Lane, code: int) -> "Outcome":
        """Read what a lane left behind.

        Args:
            lane: One that has ended.
            code: Its exit code; 0 and 1 are those of runs that came to their end.
        """
        try:
            found = json.loads(lane.outcome.read_text())
        except FileNotFoundError:
            return cls({}, [], finished=False)
        explained = code == 0 or (code == 1 and bool(found["failed"]))
        return cls(found["counts"], found["failed"], finished=explained)


def run(lanes: Sequence[Lane]) -> dict[str, Outcome]:
    """Run lanes side by side.

    Args:
        lanes: At most one that prints to the terminal.

    Returns:
        By name of lane.
    """
    begun = time.monotonic()
    running = {lane: lane.start() for lane in lanes}
    try:
        outcomes = {lane.name: Outcome.of(lane, process.wait()) for lane, process in running.items()}
    finally:
        for process in running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait()
    for lane in lanes:
        if lane.aside:
            print(f"--- {lane.name}, from {lane.log.relative_to(ROOT)} ---")
            print("\n".join(lane.log.read_text(errors="replace").splitlines()[-400:]))
        print(f"=== {lane.name}: {outcomes[lane.name].counts}, {time.monotonic() - begun:.0f} s ===", flush=True)
    return outcomes


def main() -> int:
    """Run every lane; the exit code."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job would hand "ignore" down to tests
    BUILD.mkdir(exist_ok=True)
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failed: list[str] = []
    finished = True
    for lanes in TOGETHER:
        for outcome in run(lanes).values():
            failed += outcome.failed
            finished &= outcome.finished
            for kind, number in outcome.counts.items():
                counts[kind] += number
    if finished and 0 < len(failed) <= SECOND_CHANCES:
        print("Once more, with nothing beside them:", *failed, sep="\n  ", flush=True)
        again = run([Lane("again", tuple(failed))])["again"]
        finished &= again.finished and again.counts.get("passed") == len(failed)
        if finished:
            print("Passed alone, failed beside others:", *failed, sep="\n  ")
            counts["passed"] += len(failed)
            counts["failed"] -= len(failed)
    if not finished:
        print("A lane did not come to its end; see above.")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 0 if finished and counts["failed"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
