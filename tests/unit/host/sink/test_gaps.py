import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.partition import holes
from eventconsumer_host.sink import gaps
from eventconsumer_host.sink.gaps import Gap, GapReason


@given(st.integers(0, 50), st.sets(st.integers(0, 100), min_size=1), st.integers(0, 110))
def test_events_and_removed_numbers_cover_the_stretch_once(expected: int, present: set[int], earliest: int) -> None:
    rising = sorted(number for number in present if number >= expected) or [expected]
    numbers = np.array(rising)
    missing = sorted(set(range(expected, rising[-1])) - set(rising))
    lost = holes.removed(holes.missing(expected, numbers), earliest)
    assert [number for gap in lost for number in range(gap.first, gap.last + 1)] == [
        number for number in missing if number < earliest
    ]
    rest = [number for number in missing if number >= earliest]
    found = holes.counted(holes.rest(expected, numbers, lost))
    assert [(gap.first, gap.last, len(gap)) for gap in found] == ([(rest[0], rest[-1], len(rest))] if rest else [])


NUMBERS = st.integers(1, 2**63 - 1)


@st.composite
def a_gap(draw: st.DrawFn) -> Gap:
    """A gap of any possible size."""
    first, last = sorted((draw(NUMBERS), draw(NUMBERS)))
    count = draw(st.none() | st.integers(1, last - first + 1))
    return Gap(first, last, draw(st.sampled_from(GapReason)), count)


GAPS = st.lists(a_gap())


@given(GAPS)
def test_gaps_are_read_as_written(found: list[Gap]) -> None:
    assert sorted(gaps.parse(gaps.text(found)), key=repr) == sorted(found, key=repr)


def test_gaps_are_written_as_ranges_by_reason() -> None:
    found = [Gap(3, 9, GapReason.FOREIGN), Gap(17, 20), Gap(22, 22)]
    assert gaps.text(found) == "foreign:3-9;retention:17-20,22-22"
    assert gaps.text([Gap(17, 90, GapReason.COMPACTION, 31)]) == "compaction:17-90/31"
    assert gaps.text([]) == ""
    assert gaps.parse("retention:x-3,4-5;unheard:1-2") == [Gap(4, 5)]


@pytest.mark.parametrize("wrong", ["5-3", "1-2/0", "1-2/3", f"0-{1 << 63}", "1-" + "9" * 5000])
def test_a_range_without_a_possible_size_is_ignored(wrong: str) -> None:
    assert gaps.parse(f"retention:{wrong},7-9") == [Gap(7, 9)]
