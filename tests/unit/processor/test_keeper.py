"""A keeper knows that its lease is lost before another host may have it."""

import asyncio

import pytest

from eventconsumer_processor.errors import LeaseLost, Unavailable
from eventconsumer_processor.lease.keeper import Keeper
from tests.fakes.virtual import virtual


def keeper_of(renew: object) -> Keeper:
    """A keeper of a 30 s lease on the loop's virtual time."""
    clock = asyncio.get_running_loop().time
    return Keeper("partition 0", renew, 30, clock(), clock)  # type: ignore[arg-type]


@virtual
async def test_it_renews_every_third_and_stays_valid() -> None:
    sent: list[float] = []
    clock = asyncio.get_running_loop().time
    began = clock()

    async def renew() -> None:
        sent.append(clock() - began)

    keeper = keeper_of(renew)
    task = asyncio.create_task(keeper.run())
    await asyncio.sleep(95)
    keeper.check()
    assert [round(when) for when in sent] == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    task.cancel()


@virtual
async def test_storage_that_does_not_answer_fences_before_the_lease_ends() -> None:
    async def renew() -> None:
        raise Unavailable("down")

    clock = asyncio.get_running_loop().time
    began = clock()
    keeper = keeper_of(renew)
    await keeper.run()
    assert 26 < clock() - began < 28
    with pytest.raises(LeaseLost, match="could not be renewed in time"):
        keeper.check()


@virtual
async def test_a_hanging_renewal_fences_in_time_too() -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    keeper = keeper_of(lambda: asyncio.sleep(3600))
    await keeper.run()
    assert clock() - began < 29
    assert keeper.lost.is_set()


@virtual
async def test_a_renewal_counts_from_when_it_was_sent() -> None:
    slow = iter([15.0, 3600.0])
    clock = asyncio.get_running_loop().time
    began = clock()
    keeper = keeper_of(lambda: asyncio.sleep(next(slow)))
    await keeper.run()  # sent at 10, answered at 25, so good until 37 and not until 52
    assert 36 < clock() - began < 38


@virtual
async def test_a_taken_lease_is_lost_at_once() -> None:
    async def renew() -> None:
        raise LeaseLost("taken")

    keeper = keeper_of(renew)
    await keeper.run()
    with pytest.raises(LeaseLost, match="taken"):
        keeper.check()


@virtual
async def test_after_a_suspend_the_check_fails_though_no_timer_fired() -> None:
    now = [0.0]

    async def renew() -> None:
        """Never gets to run."""

    keeper = Keeper("partition 0", renew, 30, since=0.0, clock=lambda: now[0])
    keeper.check()
    now[0] = 60.0
    with pytest.raises(LeaseLost):
        keeper.check()
