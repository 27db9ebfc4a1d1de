"""Pace: the operator's work per second is limited, and hosts are told often enough."""

import pytest

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
    moving_seconds,
    numbers_seconds,
    planning_seconds,
    resting_seconds,
    starting_seconds,
)
from eventconsumer_processor.partition.operator_messages import LATE_SECONDS

JITTER = 1.1  # of the controller


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
    longest = JITTER * max(resting_seconds(count), moving_seconds(count), starting_seconds(count))
    assert longest < LATE_SECONDS
    assert longest < LOST_SECONDS  # a list brings no reconcile forward
