"""The search for failing files, over every mixture of good, bad and fickle ones."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_spark.attempt.unprocessable import budget, search
from eventconsumer_spark.errors import SearchError


class SearchWorld:
    """Runs that fail where a bad item is among them."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.runs: list[list[int]] = []

    def fails(self, items: Sequence[int]) -> str | None:
        """Why these fail together: the first bad one."""
        self.runs.append(list(items))
        return next((f"bad {item}" for item in items if item in self.bad), None)


@given(st.integers(1, 300), st.data())
def test_exactly_the_bad_items_are_found_in_few_runs(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=4))
    world = SearchWorld(bad)
    assert search(range(count), world.fails) == {item: f"bad {item}" for item in bad}
    assert len(world.runs) <= budget(count)
    # Each was seen to fail alone, twice, the first failure of a single item included.
    for item in bad:
        assert world.runs.count([item]) >= (2 if count > 1 else 1)


def test_runs_are_bounded_where_everything_fails() -> None:
    world = SearchWorld(set(range(5000)))
    with pytest.raises(SearchError, match=f"stopped after {budget(5000)} runs"):
        search(range(5000), world.fails)
    assert len(world.runs) == budget(5000) == 112


def test_all_of_a_few_are_found() -> None:
    assert set(search(range(4), SearchWorld(set(range(4))).fails)) == set(range(4))


def test_fault_that_has_passed_holds_against_no_item() -> None:
    with pytest.raises(SearchError, match="no file fails alone"):
        search(range(8), SearchWorld(set()).fails)


def test_item_that_fails_once_is_not_found() -> None:
    failures = iter(["down"])

    def fails(items: Sequence[int]) -> str | None:
        return next(failures, None) if list(items) == [3] else "bad 5" if 5 in items else None

    assert search(range(8), fails) == {5: "bad 5"}


def test_items_that_fail_only_together_are_not_found() -> None:
    with pytest.raises(SearchError, match="no file fails alone"):
        search(range(8), lambda items: "both" if {1, 6} <= set(items) else None)


def test_error_of_a_run_ends_the_search() -> None:
    def fails(items: Sequence[int]) -> str | None:
        raise ConnectionError("storage is down")

    with pytest.raises(ConnectionError):
        search(range(8), fails)
