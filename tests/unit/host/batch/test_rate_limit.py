"""The pace of questions: never more than Event Hubs answers in a second, and every partition has its turn."""

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.batch.rate_limit import A_ROUND, AT_ONCE, start_of, turn

ANSWERED_A_SECOND = 50  # by Event Hubs


@given(st.integers(0, A_ROUND))
def test_no_second_has_more_questions_than_the_hub_answers(first: int) -> None:
    starts = [start_of(question) for question in range(A_ROUND + 1)]
    assert starts == sorted(starts)
    begin = starts[first]
    assert sum(begin <= start < begin + 1 for start in starts) < ANSWERED_A_SECOND


def test_few_questions_do_not_wait() -> None:
    assert start_of(AT_ONCE - 1) == 0
    assert start_of(AT_ONCE) > 0


@given(st.integers(0, 1100), st.integers(0, 2000))
def test_rounds_take_every_partition_in_turn(count: int, first: int) -> None:
    partitions = [str(number) for number in range(count)]
    seen: set[str] = set()
    for _ in range(-(-count // A_ROUND)):
        chosen, first = turn(partitions, first)
        assert len(chosen) == len(set(chosen)) == min(count, A_ROUND)
        seen.update(chosen)
    assert seen == set(partitions)
