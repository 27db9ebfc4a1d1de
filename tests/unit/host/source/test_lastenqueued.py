"""The runtime metrics in an event's delivery annotations: read where they are whole, else there are none."""

import contextlib
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.messages import delivery_annotations
from eventconsumer_host.source.lastenqueued import LastEnqueued, last_enqueued
from eventhubs_emulator.codec import encode
from eventhubs_emulator.messages import runtime_metrics
from eventhubs_emulator.values import Described, ULong

HEADER = encode(Described(ULong(0x70), [True]))
BODY = encode(Described(ULong(0x75), b"body"))
WHOLE: dict[bytes, Any] = {
    b"last_enqueued_sequence_number": 5,
    b"last_enqueued_offset": b"50",
    b"last_enqueued_time_utc": 1000,
    b"runtime_info_retrieval_time_utc": 2000,
}
READ = LastEnqueued(5, "50", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC))


def test_they_are_found_behind_a_header_and_before_the_body() -> None:
    section = runtime_metrics(5, "50", 1000, 2000)
    for message in (section + BODY, HEADER + section + BODY):
        assert last_enqueued(delivery_annotations(message)) == READ
    for message in (BODY, HEADER + BODY, b""):
        assert last_enqueued(delivery_annotations(message)) is None


@given(st.sampled_from(sorted(WHOLE)), st.none() | st.text() | st.lists(st.integers()) | st.just(2**62))
def test_what_is_not_whole_is_none(name: bytes, value: Any) -> None:
    assert last_enqueued(WHOLE) == READ
    assert last_enqueued({key: item for key, item in WHOLE.items() if key != name}) is None
    found = last_enqueued(WHOLE | {name: value})
    assert found is None or name == b"last_enqueued_sequence_number"


@given(st.binary(max_size=60))
def test_damaged_messages_are_an_error_or_have_none(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        assert last_enqueued(delivery_annotations(data)) is None
