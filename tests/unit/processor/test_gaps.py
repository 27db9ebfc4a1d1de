from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor import gaps
from eventconsumer_processor.gaps import Gap, GapReason


@given(st.integers(0, 50), st.sets(st.integers(0, 100), min_size=1))
def test_numbers_and_gaps_cover_the_stretch_exactly_once(expected: int, present: set[int]) -> None:
    numbers = sorted(number for number in present if number >= expected)
    found = gaps.find(expected, numbers)
    missing = [number for gap in found for number in range(gap.first, gap.last + 1)]
    assert sorted([*missing, *numbers]) == list(range(expected, numbers[-1] + 1 if numbers else expected))
    assert sum(map(len, found)) == len(missing)


GAPS = st.lists(st.builds(Gap, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.sampled_from(GapReason)))


@given(GAPS)
def test_what_is_written_can_be_read(found: list[Gap]) -> None:
    assert sorted(gaps.parse(gaps.text(found)), key=repr) == sorted(found, key=repr)


def test_gaps_are_written_as_ranges_by_reason() -> None:
    found = [Gap(3, 9, GapReason.FOREIGN), Gap(17, 20), Gap(22, 22)]
    assert gaps.text(found) == "foreign:3-9;retention:17-20,22-22"
    assert gaps.text([]) == ""
    assert gaps.parse("retention:x-3,4-5;unheard:1-2") == [Gap(4, 5)]
