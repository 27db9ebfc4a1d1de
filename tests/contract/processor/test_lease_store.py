"""Leases in the EventProcessorHost layout: byte-exact, epochs that rise, checkpoints that stay."""

from dataclasses import replace

import pytest

from eventconsumer_processor.errors import LeaseInvalid, LeaseLost
from eventconsumer_processor.lease.keeper import HeldLease
from eventconsumer_processor.lease.model import Checkpoint, Lease, Taken
from eventconsumer_processor.lease.store import LeaseStore
from tests.contract.processor.conftest import World


def stores(world: World) -> tuple[LeaseStore, LeaseStore]:
    """The stores of two hosts."""
    one, two = (LeaseStore(blobs, "", "$Default", 15, world.clock) for blobs in (world.blobs, world.other))
    return one, two


async def take(store: LeaseStore, lease: Lease, owner: str) -> Taken:
    """Acquire, which must work."""
    taken = await store.acquire(lease, owner)
    assert taken is not None
    return taken


async def test_fresh_blobs_have_the_bytes_of_the_layout(world: World) -> None:
    one, _ = stores(world)
    await one.list(["0", "1"])
    blob = await world.blobs.read("$Default/0", 1000)
    assert blob is not None
    assert blob.data == b'{"Offset":null,"SequenceNumber":0,"PartitionId":"0","Owner":"","Token":"","Epoch":0}'


async def test_acquire_raises_the_epoch_and_names_the_owner(world: World) -> None:
    one, two = stores(world)
    lease = (await one.list(["0"])).leases["0"]
    taken = await take(one, lease, "host-a")
    blob = await world.other.read("$Default/0", 1000)
    assert blob is not None
    owned = f'"PartitionId":"0","Owner":"host-a","Token":"{taken.lease.token}","Epoch":1'
    assert blob.data.decode() == f'{{"Offset":null,"SequenceNumber":0,{owned}}}'
    assert {key.upper(): value for key, value in blob.info.metadata.items()} == {"OWNINGHOST": "host-a"}
    seen = (await two.list(["0"])).leases["0"]
    assert (seen.owner, seen.epoch, seen.leased) == ("host-a", 1, True)


async def test_only_one_of_two_acquires_a_free_lease(world: World) -> None:
    one, two = stores(world)
    lease = (await one.list(["0"])).leases["0"]
    await take(one, lease, "host-a")
    assert await two.acquire(lease, "host-b") is None


async def test_steal_keeps_the_newest_checkpoint_and_locks_the_victim_out(world: World) -> None:
    one, two = stores(world)
    lease = (await one.list(["0"])).leases["0"]
    victim = HeldLease(one, await take(one, lease, "host-a"), world.clock)
    seen = (await two.list(["0"])).leases["0"]
    await victim.advance(Checkpoint("100", 7))  # after the thief looked
    thief = await take(two, seen, "host-b")
    assert (thief.lease.epoch, thief.lease.checkpoint) == (2, Checkpoint("100", 7))
    with pytest.raises(LeaseLost):
        await victim.advance(Checkpoint("200", 8))
    with pytest.raises(LeaseLost):
        await one.renew(victim.lease)


async def test_release_empties_the_owner_and_keeps_epoch_and_checkpoint(world: World) -> None:
    one, two = stores(world)
    held = HeldLease(one, await take(one, (await one.list(["0"])).leases["0"], "host-a"), world.clock)
    await held.advance(Checkpoint("100", 7))
    await held.release()
    seen = (await two.list(["0"])).leases["0"]
    assert (seen.owner, seen.token, seen.leased, seen.epoch) == ("", "", False, 1)
    assert (await take(two, seen, "host-b")).lease.checkpoint == Checkpoint("100", 7)


async def test_a_checkpoint_never_falls(world: World) -> None:
    one, _ = stores(world)
    held = HeldLease(one, await take(one, (await one.list(["0"])).leases["0"], "host-a"), world.clock)
    await held.advance(Checkpoint("100", 7))
    await held.advance(Checkpoint("50", 3))
    assert (await one.read("0")).checkpoint == Checkpoint("100", 7)


async def test_an_expired_lease_is_taken_with_a_higher_epoch(world: World) -> None:
    one, two = stores(world)
    await take(one, (await one.list(["0"])).leases["0"], "host-a")
    await world.sleep(16)
    seen = (await two.list(["0"])).leases["0"]
    assert (seen.owner, seen.leased) == ("host-a", False)
    assert (await take(two, seen, "host-b")).lease.epoch == 2


async def test_a_damaged_lease_is_set_apart_and_the_others_stay(world: World) -> None:
    one, _ = stores(world)
    await one.list(["0", "1", "2"])
    await world.blobs.put("$Default/0", b"{")
    await world.blobs.put("$Default/1", b"[" * 5000)
    listing = await one.list(["0", "1", "2"])
    assert set(listing.leases) == {"2"}
    assert set(listing.invalid) == {"0", "1"}
    with pytest.raises(LeaseInvalid):
        await one.acquire(Lease("0"), "host-a")
    info = await world.blobs.head("$Default/0")
    assert info is not None and not info.leased  # what was taken is given back


async def test_a_deleted_lease_is_created_again(world: World) -> None:
    one, _ = stores(world)
    held = HeldLease(one, await take(one, (await one.list(["0"])).leases["0"], "host-a"), world.clock)
    await held.raise_epoch(above=41)
    assert (await one.read("0")).epoch == 42
    assert held.lease == replace(held.lease, epoch=42)
