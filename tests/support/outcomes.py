"""A pytest plugin: `--outcome FILE` writes what came of a run as JSON.

Its shape: {"counts": {"passed": 3, "failed": 1, "skipped": 0}, "failed": [node ids]}. What a failure says is added to
FILE with the ending .failures when it happens: such a run takes long, and pytest itself tells at its end.
"""

import json
import re
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option."""
    parser.addoption("--outcome", type=Path, metavar="FILE", help="write counts and failed tests there, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Only the process that hears of every test writes; xdist's workers do not."""
    path = config.getoption("outcome")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path))


_GROUP = re.compile(r"@(faults|[\w/]+\.py)$")  # what `--dist loadgroup` adds to the names of tests that stay together


class Recorder:
    """What came of each test: a test is one, whatever its set-up and tear-down said besides."""

    def __init__(self, path: Path) -> None:
        """Record for this file."""
        self._path = path
        self._of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test has ended."""
        node = _GROUP.sub("", report.nodeid)
        if report.failed:
            self._of[node] = "failed"
            with self._path.with_suffix(".failures").open("a") as told:
                told.write(f"=== {node}, {report.when} ===\n{report.longreprtext}\n{report.capstderr}\n\n")
        elif node not in self._of and (report.skipped or report.when == "call"):
            self._of[node] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write it."""
        outcomes = list(self._of.values())
        counts = {kind: outcomes.count(kind) for kind in ("passed", "failed", "skipped")}
        failed = [node for node, outcome in self._of.items() if outcome == "failed"]
        self._path.write_text(json.dumps({"counts": counts, "failed": failed}))
