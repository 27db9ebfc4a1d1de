"""Durations of tests are kept over several runs, and processor time includes that of child processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import durations
from tests.support.durations import Duration


def test_a_test_has_the_duration_of_its_last_run(tmp_path: Path) -> None:
    file = tmp_path / "build/durations.txt"
    assert durations.read(file) == {}
    durations.keep({"a.py::one[x\\ty]": Duration(1, 0.5), "a.py::two": Duration(2, 0)}, file)
    durations.keep({"a.py::two": Duration(3, 0.25)}, file)
    assert durations.read(file) == {"a.py::one[x\\ty]": Duration(1, 0.5), "a.py::two": Duration(3, 0.25)}
    assert [path.name for path in file.parent.iterdir()] == ["durations.txt"]


@pytest.mark.parametrize(
    ("test", "suite"),
    [
        ("tests/unit/operator/kube/test_store.py::test[a::b]", "tests/unit/operator"),
        ("tests/contract/api/shared/test_limited_http.py::test", "tests/contract/api"),
        ("tests/e2e/cluster/test_quota.py::test", "tests/e2e"),
    ],
)
def test_suites_are_folders(test: str, suite: str) -> None:
    assert durations.suite(test) == suite


def test_processor_time_has_children_that_run_and_that_have_ended() -> None:
    before = durations.processor_seconds()
    program = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline()
        running = durations.processor_seconds()
    ended = durations.processor_seconds()
    assert before + 0.25 < running <= ended + 0.02
