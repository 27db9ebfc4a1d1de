"""Credit: both bounds hold, and a reader is never left without."""

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor.amqp import credit as rule
from eventconsumer_processor.amqp.credit import FIRST_EVENT_BYTES

MIB = 1024 * 1024
BUDGET_BYTES = 4 * MIB


def grant(*, budget: int = BUDGET_BYTES, **state: int) -> int | None:
    """What the rule says, by default for a link that has all that a link may have."""
    return rule.grant(budget=budget, **state)


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
    assert grant(prefetch=3000, credit=0, waiting=0, held=0, typical=FIRST_EVENT_BYTES) == 4


def test_credit_is_taken_back_when_events_are_larger_than_thought() -> None:
    assert grant(prefetch=3000, credit=2000, waiting=9, held=9 * MIB, typical=1000) == 0
    assert grant(prefetch=3000, credit=0, waiting=9, held=9 * MIB, typical=1000) is None


def test_credit_is_taken_back_in_part_when_the_budget_became_smaller() -> None:
    assert grant(prefetch=3000, credit=3000, waiting=0, held=0, typical=1000, budget=MIB) == 1048
    assert grant(prefetch=3000, credit=1500, waiting=0, held=0, typical=1000, budget=MIB) is None
    assert grant(prefetch=3000, credit=4, waiting=0, held=0, typical=MIB, budget=MIB) == 1
    assert grant(prefetch=3000, credit=4, waiting=1, held=MIB, typical=MIB, budget=MIB) == 0
    assert grant(prefetch=3000, credit=0, waiting=0, held=0, typical=MIB, budget=0) == 1  # nobody is left without


@given(
    st.integers(1, 5000),
    st.lists(st.tuples(st.integers(1, 2 * MIB), st.integers(MIB // 8, 4 * MIB)), min_size=1, max_size=400),
    st.integers(1, 400),
)
def test_every_event_comes_whatever_becomes_of_the_budget(
    prefetch: int, coming: list[tuple[int, int]], most: int
) -> None:
    credit, waiting, typical, budget = 0, list[int](), FIRST_EVENT_BYTES, BUDGET_BYTES
    left, taken = [size for size, _ in coming], 0
    budgets = [budget for _, budget in coming]
    while taken < len(coming):
        moved = False
        granted = grant(
            prefetch=prefetch, credit=credit, waiting=len(waiting), held=sum(waiting), typical=typical, budget=budget
        )
        if granted is not None:
            moved, credit = granted != credit, granted
        assert granted is None or granted * typical <= max(budget, typical)
        if credit and left:
            typical = left.pop(0)
            waiting.append(typical)
            credit -= 1
            budget = budgets.pop(0)
            moved = True
        if not moved:
            assert waiting, "nothing waits and nothing may come"
            taken += len(waiting[:most])
            del waiting[:most]


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
