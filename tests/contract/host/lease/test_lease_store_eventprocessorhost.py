"""Leases in the EventProcessorHost layout: the bytes, and what other holders of storage leases do."""

from dataclasses import replace
from typing import Any

import pytest

from eventconsumer_api.v1alpha1 import LeaseDialect
from eventconsumer_host.errors import LeaseLost
from eventconsumer_host.lease.eventprocessorhost_store import EventProcessorHostStore
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Checkpoint, Lease, Taken
from eventconsumer_storage.blobs import BlobStore
from tests.contract.conftest import ContainerWorld
from tests.support.fakes.blobs import FOREVER

FOREIGN = "11111111-1111-1111-1111-111111111111"


def store_of(
    world: ContainerWorld, *, other: bool = False, dialect: LeaseDialect = LeaseDialect.AUTO
) -> EventProcessorHostStore:
    """The leases as a host sees them."""
    blobs = world.other if other else world.blobs
    return EventProcessorHostStore(blobs, "", "$Default", 15, world.clock, dialect=dialect)


async def take(store: EventProcessorHostStore, owner: str) -> Taken:
    """Acquire partition 0, which must work."""
    taken = await store.acquire((await store.list(["0"])).leases["0"], owner)
    assert taken is not None
    return taken


async def content(world: ContainerWorld, partition: str = "0") -> tuple[str, dict[str, str]]:
    """Body and metadata of a partition's blob, without the copy of the body."""
    blob = await world.other.read(f"$Default/{partition}", 20_000)
    assert blob is not None
    body, metadata = blob.data.decode(), {key.upper(): value for key, value in blob.info.metadata.items()}
    assert metadata.pop("LEASE") == body
    return body, metadata


DOT_NET = '{"Offset":%s,"SequenceNumber":%d,"PartitionId":"0","Owner":"%s","Token":"%s","Epoch":%d}'
JAVA = '{%s"sequenceNumber":%d,"token":"%s","epoch":%d,"partitionId":"0","owner":"%s"}'


async def test_the_bytes_from_creation_to_release(world: ContainerWorld) -> None:
    store = store_of(world)
    await store.list(["0"])
    assert await content(world) == (JAVA % ("", -1, "", 0, ""), {})
    held = HeldLease(store, await take(store, "host-a"), world.clock)
    token, owner = held.lease.token, {"OWNINGHOST": "host-a"}
    assert await content(world) == (JAVA % ("", -1, token, 1, "host-a"), owner)
    await held.advance(Checkpoint("4096", 12))
    assert await content(world) == (JAVA % ('"offset":"4096",', 12, token, 1, "host-a"), owner)
    await held.release()
    assert await content(world) == (JAVA % ('"offset":"4096",', 12, "", 1, ""), {})


async def test_the_bytes_in_the_dialect_of_dot_net(world: ContainerWorld) -> None:
    store = store_of(world, dialect=LeaseDialect.DOT_NET)
    await store.list(["0"])
    assert await content(world) == (DOT_NET % ("null", -1, "", "", 0), {})
    held = HeldLease(store, await take(store, "host-a"), world.clock)
    await held.advance(Checkpoint("4096", 12))
    assert await content(world) == (DOT_NET % ('"4096"', 12, "host-a", held.lease.token, 1), {"OWNINGHOST": "host-a"})


class Unread:
    """A container of which no content can be read."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def __getattr__(self, operation: str) -> Any:
        """Any operation but `read`."""
        assert operation != "read"
        return getattr(self._blobs, operation)


async def test_a_listing_shows_all_leases_and_only_bodies_of_other_programs_are_read(world: ContainerWorld) -> None:
    store = store_of(world)
    await store.list(["0", "1"])
    held = HeldLease(store, await take(store, "host-a"), world.clock)
    await held.advance(Checkpoint("4096", 12))
    unread: Any = Unread(world.other)
    seen = (await EventProcessorHostStore(unread, "", "$Default", 15, world.clock).list(["0", "1"])).leases
    assert replace(seen["0"], etag="") == replace(held.lease, etag="")
    assert seen["0"].etag == (await store.read("0")).etag
    assert replace(seen["1"], etag="") == Lease("1")
    blob = await world.other.read("$Default/1", 20_000)
    assert blob is not None
    # Other programs keep the metadata, and so do persons.
    await world.other.put("$Default/1", OF_JAVA % b"1", metadata=blob.info.metadata)
    assert (await store.list(["0", "1"])).leases["1"].checkpoint == Checkpoint("9", 4)
    await world.other.put("$Default/1", b"{", metadata=blob.info.metadata)
    assert (await store.list(["0", "1"])).invalid["1"].rebuild


OF_JAVA = b'{"offset":"9","sequenceNumber":4,"epoch":0,"partitionId":"%s","owner":"","token":""}'
OF_DOT_NET = b'{"Offset":"9","SequenceNumber":4,"PartitionId":"%s","Owner":"","Token":"","Epoch":0}'
DESTROYED = b'{"sequenceNumber":0,"token":"t","epoch":3,"partitionId":"-1","owner":"java-1"}'  # by Java, of .NET's keys


@pytest.mark.parametrize(
    ("dialect", "others", "java"),
    [
        (LeaseDialect.AUTO, [], True),
        (LeaseDialect.AUTO, [b"{"], True),
        (LeaseDialect.AUTO, [OF_JAVA % b"1"], True),
        (LeaseDialect.AUTO, [OF_DOT_NET % b"1"], False),
        (LeaseDialect.AUTO, [OF_DOT_NET % b"1", OF_JAVA % b"2"], True),
        (LeaseDialect.AUTO, [OF_DOT_NET % b"1", DESTROYED], True),
        (LeaseDialect.JAVA, [OF_DOT_NET % b"1"], True),
        (LeaseDialect.DOT_NET, [OF_JAVA % b"1"], False),
    ],
)
async def test_a_new_and_a_rebuilt_blob_get_the_keys_of_the_others(
    world: ContainerWorld, dialect: LeaseDialect, others: list[bytes], java: bool
) -> None:
    for number, body in enumerate(others, 1):
        await world.blobs.put(f"$Default/{number}", body)
    await world.blobs.put("$Default/9", b"not a lease")
    store = store_of(world, dialect=dialect)
    listing = await store.list(["0", "1", "2", "9"])  # 0 is that of a hub that grew
    key = '"partitionId"' if java else '"PartitionId"'
    assert key in (await content(world))[0]
    rebuild = listing.invalid["9"].rebuild
    assert rebuild is not None
    assert await store.acquire(rebuild, "host-a", rebuild=True) is not None
    assert key in (await content(world, "9"))[0]


async def test_a_lease_gets_the_keys_that_are_set_when_it_is_acquired(world: ContainerWorld) -> None:
    await world.blobs.put("$Default/0", OF_DOT_NET % b"0")
    taken = await take(store_of(world, dialect=LeaseDialect.JAVA), "host-a")
    assert (await content(world))[0] == JAVA % ('"offset":"9",', 4, taken.lease.token, 1, "host-a")


async def test_a_blob_of_the_java_library_stays_readable_for_it(world: ContainerWorld) -> None:
    await world.blobs.put("$Default/0", b'{"offset":"9","sequenceNumber":4,"epoch":-1,"partitionId":"0"}')
    taken = await take(store_of(world), "host-a")
    assert (taken.lease.epoch, taken.lease.checkpoint) == (0, Checkpoint("9", 4))
    body = f'"sequenceNumber":4,"token":"{taken.lease.token}","epoch":0,"partitionId":"0","owner":"host-a"'
    assert (await content(world))[0] == f'{{"offset":"9",{body}}}'


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 16_000, b" " * 20_000, b'{"Epoch":"one"}', b"\xff\xfe"])
async def test_no_damaged_body_is_taken_for_a_fresh_lease(world: ContainerWorld, body: bytes) -> None:
    await world.blobs.put("$Default/0", body)
    listing = await store_of(world).list(["0"])
    assert listing.leases == {}
    assert "cannot parse lease blob $Default/0" in listing.invalid["0"].why


async def test_a_lease_that_never_ends_is_a_problem_of_its_partition_alone(world: ContainerWorld) -> None:
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


async def test_a_lasting_lease_without_an_owner_is_reported(world: ContainerWorld) -> None:
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


async def test_a_lease_that_is_broken_ends_for_its_owner_while_it_could_still_write(world: ContainerWorld) -> None:
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
