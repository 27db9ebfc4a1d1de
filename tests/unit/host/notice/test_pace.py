"""When a partition's notice is sent again, and which failure somebody must act on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_host.errors import NoticeFailed
from eventconsumer_host.notice import pace
from eventconsumer_host.notice.pace import Failing, Failure
from eventconsumer_storage.errors import Unavailable

BRIEF = NoticeFailed("f", "HTTP 503")
LASTING = NoticeFailed("f", "HTTP 404", lasting=True)
REFUSED = NoticeFailed("f", "HTTP 400", lasting=True, only_this=True)
SECRET = Blocked("f", Reason.NOTICES_FAILING, "the Secret is missing")
STORAGE = Unavailable("HTTP 500")


@given(st.integers(1, 100), st.floats(0, 1), st.floats(0, 1e6), st.floats(0, 600))
def test_pauses_double_up_to_a_limit_unless_the_endpoint_asks_for_more(
    times: int, share: float, now: float, asked: float
) -> None:
    error, found = NoticeFailed("f", "HTTP 429", retry_after=asked), None
    for _ in range(times):
        found = pace.failed(found, error, now, share)
    assert found
    longest = min(pace.LONGEST_SECONDS, pace.FIRST_SECONDS * 2**times)
    assert max(asked, longest / 2) <= found.due - now + 1e-6 and found.due - now <= max(asked, longest) + 1e-6
    assert (found.times, found.since) == (times, now)


def test_a_failing_or_busy_partition_does_not_hold_another_one_up() -> None:
    failing = {"0": Failing(BRIEF, 1, 0, due=100), "1": Failing(BRIEF, 1, 0, due=5), "2": Failing(BRIEF, 1, 0, due=4)}
    assert pace.due(["0", "1", "2", "3", "4"], failing, {"3"}, 5) == ["4", "2", "1"]


@pytest.mark.parametrize(
    ("errors", "shown"),
    [
        ([], None),
        ([BRIEF], None),
        ([BRIEF, REFUSED], REFUSED),
        ([REFUSED, LASTING], LASTING),
        ([REFUSED, SECRET], SECRET),
        ([LASTING, STORAGE], STORAGE),
    ],
)
def test_the_most_general_failure_that_needs_an_action_is_shown(errors: list[Failure], shown: Failure | None) -> None:
    assert pace.problem([Failing(error, 1, 100, 101) for error in errors], 130) is shown


def test_an_endpoint_that_does_not_respond_for_a_minute_is_shown() -> None:
    assert pace.problem([Failing(BRIEF, 9, 100, 170)], 100 + pace.PATIENCE_SECONDS) is BRIEF
