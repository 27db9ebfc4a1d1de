"""A continuing problem is logged once, then every five minutes, then its end; another cause is logged at once."""

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.shared.log_throttle import REPEAT_SECONDS, LogThrottle
from tests.support.clocks import ManualClock


def test_once_then_after_five_minutes_with_the_count_then_the_end() -> None:
    repeats = LogThrottle(clock := ManualClock())
    assert repeats.again("leases", "no answer") == 1
    for _ in range(9):
        clock.now += 1
        assert repeats.again("leases", "no answer") == 0
    clock.now += REPEAT_SECONDS
    assert repeats.again("leases", "no answer") == 11
    assert repeats.over("leases") == 11
    assert repeats.over("leases") == 0


def test_another_cause_and_another_thing_are_logged_at_once() -> None:
    repeats = LogThrottle(ManualClock())
    assert repeats.again("leases", "no answer") == 1
    assert repeats.again("leases", "forbidden") == 2
    assert repeats.again("sink", "forbidden") == 1
    assert repeats.over("sink") == 1
    assert repeats.again("leases", "forbidden") == 0


@given(st.lists(st.tuples(st.floats(0, 400), st.booleans()), max_size=60))
def test_nothing_is_forgotten_and_nothing_logged_too_often(steps: list[tuple[float, bool]]) -> None:
    repeats, wrong, said = LogThrottle(clock := ManualClock()), 0, -REPEAT_SECONDS
    for seconds, fails in steps:
        clock.now += seconds
        if not fails:
            assert repeats.over("x") == wrong
            wrong, said = 0, -REPEAT_SECONDS
            continue
        wrong += 1
        times = repeats.again("x")
        assert times in {0, wrong}
        assert (times > 0) == (clock.now - said >= REPEAT_SECONDS)
        said = clock.now if times else said
