"""The places of partitions and their record; the cursor on storage is in `test_notifier`."""

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.notice.cursor import (
    NoticePosition,
    NoticePositions,
    joined,
    later,
    parsed,
    places_of,
    record_of,
)
from tests.unit.host.chains import NOON

ORDER = ("first", "second", "third")
SOME_PLACE = st.builds(NoticePosition, st.sampled_from(ORDER), st.none() | st.integers(0, 1 << 62))
SOME_PLACES = st.builds(NoticePositions, st.sampled_from(ORDER), st.dictionaries(st.sampled_from("0123"), SOME_PLACE))


@given(SOME_PLACES)
def test_a_record_has_every_place(places: NoticePositions) -> None:
    data = record_of(places, "c", NOON).model_dump_json(by_alias=True).encode()
    read = places_of(parsed(data))
    assert read.segment_id == places.segment_id
    for partition in "01234":
        assert read.of(partition) == places.of(partition)


@given(SOME_PLACES, SOME_PLACES)
def test_no_place_moves_back(stored: NoticePositions, known: NoticePositions) -> None:
    found = joined(stored, known, ORDER)
    for partition in known.known.keys() | stored.known.keys():
        places = [each.known[partition] for each in (stored, known) if partition in each.known]
        for place in places:
            assert later(found.of(partition), place, ORDER) == found.of(partition)
    assert joined(found, known, ORDER) == found


def test_a_later_segment_is_later_at_any_number() -> None:
    assert later(NoticePosition("first", 900), NoticePosition("second"), ORDER) == NoticePosition("second")
    assert later(NoticePosition("second", 0), NoticePosition("second"), ORDER) == NoticePosition("second", 0)
