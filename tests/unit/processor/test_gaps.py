from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor import gaps


@given(st.integers(0, 50), st.sets(st.integers(0, 100), min_size=1))
def test_numbers_and_gap_cover_the_stretch_exactly_once(expected: int, present: set[int]) -> None:
    numbers = sorted(number for number in present if number >= expected)
    gap = gaps.find(expected, numbers)
    missing = [number for first, last in gap.ranges for number in range(first, last + 1)]
    assert sorted([*missing, *numbers]) == list(range(expected, numbers[-1] + 1 if numbers else expected))
    assert gap.events == len(missing)


def test_a_gap_is_written_as_ranges_and_told_with_a_remedy() -> None:
    gap = gaps.find(17, [21, 23])
    assert str(gap) == "17-20,22-22"
    assert "events 17-20,22-22 of partition 3 were removed" in gaps.problem("3", gap).message
