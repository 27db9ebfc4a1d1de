"""How long events wait for more: a small part of a file's age, and not longer than the default for a handler."""

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import Processing, Roll
from eventconsumer_host.amqp.hub import FILE_SECONDS, linger_seconds
from eventconsumer_host.amqp.link import LINGER_SECONDS


@given(st.integers(1, 3600))
def test_events_for_files_wait_for_a_small_part_of_the_age_of_a_file(age: int) -> None:
    found = linger_seconds(Roll(max_seconds=age), Processing())
    assert LINGER_SECONDS <= found <= FILE_SECONDS
    assert found <= max(LINGER_SECONDS, age / 20)
    assert found == FILE_SECONDS or age < 10


def test_events_for_a_handler_do_not_wait_longer_than_ever() -> None:
    assert linger_seconds(Roll(), Processing(handler="shop:Orders")) == LINGER_SECONDS
