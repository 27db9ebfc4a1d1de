"""Leases that are tied to a session: they last as long as it, and end with it, in either layout."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from eventconsumer_processor.errors import Conflict, LeaseLost
from eventconsumer_processor.lease.azuresdk import Names
from eventconsumer_processor.lease.azuresdk_store import AzureSdkStore
from eventconsumer_processor.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.lease.model import Checkpoint, Lease
from eventconsumer_processor.lease.sessions import Session
from eventconsumer_processor.lease.store import LeaseStore
from eventconsumer_processor.storage import FOREVER
from tests.contract.processor.conftest import World

NAMES = Names("", "shop.example", "orders", "$Default")
OWNER = "host-a.u1"
TOKENS = [f"{digit * 8}-{digit * 4}-4{digit * 3}-8{digit * 3}-{digit * 12}" for digit in "abcd"]
SESSION, LATER = Session("host-a", TOKENS[0]), Session("host-a", TOKENS[1])
FOREIGN = TOKENS[3]
BLOB = "$Default/0"


@dataclass
class Pair:
    """The leases as two hosts see them."""

    world: World
    one: LeaseStore
    two: LeaseStore


def legacy(world: World, *, other: bool = False) -> EventProcessorHostStore:
    """Leased blobs."""
    return EventProcessorHostStore(world.other if other else world.blobs, "", "$Default", 15, world.clock)


def modern(world: World, *, other: bool = False) -> AzureSdkStore:
    """Ownership blobs."""
    return AzureSdkStore(world.other if other else world.blobs, NAMES, 15, world.clock)


@pytest.fixture(params=[legacy, modern], ids=["EventProcessorHost", "AzureSdk"])
def pair(request: pytest.FixtureRequest, world: World) -> Pair:
    """Each layout in turn."""
    make: Callable[..., LeaseStore] = request.param
    return Pair(world, make(world), make(world, other=True))


async def listed(store: LeaseStore) -> Lease:
    """Partition 0 as listed."""
    return (await store.list(["0"])).leases["0"]


async def tied(store: LeaseStore) -> Lease:
    """Partition 0, held by a host and tied to its session."""
    taken = await store.acquire(await listed(store), OWNER)
    assert taken is not None
    await store.sessions.begin(SESSION)
    return await store.tie(taken.lease, SESSION.text)


async def test_a_tied_lease_is_held_without_being_renewed_and_ends_with_its_session(pair: Pair) -> None:
    lease = await tied(pair.one)
    for _ in range(2):
        await pair.world.sleep(9)
        await pair.one.sessions.renew(SESSION)
    seen = await listed(pair.two)
    assert (seen.owner, seen.leased, seen.endless, seen.session) == (OWNER, True, True, SESSION.text)
    lease = await pair.one.advance(lease, Checkpoint("100", 7))
    await pair.world.sleep(16)
    seen = await listed(pair.two)
    assert (seen.owner, seen.leased) == (OWNER, False)
    taken = await pair.two.acquire(seen, "host-b.u1")
    assert taken is not None
    assert (taken.lease.epoch, taken.lease.checkpoint) == (2, Checkpoint("100", 7))
    with pytest.raises(LeaseLost):
        await pair.one.raise_epoch(lease, 9)
    seen = await listed(pair.one)
    assert (seen.owner, seen.leased, seen.endless) == ("host-b.u1", True, False)
    await pair.world.sleep(16)
    assert not (await listed(pair.one)).leased  # its new owner tied it to nothing


async def test_a_session_is_listed_with_the_leases_and_its_end_frees_them_at_once(pair: Pair) -> None:
    await tied(pair.one)
    assert (await pair.two.list(["0"])).sessions == {"host-a": SESSION}
    await pair.one.sessions.end(SESSION)
    listing = await pair.two.list(["0"])
    assert not listing.sessions["host-a"].alive
    assert not listing.leases["0"].leased


async def test_the_next_session_of_a_pod_holds_nothing_of_the_one_before(pair: Pair) -> None:
    await tied(pair.one)
    with pytest.raises(Conflict):
        await pair.two.sessions.begin(LATER)
    await pair.one.sessions.end(SESSION)
    await pair.two.sessions.begin(LATER)
    listing = await pair.two.list(["0"])
    assert listing.sessions == {"host-a": LATER}
    assert not listing.leases["0"].leased
    with pytest.raises(LeaseLost):
        await pair.one.sessions.renew(SESSION)


async def test_a_lease_that_is_untied_runs_out_by_itself_again(pair: Pair) -> None:
    lease = await pair.one.untie(await tied(pair.one))
    assert (await listed(pair.two)).leased
    await pair.one.advance(lease, Checkpoint("100", 7))
    await pair.world.sleep(9)
    await pair.one.sessions.renew(SESSION)
    await pair.world.sleep(9)
    assert not (await listed(pair.two)).leased


async def test_a_tied_lease_is_released_in_order(pair: Pair) -> None:
    await pair.one.release(await tied(pair.one))
    seen = await listed(pair.two)
    assert (seen.owner, seen.token, seen.leased, seen.epoch) == ("", "", False, 1)
    assert await pair.two.acquire(seen, "host-b.u1") is not None


async def test_a_tied_lease_can_be_stolen(pair: Pair) -> None:
    lease = await tied(pair.one)
    assert await pair.two.acquire(await listed(pair.two), "host-b.u1") is not None
    with pytest.raises(LeaseLost):
        await pair.one.untie(lease)
    assert (await listed(pair.one)).owner == "host-b.u1"


async def test_a_host_that_ties_its_lease_still_writes_it(pair: Pair) -> None:
    taken = await pair.one.acquire(await listed(pair.one), OWNER)
    assert taken is not None
    held = HeldLease(pair.one, taken, pair.world.clock)
    await held.advance(Checkpoint("10", 1))
    await pair.one.sessions.begin(SESSION)
    lease = await pair.one.tie(held.lease, SESSION.text)
    lease = await pair.one.advance(await pair.one.raise_epoch(lease, 5), Checkpoint("20", 2))
    seen = await listed(pair.two)
    assert (seen.epoch, seen.checkpoint, seen.leased, seen.endless) == (5, Checkpoint("20", 2), True, True)
    assert (await pair.one.read("0")).session == SESSION.text == lease.session


# --- EventProcessorHost: a lease without an end must not be left to nobody ---


async def test_a_request_that_comes_late_leaves_no_lease_without_an_end(world: World) -> None:
    store = legacy(world)
    lease = await tied(store)
    await store.release(lease)
    with pytest.raises(Conflict):
        await world.blobs.acquire_lease(BLOB, lease.token, FOREVER, if_match=lease.etag)
    assert not (await listed(store)).leased


async def test_a_tied_lease_that_is_broken_is_lost(world: World) -> None:
    store = legacy(world)
    lease = await tied(store)
    await world.break_lease(BLOB, 0)
    seen = await listed(store)
    assert (seen.leased, seen.endless) == (False, False)
    with pytest.raises(LeaseLost):
        await store.untie(lease)
    assert await legacy(world, other=True).acquire(seen, "host-b.u1") is not None


async def test_what_an_old_library_takes_over_runs_out_again(world: World) -> None:
    store = legacy(world)
    lease = await tied(store)
    await world.other.change_lease(BLOB, lease.token, FOREIGN)  # how it steals
    body = '{"Offset":null,"SequenceNumber":0,"PartitionId":"0","Owner":"old","Token":"' + FOREIGN + '","Epoch":2}'
    kept = {"OWNINGHOST": "old", "HOSTSESSION": SESSION.text}  # it sets its own key, and leaves others
    await world.other.put(BLOB, body.encode(), metadata=kept, lease_id=FOREIGN)
    seen = await listed(store)
    assert (seen.owner, seen.leased, seen.endless) == ("old", True, False)
    await world.other.renew_lease(BLOB, FOREIGN)
    assert (await listed(store)).leased
    await world.sleep(16)
    assert not (await listed(store)).leased


async def test_a_lease_without_an_end_that_is_not_the_one_its_blob_names_is_told(world: World) -> None:
    store = legacy(world)
    lease = await tied(store)
    await world.break_lease(BLOB, 0)
    await world.other.acquire_lease(BLOB, FOREIGN, FOREVER)
    with pytest.raises(LeaseLost):
        await store.advance(lease, Checkpoint("100", 7))
    assert await store.acquire(await listed(store), OWNER) is None
    listing = await store.list(["0"])
    assert "never ends" in listing.invalid["0"].why
    await world.other.release_lease(BLOB, FOREIGN)
    assert await store.acquire(await listed(store), OWNER) is not None


async def test_old_libraries_do_not_see_sessions_among_leases(world: World) -> None:
    for store, folder in ((legacy(world), "$Default/"), (modern(world), f"{NAMES.folder}ownership/")):
        await store.sessions.begin(SESSION)
        assert [info.name for info in await world.other.list(folder)] == []
