"""Leases in the EventProcessorHost layout: the bytes, and what other holders of storage leases do."""

import pytest

from eventconsumer_processor.errors import LeaseLost
from eventconsumer_processor.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.lease.model import Checkpoint, Taken
from tests.contract.processor.conftest import World
from tests.support.fakes.blobs import FOREVER

FOREIGN = "11111111-1111-1111-1111-111111111111"


def store_of(world: World, *, other: bool = False) -> EventProcessorHostStore:
    """The leases as a host sees them."""
    return EventProcessorHostStore(world.other if other else world.blobs, "", "$Default", 15, world.clock)


async def take(store: EventProcessorHostStore, owner: str) -> Taken:
    """Acquire partition 0, which must work."""
    taken = await store.acquire((await store.list(["0"])).leases["0"], owner)
    assert taken is not None
    return taken


async def content(world: World) -> tuple[str, dict[str, str]]:
    """Body and metadata of the blob of partition 0."""
    blob = await world.other.read("$Default/0", 20_000)
    assert blob is not None
    return blob.data.decode(), {key.upper(): value for key, value in blob.info.metadata.items()}


async def test_the_bytes_from_creation_to_release(world: World) -> None:
    store = store_of(world)
    await store.list(["0"])
    fresh = '{"Offset":null,"SequenceNumber":0,"PartitionId":"0","Owner":"","Token":"","Epoch":0}'
    assert await content(world) == (fresh, {})
    held = HeldLease(store, await take(store, "host-a"), world.clock)
    owner = f'"PartitionId":"0","Owner":"host-a","Token":"{held.lease.token}","Epoch":1'
    assert await content(world) == (f'{{"Offset":null,"SequenceNumber":0,{owner}}}', {"OWNINGHOST": "host-a"})
    await held.advance(Checkpoint("4096", 12))
    assert await content(world) == (f'{{"Offset":"4096","SequenceNumber":12,{owner}}}', {"OWNINGHOST": "host-a"})
    await held.release()
    released = '{"Offset":"4096","SequenceNumber":12,"PartitionId":"0","Owner":"","Token":"","Epoch":1}'
    assert await content(world) == (released, {})


async def test_a_blob_of_the_java_library_stays_readable_for_it(world: World) -> None:
    await world.blobs.put("$Default/0", b'{"offset":"9","sequenceNumber":4,"epoch":-1,"partitionId":"0"}')
    taken = await take(store_of(world), "host-a")
    assert (taken.lease.epoch, taken.lease.checkpoint) == (0, Checkpoint("9", 4))
    body = f'"sequenceNumber":4,"token":"{taken.lease.token}","epoch":0,"partitionId":"0","owner":"host-a"'
    assert (await content(world))[0] == f'{{"offset":"9",{body}}}'


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 16_000, b" " * 20_000, b'{"Epoch":"1"}', b"\xff\xfe"])
async def test_no_damaged_body_is_taken_for_a_fresh_lease(world: World, body: bytes) -> None:
    await world.blobs.put("$Default/0", body)
    listing = await store_of(world).list(["0"])
    assert listing.leases == {}
    assert "cannot parse lease blob $Default/0" in listing.invalid["0"].why


async def test_a_lease_that_never_ends_is_a_problem_of_its_partition_alone(world: World) -> None:
    store = store_of(world)
    await store.list(["0", "1"])
    await world.other.acquire_lease("$Default/0", FOREIGN, FOREVER)
    listing = await store.list(["0", "1"])
    assert set(listing.leases) == {"1"}
    unusable = listing.invalid["0"]
    assert "$Default/0" in unusable.why and "infinite lease" in unusable.why and "Break the lease" in unusable.remedy
    assert unusable.rebuild is None
    await world.break_lease("$Default/0", 0)
    await take(store, "host-a")


async def test_a_lease_kept_by_something_without_a_name_is_told_when_it_lasts(world: World) -> None:
    if world.blobs is not world.other:
        pytest.skip("half a minute of real time")
    store = store_of(world)
    await store.list(["0"])
    await world.other.acquire_lease("$Default/0", FOREIGN, 60)
    lease = (await store.list(["0"])).leases["0"]  # as in the middle of an acquisition
    assert (lease.leased, lease.owner) == (True, "")
    assert await store.acquire(lease, "host-a") is None
    await world.sleep(31)
    assert "without an owner's name" in (await store.list(["0"])).invalid["0"].why
    await world.other.release_lease("$Default/0", FOREIGN)
    assert not (await store.list(["0"])).leases["0"].leased


async def test_a_lease_that_is_broken_ends_for_its_owner_while_it_could_still_write(world: World) -> None:
    store, other = store_of(world), store_of(world, other=True)
    held = HeldLease(store, await take(store, "host-a"), world.clock)
    await world.break_lease("$Default/0", 5)
    assert (await other.list(["0"])).leases["0"].leased
    await held.advance(Checkpoint("100", 7))  # storage still accepts it, and it is true
    with pytest.raises(LeaseLost):
        await store.renew(held.lease)
    await world.sleep(6)
    taken = await take(other, "host-b")
    assert (taken.lease.epoch, taken.lease.checkpoint) == (2, Checkpoint("100", 7))
    with pytest.raises(LeaseLost):
        await held.advance(Checkpoint("200", 8))
