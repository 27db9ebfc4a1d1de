import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor.partition import holes
from eventconsumer_processor.sink import gaps
from eventconsumer_processor.sink.gaps import Gap, GapReason


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


NUMBERS = st.integers(0, 2**63 - 1)
GAPS = st.lists(st.builds(Gap, NUMBERS, NUMBERS, st.sampled_from(GapReason), st.one_of(st.none(), NUMBERS)))


@given(GAPS)
def test_gaps_are_read_as_written(found: list[Gap]) -> None:
    assert sorted(gaps.parse(gaps.text(found)), key=repr) == sorted(found, key=repr)


def test_gaps_are_written_as_ranges_by_reason() -> None:
    found = [Gap(3, 9, GapReason.FOREIGN), Gap(17, 20), Gap(22, 22)]
    assert gaps.text(found) == "foreign:3-9;retention:17-20,22-22"
    assert gaps.text([Gap(17, 90, GapReason.COMPACTION, 31)]) == "compaction:17-90/31"
    assert gaps.text([]) == ""
    assert gaps.parse("retention:x-3,4-5;unheard:1-2") == [Gap(4, 5)]
