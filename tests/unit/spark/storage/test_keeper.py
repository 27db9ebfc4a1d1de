"""The keeper of a claim's lease: renews, gives up in time, reports the loss once. Its waits move the test's clock."""

import threading
from collections.abc import Callable

import pytest

from eventconsumer_spark.errors import ClaimLostError
from eventconsumer_spark.storage.keeper import LEASE_SECONDS, MARGIN_SECONDS, RENEW_SECONDS, WATCH_SECONDS, Keeper
from eventconsumer_storage.errors import StorageError

END = LEASE_SECONDS - MARGIN_SECONDS
UNRENEWED = (
    "the claim of batch 3 is lost: it could not be renewed in time: nothing was committed; another attempt continues"
)


class Ticks:
    """The keeper's `_stopped`: a wait moves the clock and ends the task at `last`; other threads may act meanwhile."""

    def __init__(self, last: float = 3.0 * LEASE_SECONDS) -> None:
        self.now = 0.0
        self.last = last
        self.meanwhile: Callable[[], object] = lambda: None

    def clock(self) -> float:
        return self.now

    def is_set(self) -> bool:
        return self.now >= self.last

    def wait(self, seconds: float) -> bool:
        until = self.now + seconds
        while self.now < until and not self.is_set():
            self.now = min(until, self.now + WATCH_SECONDS)
            self.meanwhile()
        return self.is_set()


def keeper_on(ticks: Ticks, renew: Callable[[], bool]) -> tuple[Keeper, list[str]]:
    lost: list[str] = []
    keeper = Keeper("the claim of batch 3", renew, ticks.now, lost.append, ticks.clock)
    keeper._stopped = ticks  # type: ignore[assignment]
    return keeper, lost


def test_lease_is_renewed_for_longer_than_it_lasts() -> None:
    ticks, renewed = Ticks(), list[float]()
    keeper, lost = keeper_on(ticks, lambda: renewed.append(ticks.now) is None)
    ticks.meanwhile = keeper.check
    keeper._renewals()
    assert renewed == [RENEW_SECONDS * number for number in range(1, 9)]
    assert not lost


def test_lease_that_another_took_is_lost() -> None:
    told = threading.Event()
    keeper = Keeper("the claim of batch 3", lambda: False, 0, lambda _: told.set(), lambda: 0, renew_seconds=0)
    keeper.start()
    assert told.wait(10)
    with pytest.raises(ClaimLostError, match="batch 3 is lost: another attempt, or a user, took over its lease"):
        keeper.check()
    keeper.stop()


def test_renewals_continue_after_errors_of_storage() -> None:
    outcomes = iter([StorageError("no answer")] * 10)

    def renew() -> bool:
        if error := next(outcomes, None):
            raise error
        return True

    ticks = Ticks()
    keeper, lost = keeper_on(ticks, renew)
    ticks.meanwhile = keeper.check
    keeper._renewals()
    assert not lost


def test_lease_is_given_up_before_it_ends_while_storage_is_silent() -> None:
    def silent() -> bool:
        raise StorageError("no answer")

    ticks = Ticks()
    keeper, lost = keeper_on(ticks, silent)
    ticks.meanwhile = keeper.check
    with pytest.raises(ClaimLostError):
        keeper._renewals()
    assert END <= ticks.now <= END + WATCH_SECONDS
    assert lost == [UNRENEWED]


def test_lease_is_given_up_in_time_while_a_renewal_hangs() -> None:
    ticks = Ticks()
    keeper, lost = keeper_on(ticks, lambda: True)
    keeper._watch()
    assert END <= ticks.now <= END + WATCH_SECONDS
    keeper.lose("another reason")
    assert lost == [UNRENEWED]


def test_driver_that_was_frozen_notices_at_once() -> None:
    told = threading.Event()
    now = iter([0.0])
    keeper = Keeper("the claim of batch 3", lambda: True, 0, lambda _: told.set(), lambda: next(now, LEASE_SECONDS))
    keeper.start()
    assert told.wait(10)
    with pytest.raises(ClaimLostError):
        keeper.check()
    keeper.stop()


def test_stopped_keeper_reports_no_loss() -> None:
    renewed: list[int] = []
    keeper, lost = keeper_on(Ticks(last=0), lambda: bool(renewed.append(1)))
    keeper._renewals()
    keeper._watch()
    keeper.lose("late")
    assert not renewed and not lost
