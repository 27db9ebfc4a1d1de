"""Results of benchmarks in docs/benchmarks, and how they are written."""

import json
from pathlib import Path

import pytest

from tests.bench.results import FOLDER, GOALS, Goal, Row, read, table, write

ENTRIES = json.loads((FOLDER / "latest.json").read_text())


def test_the_rows_in_docs_are_complete() -> None:
    names = [entry["name"] for entry in ENTRIES]
    assert {"drain_1k_vs_sdk", "receive_1k_vs_go"} <= set(names)
    assert len(names) == len(set(names))
    for entry in ENTRIES:
        assert entry.keys() == {"name", "unit", "ours", "peer", "ratio"}
        assert entry["unit"]
        assert entry["ours"] >= 0
        assert (entry["peer"] is None) == (entry["ratio"] is None)
        if entry["peer"] is not None:
            assert entry["ratio"] == pytest.approx(entry["ours"] / entry["peer"], rel=0.01)


def test_the_page_shows_the_rows_and_the_pictures_that_are_there() -> None:
    page = (FOLDER / "README.md").read_text()
    assert table(read()) in page
    for part in page.split("](")[1:]:
        assert (FOLDER / part.partition(")")[0]).exists()


def test_goals_are_of_rows_that_benchmarks_give() -> None:
    idle = "storage_calls_idle_32_on_8"
    rare = {"memory_growth_10m", idle, f"{idle}_table"}  # not measured in each round: see docs/benchmarks
    assert {goal.row for goal in GOALS} - rare <= {entry["name"] for entry in ENTRIES}


def test_rows_replace_those_of_the_same_name_and_keep_others(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("before\n<!-- figures -->\nold\n<!-- end of figures -->\nbehind\n")
    write([Row("a", "s", 1.0, 2.0), Row("b", "s", 123456.7)], tmp_path)
    assert write([Row("a", "s", 3.0, 2.0)], tmp_path) == [Row("a", "s", 3.0, 2.0), Row("b", "s", 123500.0)]
    assert json.loads((tmp_path / "latest.json").read_text())[0] == {
        "name": "a",
        "unit": "s",
        "ours": 3.0,
        "peer": 2.0,
        "ratio": 1.5,
    }
    page = (tmp_path / "README.md").read_text()
    assert page.startswith("before\n<!-- figures -->\n| row")
    assert page.endswith("<!-- end of figures -->\nbehind\n")
    assert page.count("`a`") == 1
    assert "old" not in page


@pytest.mark.parametrize(
    ("goal", "row", "met"),
    [
        (Goal("a", "ratio", 5, least=True), Row("a", "s", 10.0, 2.0), True),
        (Goal("a", "ratio", 5, least=True), Row("a", "s", 9.9, 2.0), False),
        (Goal("a", "ratio", 1.5), Row("a", "s", 3.0, 2.0), True),
        (Goal("a", "ratio", 1.5), Row("a", "s", 3.0), False),
        (Goal("a", "ours", 2), Row("a", "s", 2.1, 9.0), False),
    ],
)
def test_a_goal_is_met_or_missed(goal: Goal, row: Row, met: bool) -> None:
    assert goal.met(row) is met
    assert (row.name, str(goal)) == ("a", f"{goal.field} {'≥' if goal.least else '≤'} {goal.bound:g}")
