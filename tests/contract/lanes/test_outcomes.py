"""What a lane reports of its tests, and what becomes of a failure, with pytest itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import lanes
from tests.support.lanes import Lane, Outcome
from tests.support.patience import patiently

ROOT = Path(__file__).parents[3]
CASES = """
import pytest
from pathlib import Path
HERE = Path(__file__).parent

def test_passes(): pass
def test_fails(): assert not (HERE / "fail").exists()
def test_fails_once():
    first = not (HERE / "seen").exists()
    (HERE / "seen").touch()
    assert not first
@pytest.fixture
def broken(): raise OSError("no server")
def test_stands_on_it(broken): pass
@pytest.fixture
def untidy():
    yield
    raise OSError("not closed")
def test_leaves_something(untidy): pass
def test_skipped(): pytest.skip("not here")
@pytest.mark.xdist_group("contract/operator/test_x.py")
def test_in_a_group(): assert not (HERE / "fail").exists()
"""


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "test_cases.py"
    path.write_text(CASES)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return path


@pytest.mark.parametrize("processes", [0, 2])
def test_every_kind_of_failure_is_named_so_that_it_can_be_run_again(cases: Path, tmp_path: Path, processes: int):
    (tmp_path / "fail").touch()
    outcome = tmp_path / "outcome.json"
    code = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.support.outcomes",
            "--outcome",
            str(outcome),
            "-c",
            tmp_path / "pytest.ini",
        ]
        + (["-n", str(processes), "--dist=loadgroup"] if processes else [])
        + ["--rootdir", tmp_path, cases],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        check=False,
    ).returncode
    found = json.loads(outcome.read_text())
    assert code == 1
    assert found["counts"] == {"passed": 1, "failed": 5, "skipped": 1}
    names = {"fails", "fails_once", "stands_on_it", "leaves_something", "in_a_group"}
    assert set(found["failed"]) == {f"test_cases.py::test_{name}" for name in names}


@pytest.mark.parametrize(
    ("code", "written", "finished"),
    [
        (0, {"counts": {"passed": 1}, "failed": []}, True),
        (1, {"counts": {"failed": 1}, "failed": ["a"]}, True),
        (1, {"counts": {"passed": 1}, "failed": []}, False),  # something outside of tests failed
        (2, {"counts": {"failed": 1}, "failed": ["a"]}, False),  # interrupted, or a file that cannot be imported
        (-9, None, False),
        (5, {"counts": {}, "failed": []}, False),  # no test at all
    ],
)
def test_a_lane_that_did_not_come_to_its_end_is_not_taken_for_one_that_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, written: object, finished: bool
):
    monkeypatch.setattr(lanes, "BUILD", tmp_path)
    lane = Lane("some", ())
    if written is not None:
        lane.outcome.write_text(json.dumps(written))
    assert Outcome.of(lane, code).finished is finished


def _outcomes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: Outcome, again: Outcome | None
) -> tuple[int, list]:
    asked = []

    def run(chosen):
        asked.append([lane.name for lane in chosen])
        if [lane.name for lane in chosen] == ["again"]:
            assert again is not None
            return {"again": again}
        return {lane.name: first if lane.name == "e2e" else Outcome({"passed": 1}, [], True) for lane in chosen}

    monkeypatch.setattr(lanes, "BUILD", tmp_path)
    monkeypatch.setattr(lanes, "run", run)
    return lanes.main(), asked


@pytest.mark.parametrize(
    ("first", "again", "code"),
    [
        (Outcome({"passed": 3}, [], True), None, 0),
        (Outcome({"passed": 2, "failed": 1}, ["a"], True), Outcome({"passed": 1}, [], True), 0),
        (Outcome({"passed": 2, "failed": 1}, ["a"], True), Outcome({"failed": 1}, ["a"], True), 1),
        (Outcome({"passed": 2, "failed": 1}, ["a"], True), Outcome({}, [], False), 1),
        (Outcome({"passed": 2, "failed": 1}, ["a"], True), Outcome({"skipped": 1}, [], True), 1),
        (Outcome({"passed": 2, "failed": 1}, ["a"], False), None, 1),
        (Outcome({"passed": 2, "failed": 13}, list("abcdefghijklm"), True), None, 1),
        (Outcome({}, [], False), None, 1),
    ],
)
def test_a_failure_has_one_second_chance_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Outcome, again: Outcome | None, code: int
):
    answer, asked = _outcomes(monkeypatch, tmp_path, first, again)
    assert answer == code
    assert asked == [["faults"], ["e2e", "suites"]] + ([["again"]] if again else [])


@pytest.mark.timeout(7)
def test_time_limits_are_patient(request: pytest.FixtureRequest):
    assert request.node.get_closest_marker("timeout").args[0] == patiently(7)
