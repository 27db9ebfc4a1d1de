"""Credit: both bounds hold, and a reader is never left without."""

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor.source.amqp.credit import BUDGET_BYTES, FIRST_EVENT_BYTES, grant

MIB = 1024 * 1024


def test_small_events_are_bounded_by_their_number() -> None:
    assert grant(prefetch=300, credit=0, waiting=0, held=0, typical=100) == 300
    assert grant(prefetch=300, credit=151, waiting=0, held=0, typical=100) is None
    assert grant(prefetch=300, credit=150, waiting=0, held=0, typical=100) == 300
    assert grant(prefetch=300, credit=0, waiting=290, held=29_000, typical=100) is None
    assert grant(prefetch=300, credit=0, waiting=150, held=15_000, typical=100) == 150


def test_large_events_are_bounded_by_their_bytes() -> None:
    assert grant(prefetch=3000, credit=0, waiting=0, held=0, typical=MIB) == 4
    assert grant(prefetch=3000, credit=0, waiting=3, held=3 * MIB, typical=MIB) is None
    assert grant(prefetch=3000, credit=0, waiting=0, held=0, typical=20 * MIB) == 1
    assert grant(prefetch=3000, credit=0, waiting=0, held=0, typical=FIRST_EVENT_BYTES) == 64


def test_credit_is_taken_back_when_events_are_larger_than_thought() -> None:
    assert grant(prefetch=3000, credit=2000, waiting=9, held=9 * MIB, typical=1000) == 0
    assert grant(prefetch=3000, credit=0, waiting=9, held=9 * MIB, typical=1000) is None


@given(st.integers(1, 5000), st.lists(st.integers(1, 2 * MIB), min_size=1, max_size=400), st.integers(1, 400))
def test_every_event_comes_and_what_waits_is_bounded(prefetch: int, sizes: list[int], most: int) -> None:
    credit, waiting, typical = 0, [], FIRST_EVENT_BYTES
    coming = list(sizes)
    seen: list[int] = []
    taken = 0
    while taken < len(sizes):
        moved = False
        granted = grant(prefetch=prefetch, credit=credit, waiting=len(waiting), held=sum(waiting), typical=typical)
        if granted is not None:
            moved = granted != credit
            credit, seen = granted, []
        if credit and coming:
            waiting.append(coming.pop(0))
            seen.append(waiting[-1])
            typical = sum(seen) // len(seen)
            credit -= 1
            moved = True
        assert len(waiting) <= prefetch
        assert sum(waiting) <= BUDGET_BYTES + 2 * MIB
        if not moved:  # the reader is the only one who can go on
            assert waiting, "nothing waits and nothing may come"
            taken += len(waiting[:most])
            del waiting[:most]
