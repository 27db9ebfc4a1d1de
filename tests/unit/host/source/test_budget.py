"""The links' budget: equal parts, never more than the whole, and what a link alone can use at most."""

from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.source.budget import LINK_BYTES, WAITING_BYTES, Budget


def test_a_few_links_have_what_they_can_use_and_many_share() -> None:
    budget = Budget()
    assert budget.each == LINK_BYTES
    for link in range(32):
        budget.join(link)
    assert budget.each == WAITING_BYTES // 32
    budget.join(0)  # it is there already
    for link in range(4, 40):
        budget.leave(link)  # also those that never were
    assert budget.each == LINK_BYTES


@given(st.integers(0, 2**33), st.sets(st.integers(0, 100), min_size=1))
def test_all_together_have_no_more_than_the_whole(whole: int, links: set[int]) -> None:
    budget = Budget(lambda: whole)
    for link in links:
        budget.join(link)
    assert 0 <= budget.each * len(links) <= whole
    assert budget.each == LINK_BYTES or whole - budget.each * len(links) < len(links)


def test_the_parts_follow_the_whole() -> None:
    free = [8 * LINK_BYTES]
    budget = Budget(lambda: free[0])
    for link in range(16):
        budget.join(link)
    assert budget.each == LINK_BYTES // 2
    free[0] = LINK_BYTES
    assert budget.each == LINK_BYTES // 16
