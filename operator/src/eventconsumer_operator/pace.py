"""Pace: times between reconciles and between status writes of one resource. Pure.

A few resources are reconciled often. With many, the operator limits what it does per second, so that its processor time
and the writes of the API server do not grow with their number; then each resource waits longer. Events of objects do
not wait: a pod that ends, or a changed spec, is reconciled at once.
"""

import math

STARTING_SECONDS = 1.0  # while hosts are about to be ready: partitions await assignment
MOVING_SECONDS = 3.0  # while the status changes
RESTING_SECONDS = 15.0  # at rest: hosts report problems and new events only when asked
NUMBERS_SECONDS = 3.0  # between writes of a status in which only numbers changed
LONGEST_SECONDS = 40.0  # between reconciles: hosts leave rest 50 s after the last operator message
LONGEST_NUMBERS_SECONDS = 300.0
PLAN_SECONDS = 300.0  # between plans of a resource at rest: objects age, and the status shows moving numbers
LONGEST_PLAN_SECONDS = 1800.0
PLANS_PER_SECOND = 20.0  # a plan takes about 15 ms of processor time
LOOKS_PER_SECOND = 25.0  # a look takes about 1 ms
REST_PLANS_PER_SECOND = 1.0  # a status write follows if the watermark moved
NUMBERS_PER_SECOND = 10.0
JITTER = 0.1  # a thousand resources that were created together do not stay together
TOGETHER_SECONDS = 1.0  # looks within it are done together: one by one, each takes twice the processor time


def starting_seconds(moving: int) -> float:
    """Seconds between reconciles while hosts start, with a number of resources that are not at rest."""
    return _within(STARTING_SECONDS, moving / PLANS_PER_SECOND, LONGEST_SECONDS)


def moving_seconds(moving: int) -> float:
    """Seconds between reconciles while the status changes, with a number of resources that are not at rest."""
    return _within(MOVING_SECONDS, moving / PLANS_PER_SECOND, LONGEST_SECONDS)


def resting_seconds(resting: int) -> float:
    """Seconds between looks at a resource at rest, with a number of resources at rest."""
    return _within(RESTING_SECONDS, resting / LOOKS_PER_SECOND, LONGEST_SECONDS)


def planning_seconds(resting: int) -> float:
    """Seconds between plans of a resource at rest, with a number of resources at rest."""
    return _within(PLAN_SECONDS, resting / REST_PLANS_PER_SECOND, LONGEST_PLAN_SECONDS)


def numbers_seconds(moving: int) -> float:
    """Seconds between status writes in which only numbers changed, with a number of resources that are not at rest."""
    return _within(NUMBERS_SECONDS, moving / NUMBERS_PER_SECOND, LONGEST_NUMBERS_SECONDS)


def pause_seconds(delay: float, share: float, now: float) -> float:
    """Seconds until the next reconcile: with jitter, and of resources at rest at a multiple of `TOGETHER_SECONDS`.

    Args:
        delay: The time between two reconciles, in seconds.
        share: A random number from 0 to 1, for the jitter.
        now: Event loop's clock, in seconds.
    """
    pause = delay * (1 - JITTER + 2 * JITTER * share)
    if delay < RESTING_SECONDS:
        return pause
    return math.ceil((now + pause) / TOGETHER_SECONDS) * TOGETHER_SECONDS - now


def _within(least: float, seconds: float, most: float) -> float:
    return min(most, max(least, seconds))
