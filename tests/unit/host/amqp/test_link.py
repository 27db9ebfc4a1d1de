"""Credit: both bounds hold, and a reader is never left without credit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.amqp.link import FIRST_EVENT_BYTES, grant

MIB = 1024 * 1024
BUDGET_BYTES = 4 * MIB


@pytest.mark.parametrize(
    ("prefetch", "credit", "waiting", "typical", "budget", "granted"),
    [
        # Small events are bounded by their number.
        (300, 0, 0, 100, BUDGET_BYTES, 300),
        (300, 151, 0, 100, BUDGET_BYTES, None),
        (300, 150, 0, 100, BUDGET_BYTES, 300),
        (300, 0, 290, 100, BUDGET_BYTES, None),
        (300, 0, 150, 100, BUDGET_BYTES, 150),
        # Large events are bounded by their bytes.
        (3000, 0, 0, MIB, BUDGET_BYTES, 4),
        (3000, 0, 3, MIB, BUDGET_BYTES, None),
        (3000, 0, 0, 20 * MIB, BUDGET_BYTES, 1),
        (3000, 0, 0, FIRST_EVENT_BYTES, BUDGET_BYTES, 1),
        # Credit is taken back in part where the budget became smaller.
        (3000, 3000, 0, 1000, MIB, 1048),
        (3000, 1500, 0, 1000, MIB, None),
        (3000, 4, 0, MIB, MIB, 1),
        (3000, 4, 1, MIB, MIB, 0),
        (3000, 0, 0, MIB, 0, 1),
    ],
)
def test_a_grant(prefetch: int, credit: int, waiting: int, typical: int, budget: int, granted: int | None) -> None:
    state = {"waiting": waiting, "held": waiting * typical, "typical": typical}
    assert grant(prefetch=prefetch, credit=credit, budget=budget, **state) == granted


def test_credit_is_taken_back_when_events_are_larger_than_expected() -> None:
    state = {"prefetchCount": 3000, "waiting": 9, "held": 9 * MIB, "typical": 1000, "budget": BUDGET_BYTES}
    assert (grant(credit=2000, **state), grant(credit=0, **state)) == (0, None)


@given(
    st.integers(1, 5000),
    st.lists(st.integers(1, 2 * MIB), min_size=1, max_size=400),
    st.just([BUDGET_BYTES]) | st.lists(st.integers(MIB // 8, BUDGET_BYTES), min_size=1, max_size=9),
    st.integers(1, 400),
)
def test_every_event_comes_and_the_waiting_events_are_bounded(
    prefetch: int, sizes: list[int], budgets: list[int], most: int
) -> None:
    credit, typical, taken = 0, FIRST_EVENT_BYTES, 0
    coming, waiting, seen = list(sizes), list[int](), list[int]()
    while taken < len(sizes):
        budget = budgets[(taken + len(waiting)) % len(budgets)]
        moved = False
        granted = grant(
            prefetch=prefetch, credit=credit, waiting=len(waiting), held=sum(waiting), typical=typical, budget=budget
        )
        if granted is not None:
            assert granted * typical <= max(budget, typical)
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
        if not moved:  # only the reader can make room
            assert waiting, "no event waits and none may come"
            taken += len(waiting[:most])
            del waiting[:most]
