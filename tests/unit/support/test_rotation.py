"""Every long test is in one group of the rotation, and CI's choice depends on the commit alone."""

import re
import sys
from pathlib import Path

import pytest

from tests.support import rotation
from tests.support.rotation import GROUPS, MINUTES, ROOT, Green

LONG = re.compile(r"mark\.long\b|^@simulated\(", re.MULTILINE)
GREEN = Green("2026-01-02", "0123456789ab", 3.5)


def test_every_long_test_is_in_exactly_one_group() -> None:
    tests = [file for file in ROOT.glob("tests/**/test_*.py") if LONG.search(file.read_text())]
    names = {str(file.relative_to(ROOT)) for file in tests} - {str(Path(__file__).relative_to(ROOT))}
    assert len(names) > 40
    groups = {name: [group for group, each in GROUPS.items() if _has(each.paths, name)] for name in names}
    assert {name: found for name, found in groups.items() if len(found) != 1} == {}


def _has(paths: tuple[str, ...], name: str) -> bool:
    ignored = tuple(path.removeprefix("--ignore=") for path in paths if path.startswith("--"))
    return not name.startswith(ignored) and any(name == path or name.startswith(f"{path}/") for path in paths)


def test_every_path_of_a_group_has_long_tests() -> None:
    paths = [path for group in GROUPS.values() for path in group.paths if not path.startswith("--")]
    for path in paths:
        files = [ROOT / path] if path.endswith(".py") else [*(ROOT / path).glob("**/test_*.py")]
        assert any(LONG.search(file.read_text()) for file in files), path


def test_a_comment_beside_the_mark_names_tests_that_exist() -> None:
    comments = [
        (file, comment)
        for file in ROOT.glob("tests/**/test_*.py")
        for comment in re.findall(r"mark\.long.*  # (.*)", file.read_text())
    ]
    named = [(file, path) for file, comment in comments for path in re.findall(r"\w+/[\w/.]+|test_\w+\.py", comment)]
    assert len(named) > 10
    assert [(file, path) for file, path in named if not any(ROOT.glob(f"tests/**/{path}"))] == []


def test_ci_chooses_by_the_commit_among_green_groups_that_fit() -> None:
    long = GREEN._replace(minutes=10.5)
    greens = dict.fromkeys(["advisories", "fuzz", "java", "a group that was removed", "mutants"], GREEN) | {
        "chaos": long
    }
    names = rotation.for_ci(greens)
    assert names == ["fuzz", "java", "mutants"]
    assert {rotation.chosen(f"{number:040x}", names)[0] for number in range(3)} == set(names)
    assert rotation.chosen("ff" * 20, names) == rotation.chosen("ff" * 20, names[::-1])
    assert rotation.chosen("ff" * 20, []) == []


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_text("# what it is\n")
    rotation.record({"java": GREEN, "fuzz": GREEN}, file)
    assert file.read_text().splitlines()[0] == "# what it is"
    assert rotation.recorded(file) == {"fuzz": GREEN, "java": GREEN}


def test_the_record_of_the_repository_names_groups_and_times_that_fit() -> None:
    for name, green in rotation.recorded().items():
        assert green.minutes <= GROUPS[name].minutes


@pytest.mark.parametrize(
    ("program", "seconds", "code"),
    [("raise SystemExit(3)", 30, 3), ("import time; time.sleep(60)", 0.5, None)],
    ids=["fails", "takes too long"],
)
def test_a_group_ends_in_its_time(program: str, seconds: float, code: int | None) -> None:
    assert rotation.run_command((sys.executable, "-c", program), seconds) == code
    assert max(group.minutes for name, group in GROUPS.items() if name != "chaos") == MINUTES
