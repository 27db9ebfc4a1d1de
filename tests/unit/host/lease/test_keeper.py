"""A keeper knows that its lease is lost before another host may have it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from eventconsumer_host.errors import LeaseLost
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.azuresdk_store import AzureSdkStore
from eventconsumer_host.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.keeper import Keeper
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_storage.errors import Unavailable
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual


def keeper_of(renew: object) -> Keeper:
    """A keeper of a 30 s lease on the loop's virtual time."""
    clock = asyncio.get_running_loop().time
    return Keeper("partition 0", renew, 30, clock(), clock)  # type: ignore[arg-type]


@virtual
async def test_a_lease_is_renewed_at_three_fifths_and_stays_valid() -> None:
    sent: list[float] = []
    clock = asyncio.get_running_loop().time
    began = clock()

    async def renew() -> None:
        sent.append(clock() - began)

    keeper = keeper_of(renew)
    task = asyncio.create_task(keeper.run())
    await asyncio.sleep(100)
    keeper.check()
    assert [round(when) for when in sent] == [18, 36, 54, 72, 90]
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
async def test_one_error_of_storage_is_no_problem_and_two_are() -> None:
    busy = Unavailable("busy")
    responses = iter([busy, None, busy, busy, None])

    async def renew() -> None:
        if error := next(responses):
            raise error

    keeper = keeper_of(renew)
    running = asyncio.create_task(keeper.run())
    failures = []
    for _ in range(60):  # renewals at 18, 19, 37, 38 and 39
        await asyncio.sleep(1)
        failures.append(keeper.failure)
    running.cancel()
    assert failures.count(busy) == 1
    assert failures.count(None) == 59


@virtual
async def test_a_hanging_renewal_fences_in_time_too() -> None:
    clock = asyncio.get_running_loop().time
    began = clock()
    keeper = keeper_of(lambda: asyncio.sleep(3600))
    await keeper.run()
    assert clock() - began < 29
    assert keeper.lost.is_set()


@virtual
async def test_a_renewal_that_hangs_leaves_time_for_another_one() -> None:
    hang = iter([3600.0, 0.0, 3600.0, 3600.0, 3600.0])
    clock = asyncio.get_running_loop().time
    began = clock()
    keeper = keeper_of(lambda: asyncio.sleep(next(hang)))
    running = asyncio.create_task(keeper.run())  # sent at 18 and given up at 22.5, sent again at 23.5: good until 50.5
    await asyncio.sleep(23)
    assert "no response" in str(keeper.failure)
    await asyncio.sleep(1)
    assert keeper.failure is None
    await running
    assert 50 < clock() - began < 51


@virtual
async def test_a_renewal_counts_from_the_time_of_its_request() -> None:
    slow = iter([4.0, 3600.0, 3600.0, 3600.0])
    clock = asyncio.get_running_loop().time
    began = clock()
    keeper = keeper_of(lambda: asyncio.sleep(next(slow)))
    await keeper.run()  # sent at 18, answered at 22, so good until 45 and not until 49
    assert 44 < clock() - began < 46


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


LAYOUTS = [
    pytest.param(
        lambda blobs, clock: EventProcessorHostStore(blobs, "", "$Default", 30, clock), id="EventProcessorHost"
    ),
    pytest.param(
        lambda blobs, clock: AzureSdkStore(blobs, Names("", "ns", "hub", "$Default"), 30, clock), id="AzureSdk"
    ),
]


@pytest.mark.parametrize("make", LAYOUTS)
@pytest.mark.parametrize("steal", [False, True])
@virtual
async def test_an_acquisition_whose_answers_are_lost_is_one_acquisition(make: Any, steal: bool) -> None:
    """One answer of each kind of request is lost; a request may also be repeated after it was applied."""
    clock = asyncio.get_running_loop().time
    for operation in ("acquire_lease", "release_lease", "renew_lease", "put", "set_metadata", "read", "head"):
        for applied in (False, True):
            blobs = FakeBlobStore(clock)
            store = make(blobs, clock)
            lease = (await store.list(["0"])).leases["0"]
            if steal:
                assert await store.acquire(lease, "host-z") is not None
                lease = (await store.list(["0"])).leases["0"]
            blobs.faults.append(Fault(operation, applied))
            try:
                taken = await store.acquire(lease, "host-a")
            except Unavailable:
                taken = None
            blobs.faults.clear()
            if taken is None:  # what was taken is given back, or is found under this host's own name
                seen = (await store.list(["0"])).leases["0"]
                assert not seen.leased or seen.owner == "host-a", (operation, applied, seen)
                taken = await store.acquire(seen, "host-a")
                assert taken is not None, (operation, applied)
            now = await store.read("0")
            assert (now.owner, now.token, now.epoch) == ("host-a", taken.lease.token, taken.lease.epoch)
            assert now.epoch in ({2, 3} if steal else {1, 2})
            await HeldLease(store, taken, clock).advance(Checkpoint("10", 1))


async def held_by_a(make: Any) -> tuple[FakeBlobStore, Any, HeldLease]:
    """Leases of which host-a holds partition 0."""
    clock = asyncio.get_running_loop().time
    blobs = FakeBlobStore(clock)
    store = make(blobs, clock)
    taken = await store.acquire((await store.list(["0"])).leases["0"], "host-a")
    return blobs, store, HeldLease(store, taken, clock)


@pytest.mark.parametrize("make", LAYOUTS)
@pytest.mark.parametrize("operation", ["put", "set_metadata", "read", "head"])
@pytest.mark.parametrize("applied", [False, True])
@virtual
async def test_writes_whose_answers_are_lost_cost_no_lease(make: Any, operation: str, applied: bool) -> None:
    blobs, store, held = await held_by_a(make)
    await held.advance(Checkpoint("10", 1))
    for number in range(2, 6):
        blobs.faults.append(Fault(operation, applied))
        await _insist(partial(held.advance, Checkpoint(str(number * 10), number)))
        await _insist(partial(held.raise_epoch, 8))
    blobs.faults.clear()
    await held._renew()
    now = await store.read("0")
    assert (now.owner, now.epoch, now.checkpoint) == ("host-a", 9, Checkpoint("50", 5))
    assert not held.keeper.lost.is_set()


@pytest.mark.parametrize("make", LAYOUTS)
@virtual
async def test_a_release_under_way_when_time_ran_out_does_nothing(make: Any) -> None:
    _, store, held = await held_by_a(make)
    await asyncio.sleep(29)
    with pytest.raises(LeaseLost, match="could not be renewed in time"):
        await held.advance(Checkpoint("10", 1))
    await held.release()
    assert (await store.read("0")).owner == "host-a"


@pytest.mark.parametrize(("layout", "operation"), [(0, "release_lease"), (0, "put"), (1, "set_metadata")])
@pytest.mark.parametrize("applied", [False, True])
@virtual
async def test_a_release_that_fails_is_tried_again_before_the_lease_is_left_to_run_out(
    layout: int, operation: str, applied: bool
) -> None:
    clock = asyncio.get_running_loop().time
    blobs, store, held = await held_by_a(LAYOUTS[layout].values[0])
    blobs.faults += [Fault(operation, applied)] * 2
    began = clock()
    await held.release()
    assert len(blobs.faults) < 2, f"it asks no {operation}"
    blobs.faults.clear()
    assert not (await store.list(["0"])).leases["0"].leased
    assert clock() - began < 2


@pytest.mark.parametrize("make", LAYOUTS)
@virtual
async def test_a_release_that_fails_for_good_is_left_to_the_leases_end(make: Any) -> None:
    clock = asyncio.get_running_loop().time
    blobs, store, held = await held_by_a(make)
    blobs.faults += [Fault(operation) for operation in ("release_lease", "set_metadata") for _ in range(20)]
    began = clock()
    await held.release()
    assert clock() - began < 2
    blobs.faults.clear()
    assert (await store.list(["0"])).leases["0"].leased


async def _insist(write: Callable[[], Awaitable[None]]) -> None:
    while True:
        with contextlib.suppress(Unavailable):
            return await write()
