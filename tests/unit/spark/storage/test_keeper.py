"""The keeper of a claim's lease: renews, gives up in time, says so once."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from eventconsumer_spark.errors import ClaimLostError
from eventconsumer_spark.storage.keeper import LEASE_SECONDS, MARGIN_SECONDS, Keeper
from eventconsumer_storage.errors import StorageError

Make = Callable[..., tuple[Keeper, "Lost"]]


class Lost:
    """Whom the keeper tells."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.told = threading.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self.told.set()


class FastClock:
    """A clock that runs so many times as fast as the wall's."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.skipped = 0.0
        self._start = time.monotonic()

    def __call__(self) -> float:
        return (time.monotonic() - self._start) * self.rate + self.skipped


@pytest.fixture
def make() -> Iterator[Make]:
    keepers: list[Keeper] = []

    def build(renew: Callable[[], bool], clock: Callable[[], float]) -> tuple[Keeper, Lost]:
        lost = Lost()
        keeper = Keeper("the claim of batch 3", renew, clock(), lost, clock, renew_seconds=0.05, retry_seconds=0.02)
        keepers.append(keeper)
        return keeper, lost

    yield build
    for keeper in keepers:
        keeper.stop()


def test_lease_is_renewed_for_longer_than_it_lasts(make: Make) -> None:
    clock = FastClock(100)
    keeper, lost = make(lambda: True, clock)
    keeper.start()
    while clock() < 3 * LEASE_SECONDS:
        time.sleep(0.02)
        keeper.check()
    assert not lost.told.is_set()


def test_lease_that_another_took_is_lost(make: Make) -> None:
    keeper, lost = make(lambda: False, FastClock(1))
    keeper.start()
    assert lost.told.wait(10)
    with pytest.raises(ClaimLostError, match="batch 3 is lost: another attempt, or a user, took over its lease"):
        keeper.check()


def test_lease_is_given_up_before_it_ends_while_storage_is_silent(make: Make) -> None:
    clock = FastClock(100)

    def silent() -> bool:
        raise StorageError("no answer")

    keeper, lost = make(silent, clock)
    keeper.start()
    assert lost.told.wait(10)
    assert clock() >= LEASE_SECONDS - MARGIN_SECONDS
    assert lost.reasons == [
        "the claim of batch 3 is lost: it could not be renewed in time: "
        "nothing was committed; another attempt continues"
    ]


def test_lease_is_given_up_in_time_while_a_renewal_hangs(make: Make) -> None:
    release = threading.Event()
    keeper, lost = make(lambda: release.wait(20), FastClock(100))
    keeper.start()
    assert lost.told.wait(10)
    release.set()


def test_driver_that_was_frozen_notices_at_once(make: Make) -> None:
    clock = FastClock(1)
    keeper, lost = make(lambda: True, clock)
    clock.skipped = LEASE_SECONDS
    with pytest.raises(ClaimLostError):
        keeper.check()
    assert lost.told.is_set()


def test_stopped_keeper_says_nothing(make: Make) -> None:
    keeper, lost = make(lambda: False, FastClock(1))
    keeper.stop()
    keeper.start()
    assert not lost.told.wait(0.5)
