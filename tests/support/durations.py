"""How long each test takes: pytest keeps it in `build/durations.txt`, and `make durations` shows it.

A line is a test: seconds, seconds of processor time, its name; of each test the last run. Processor time is that of the
test's process and of all that it started and has not left behind; the local cluster's is not among it.
"""

import argparse
import os
import resource
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = Path(__file__).parents[2] / "build/durations.txt"
TICKS = os.sysconf("SC_CLK_TCK")
SUITES_OF = ("contract", "integration", "unit")  # a suite is a folder of tests; of these, of their folders


class Duration(NamedTuple):
    """Seconds that a test took, with its fixtures, and seconds of processor time."""

    seconds: float
    cpu: float


def read(file: Path = FILE) -> dict[str, Duration]:
    """Durations by test; none where the file is missing."""
    if not file.exists():
        return {}
    lines = (line.split("\t", 2) for line in file.read_text().splitlines())
    return {test: Duration(float(seconds), float(cpu)) for seconds, cpu, test in lines}


def keep(durations: dict[str, Duration], file: Path = FILE) -> None:
    """Add durations to the file's; a test has its last."""
    file.parent.mkdir(exist_ok=True)
    fresh = file.with_suffix(f".{os.getpid()}")
    all_of_them = sorted((read(file) | durations).items())
    fresh.write_text("".join(f"{took.seconds:.3f}\t{took.cpu:.3f}\t{test}\n" for test, took in all_of_them))
    fresh.replace(file)


def suite(test: str) -> str:
    """The suite of a test: `tests/unit/operator`, `tests/e2e`."""
    parts = test.partition("::")[0].split("/")
    return "/".join(parts[: 3 if parts[1] in SUITES_OF and len(parts) > 3 else 2])


def processor_seconds() -> float:
    """Seconds of processor time of this process and of all below it, those that have ended too."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    here = resource.getrusage(resource.RUSAGE_SELF)
    return here.ru_utime + here.ru_stime + ended.ru_utime + ended.ru_stime + _below(os.getpid())


def _below(process: int) -> float:
    return sum(_of(child) + _below(child) for child in _children(process))


def _children(process: int) -> list[int]:
    try:
        return [int(child) for task in Path(f"/proc/{process}/task").iterdir() for child in _words(task / "children")]
    except OSError:
        return []  # it has ended


def _words(file: Path) -> list[str]:
    return file.read_text().split()


def _of(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / TICKS  # its own, and of its children that have ended


class Measure:
    """The plugin: each process measures its tests, and the one that prints the results keeps them."""

    def __init__(self) -> None:
        self._used = processor_seconds()
        self._durations: dict[str, Duration] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the processor time since the last report; xdist passes it on."""
        report = yield
        used, self._used = self._used, processor_seconds()
        report.cpu = max(0.0, self._used - used)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test: its set-up, its call or its end."""
        seconds, cpu = self._durations.get(report.nodeid, Duration(0.0, 0.0))
        self._durations[report.nodeid] = Duration(seconds + report.duration, cpu + getattr(report, "cpu", 0.0))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, unless this process only works for another."""
        if not hasattr(session.config, "workerinput"):
            # A test of these hooks runs tests of its own, from another folder.
            keep({test: took for test, took in self._durations.items() if test.startswith("tests/")})


def _table(rows: Iterable[tuple[str, Duration, int]]) -> None:
    print(f"{'tests':>6} {'seconds':>8} {'cpu':>8} {'waiting':>8}")
    for name, took, number in rows:
        print(f"{number:6} {took.seconds:8.1f} {took.cpu:8.1f} {max(0.0, took.seconds - took.cpu):8.1f}  {name}")


def main() -> int:
    """Show suites and the slowest tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.durations", description=main.__doc__)
    parser.add_argument("--slowest", type=int, default=30, help="number of tests")
    parser.add_argument("paths", nargs="*", default=["tests"], help="folders, files or tests; all by default")
    arguments = parser.parse_args()
    durations = {test: took for test, took in read().items() if test.startswith(tuple(arguments.paths))}
    if not durations:
        print(f"{FILE} has no such tests: run them")
        return 1
    suites: dict[str, list[Duration]] = defaultdict(list)
    for test, took in durations.items():
        suites[suite(test)].append(took)
    totals = [(name, Duration(*map(sum, zip(*took, strict=True))), len(took)) for name, took in suites.items()]
    _table([*sorted(totals), ("in all", Duration(*map(sum, zip(*durations.values(), strict=True))), len(durations))])
    slowest = sorted(durations.items(), key=lambda item: -item[1].seconds)[: arguments.slowest]
    _table((test, took, 1) for test, took in slowest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
