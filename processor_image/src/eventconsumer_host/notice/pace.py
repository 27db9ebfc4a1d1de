"""Decides when the notices of a partition are sent again after a failure, and which failure is a problem. Pure.

Each partition has pauses of its own: one whose notice is refused or slow does not delay another one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from eventconsumer_api.errors import Blocked
from eventconsumer_host.errors import NoticeFailed
from eventconsumer_storage.errors import StorageError

Failure = NoticeFailed | StorageError | Blocked

FIRST_SECONDS = 1.0  # the pause after the first failure; it doubles with each further one
LONGEST_SECONDS = 60.0  # the longest pause that the host makes by itself
PATIENCE_SECONDS = 60.0  # an endpoint that does not respond for less time is no problem


@dataclass(frozen=True, slots=True)
class Failing:
    """The failures of a partition since its last success.

    Attributes:
        error: The last one.
        times: Their number.
        since: Time of the first one, in seconds.
        due: Time before which it is not tried again, in seconds.
    """

    error: Failure
    times: int
    since: float
    due: float


def failed(before: Failing | None, error: Failure, now: float, share: float) -> Failing:
    """The failures of a partition after another one.

    Args:
        before: Its failures until now.
        error: The failure.
        now: Seconds.
        share: A random number from 0 to 1: the pause is the whole one, or down to half of it.
    """
    times = before.times + 1 if before else 1
    own = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(times, 16)) * (1 + share) / 2
    asked = error.retry_after if isinstance(error, NoticeFailed) else 0.0
    return Failing(error, times, before.since if before else now, now + max(own, asked))


def due(waiting: Iterable[str], failing: Mapping[str, Failing], busy: Collection[str], now: float) -> list[str]:
    """The partitions whose next notice may be sent now; partitions without failures come first.

    Args:
        waiting: Partitions with files without an acknowledged notice.
        failing: The failures of partitions.
        busy: Partitions whose notice is under way.
        now: Seconds.
    """
    times = {name: failing[name].due if name in failing else 0.0 for name in waiting if name not in busy}
    return sorted((name for name, time in times.items() if time <= now), key=lambda name: times[name])


def problem(failing: Iterable[Failing], now: float) -> Failure | None:
    """The failure that somebody must act on: what a user must correct, or what lasts; the most general one.

    Args:
        failing: The failures of all partitions.
        now: Seconds.
    """
    found = [each for each in failing if _needs_action(each.error) or now - each.since >= PATIENCE_SECONDS]
    return max(found, key=lambda each: (_weight(each.error), -each.since)).error if found else None


def _needs_action(error: Failure) -> bool:
    return not isinstance(error, NoticeFailed) or error.lasting


def _weight(error: Failure) -> int:
    """Storage counts more than the endpoint, and the endpoint more than one notice."""
    if isinstance(error, StorageError):
        return 2
    return 0 if isinstance(error, NoticeFailed) and error.only_this else 1
