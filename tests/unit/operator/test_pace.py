"""Pace: the operator's work per second is limited, and hosts are told often enough."""

import pytest

from eventconsumer_host.partition.operator_messages import LATE_SECONDS
from eventconsumer_operator.kube.resync import LOST_SECONDS
from eventconsumer_operator.pace import (
    LOOKS_PER_SECOND,
    MOVING_SECONDS,
    NUMBERS_PER_SECOND,
    NUMBERS_SECONDS,
    PLAN_SECONDS,
    PLANS_PER_SECOND,
    REST_PLANS_PER_SECOND,
    RESTING_SECONDS,
    STARTING_SECONDS,
    TOGETHER_SECONDS,
    moving_seconds,
    numbers_seconds,
    pause_seconds,
    planning_seconds,
    resting_seconds,
    starting_seconds,
)


def test_few_resources_have_the_shortest_times() -> None:
    assert starting_seconds(20) == STARTING_SECONDS
    assert moving_seconds(60) == MOVING_SECONDS
    assert resting_seconds(375) == RESTING_SECONDS
    assert numbers_seconds(30) == NUMBERS_SECONDS
    assert planning_seconds(300) == PLAN_SECONDS


@pytest.mark.parametrize("count", [61, 200, 600])
def test_more_resources_are_not_more_work(count: int) -> None:
    assert count / starting_seconds(count) <= PLANS_PER_SECOND
    assert count / moving_seconds(count) <= PLANS_PER_SECOND
    assert count / resting_seconds(count) <= LOOKS_PER_SECOND
    assert count / numbers_seconds(count) <= NUMBERS_PER_SECOND
    assert count / planning_seconds(count) <= 2 * REST_PLANS_PER_SECOND


@pytest.mark.parametrize("count", [0, 1, 1000, 2000, 100_000])
def test_hosts_are_told_before_they_miss_the_operator(count: int) -> None:
    delays = (resting_seconds(count), moving_seconds(count), starting_seconds(count))
    longest = max(pause_seconds(delay, 1.0, now=0.5) for delay in delays)
    assert longest < LATE_SECONDS
    assert longest < LOST_SECONDS  # a list brings no reconcile forward


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_resources_at_rest_are_looked_at_together(share: float) -> None:
    nows = [100.0, 100.25, 100.6]
    due = {now + pause_seconds(RESTING_SECONDS, share, now) for now in nows}
    assert all(when % TOGETHER_SECONDS == 0 for when in due)
    assert len(due) <= 2


@pytest.mark.parametrize("delay", [STARTING_SECONDS, MOVING_SECONDS])
def test_what_changes_does_not_wait_for_others(delay: float) -> None:
    assert pause_seconds(delay, 0.5, now=0.7) == delay
    assert pause_seconds(delay, 0.0, now=0.7) < delay < pause_seconds(delay, 1.0, now=0.7)
