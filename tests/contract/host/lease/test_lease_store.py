"""What holds for leases in either layout: epochs that rise, checkpoints that stay, one owner at a time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from eventconsumer_api.wire.legacylease import LONG_MAX
from eventconsumer_host.errors import LeaseInvalid, LeaseLost
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.azuresdk_store import AzureSdkStore
from eventconsumer_host.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Checkpoint, Lease, Taken
from eventconsumer_host.lease.store import LeaseStore
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import NotFound
from tests.contract.conftest import ContainerWorld

NAMES = Names("", "shop.example", "orders", "$Default")
Make = Callable[[BlobStore, Callable[[], float]], LeaseStore]


@dataclass
class Pair:
    """The leases as two hosts see them."""

    world: ContainerWorld
    one: LeaseStore
    two: LeaseStore
    owner_blob: str  # of partition 0

    async def damage(self, partition: str) -> None:
        """Write what nobody can understand."""
        if isinstance(self.one, EventProcessorHostStore):
            await self.world.blobs.put(f"$Default/{partition}", b"{")
        else:
            await self.world.blobs.put(
                NAMES.checkpoint(partition), b"", metadata={"offset": "1", "sequencenumber": "many"}
            )


@pytest.fixture(params=["EventProcessorHost", "AzureSdk"])
def pair(request: pytest.FixtureRequest, world: ContainerWorld) -> Pair:
    """Each layout in turn."""

    def legacy(blobs: BlobStore) -> LeaseStore:
        return EventProcessorHostStore(blobs, "", "$Default", 15, world.clock)

    def modern(blobs: BlobStore) -> LeaseStore:
        return AzureSdkStore(blobs, NAMES, 15, world.clock)

    make, owner_blob = (
        (legacy, "$Default/0") if request.param == "EventProcessorHost" else (modern, NAMES.ownership("0"))
    )
    return Pair(world, make(world.blobs), make(world.other), owner_blob)


async def listed(store: LeaseStore, partition: str = "0") -> Lease:
    """A lease as listed."""
    return (await store.list([partition])).leases[partition]


async def take(store: LeaseStore, lease: Lease, owner: str) -> Taken:
    """Acquire, which must work."""
    taken = await store.acquire(lease, owner)
    assert taken is not None
    return taken


async def hold(pair: Pair, owner: str = "host-a") -> HeldLease:
    """Partition 0, held by the first host."""
    return HeldLease(pair.one, await take(pair.one, await listed(pair.one), owner), pair.world.clock)


async def test_fresh_leases_are_free(pair: Pair) -> None:
    listing = await pair.one.list(["0", "1"])
    assert listing.invalid == {}
    assert {p: (lease.owner, lease.leased, lease.epoch, lease.checkpoint) for p, lease in listing.leases.items()} == {
        "0": ("", False, 0, None),
        "1": ("", False, 0, None),
    }


async def test_an_owner_is_seen_by_others(pair: Pair) -> None:
    taken = await take(pair.one, await listed(pair.one), "host-a")
    assert (taken.lease.owner, taken.lease.epoch) == ("host-a", 1)
    seen = await listed(pair.two)
    assert (seen.owner, seen.epoch, seen.leased, seen.token) == ("host-a", 1, True, taken.lease.token)
    assert (await pair.one.list(["0"])).leases["0"].token == taken.lease.token


async def test_a_free_lease_is_taken_once(pair: Pair) -> None:
    lease = await listed(pair.one)
    await take(pair.one, lease, "host-a")
    assert await pair.two.acquire(lease, "host-b") is None
    assert (await pair.one.read("0")).owner == "host-a"


async def test_of_two_that_acquire_at_once_one_wins(pair: Pair) -> None:
    lease = await listed(pair.one)
    taken = await asyncio.gather(pair.one.acquire(lease, "host-a"), pair.two.acquire(lease, "host-b"))
    winners = [one.lease for one in taken if one is not None]
    assert len(winners) == 1
    now = await pair.one.read("0")
    assert (now.owner, now.token, now.epoch) == (winners[0].owner, winners[0].token, 1)


async def test_a_theft_keeps_the_newest_checkpoint_and_locks_the_victim_out(pair: Pair) -> None:
    victim = await hold(pair)
    seen = await listed(pair.two)
    await victim.advance(Checkpoint("100", 7))  # after the thief looked
    thief = await take(pair.two, seen, "host-b")
    assert (thief.lease.epoch, thief.lease.checkpoint) == (2, Checkpoint("100", 7))
    with pytest.raises(LeaseLost):
        await pair.one.renew(victim.lease)
    with pytest.raises(LeaseLost):
        await victim.refresh()
    assert victim.keeper.lost.is_set()
    with pytest.raises(LeaseLost):
        await victim.advance(Checkpoint("200", 8))
    await victim.release()
    now = await pair.two.read("0")
    assert (now.owner, now.checkpoint) == ("host-b", Checkpoint("100", 7))


async def test_release_names_nobody_and_keeps_epoch_and_checkpoint(pair: Pair) -> None:
    held = await hold(pair)
    await held.advance(Checkpoint("100", 7))
    await held.release()
    seen = await listed(pair.two)
    assert (seen.owner, seen.token, seen.leased, seen.epoch) == ("", "", False, 1)
    taken = await take(pair.two, seen, "host-b")
    assert (taken.lease.checkpoint, taken.lease.epoch) == (Checkpoint("100", 7), 2)


async def test_a_checkpoint_never_falls(pair: Pair) -> None:
    held = await hold(pair)
    await held.advance(Checkpoint("100", 7))
    await held.advance(Checkpoint("50", 3))
    assert (await pair.two.read("0")).checkpoint == Checkpoint("100", 7)
    await held.advance(Checkpoint("110", 8))
    assert (await pair.two.read("0")).checkpoint == Checkpoint("110", 8)


async def test_a_renewed_lease_stays_and_an_expired_one_is_taken_with_a_higher_epoch(pair: Pair) -> None:
    lease = (await take(pair.one, await listed(pair.one), "host-a")).lease
    assert (await listed(pair.two)).leased
    await pair.world.sleep(8)
    lease = await pair.one.renew(lease)
    assert (await listed(pair.two)).leased
    await pair.world.sleep(8)
    assert (await listed(pair.two)).leased
    await pair.world.sleep(8)
    seen = await listed(pair.two)
    assert (seen.owner, seen.leased) == ("host-a", False)
    assert (await take(pair.two, seen, "host-b")).lease.epoch == 2


async def test_an_epoch_is_lifted_above_the_chains(pair: Pair) -> None:
    held = await hold(pair)
    await held.raise_epoch(above=41)
    assert held.lease.epoch == (await pair.two.read("0")).epoch == 42
    await held.raise_epoch(above=41)
    assert held.lease.epoch == 42
    await held.advance(Checkpoint("100", 7))
    assert (await pair.two.read("0")).epoch == 42


async def test_the_highest_epoch_has_no_successor_and_is_not_damaged(pair: Pair) -> None:
    held = await hold(pair)
    await held.raise_epoch(above=LONG_MAX - 1)
    with pytest.raises(LeaseInvalid, match=f"highest epoch, {LONG_MAX}, so it can have no next owner.*to 0"):
        await held.raise_epoch(above=LONG_MAX)
    await held.advance(Checkpoint("50", 5))
    await held.release()
    free = await listed(pair.two)
    assert (free.epoch, free.leased, free.checkpoint) == (LONG_MAX, False, Checkpoint("50", 5))
    with pytest.raises(LeaseInvalid, match="highest epoch"):
        await pair.two.acquire(free, "host-b")
    assert await listed(pair.two) == free


async def test_renewals_beside_writes_disturb_nothing(pair: Pair) -> None:
    held = await hold(pair)

    async def renew() -> None:
        for _ in range(10):
            await held._renew()

    async def write() -> None:
        for number in range(10):
            await held.advance(Checkpoint(str(number), number))
            await held.raise_epoch(above=held.lease.epoch)

    await asyncio.gather(renew(), write())
    now = await pair.two.read("0")
    assert (now.owner, now.epoch, now.checkpoint) == ("host-a", 11, Checkpoint("9", 9))
    assert await held.refresh() == now


async def test_a_damaged_lease_is_set_apart_and_rebuilt_only_on_demand(pair: Pair) -> None:
    await pair.one.list(["0", "1"])
    await pair.damage("0")
    listing = await pair.one.list(["0", "1"])
    assert (set(listing.leases), set(listing.invalid)) == ({"1"}, {"0"})
    unusable = listing.invalid["0"]
    assert "blob" in unusable.why and "0" in unusable.why and "the blob" in unusable.remedy
    assert unusable.rebuild is not None
    with pytest.raises(LeaseInvalid):
        await pair.one.acquire(unusable.rebuild, "host-a")
    unusable = (await pair.two.list(["0"])).invalid["0"]
    assert unusable.rebuild is not None and not unusable.rebuild.leased  # what was taken is given back
    taken = await pair.two.acquire(unusable.rebuild, "host-b", rebuild=True)
    assert taken is not None and taken.lease.checkpoint is None
    held = HeldLease(pair.two, taken, pair.world.clock)
    await held.advance(Checkpoint("100", 7))
    seen = await listed(pair.one)
    assert (seen.owner, seen.checkpoint) == ("host-b", Checkpoint("100", 7))


async def test_a_deleted_container_loses_the_lease_and_registration_creates_it(pair: Pair) -> None:
    held = await hold(pair)
    await pair.world.delete_container()
    with pytest.raises(LeaseLost):
        await pair.one.renew(held.lease)
    with pytest.raises(NotFound):
        await listed(pair.two)
    await pair.world.other.ensure_container()
    seen = await listed(pair.two)
    assert (seen.owner, seen.leased) == ("", False)
    taken = await take(pair.two, seen, "host-b")
    assert (await pair.two.read("0")).token == taken.lease.token


async def test_a_deleted_blob_costs_the_lease(pair: Pair) -> None:
    held = await hold(pair)
    await pair.world.delete_blob(pair.owner_blob)
    with pytest.raises(LeaseLost):
        await held.refresh()
    again = HeldLease(pair.two, await take(pair.two, await listed(pair.two), "host-b"), pair.world.clock)
    await again.raise_epoch(above=9)
    assert (await pair.one.read("0")).epoch == 10


async def test_what_a_crash_left_under_ones_own_name_can_be_taken_back(pair: Pair) -> None:
    before = await hold(pair)
    seen = await listed(pair.two)
    assert (seen.owner, seen.leased) == ("host-a", True)
    after = await take(pair.two, seen, "host-a")
    assert after.lease.epoch == 2 and after.lease.token != before.lease.token
    with pytest.raises(LeaseLost):
        await before.refresh()
