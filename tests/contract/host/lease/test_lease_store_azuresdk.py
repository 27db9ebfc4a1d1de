"""Leases in the layout of the Azure SDKs: the metadata, and what processors of those SDKs do to it."""

import asyncio

import pytest

from eventconsumer_api.wire.identity import LeaseRecord
from eventconsumer_host.errors import LeaseLost, LeasesAmbiguous
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.azuresdk_store import FOREIGN_SECONDS, HANDOVER_SECONDS, AzureSdkStore
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_storage.errors import Damaged
from tests.contract.conftest import ContainerWorld
from tests.support.fakes.blobs import EPOCH

NAMES = Names("", "Shop.Example", "Orders", "$Default")
OWNERSHIP = "shop.example/orders/$default/ownership/0"
CHECKPOINT = "shop.example/orders/$default/checkpoint/0"


def store_of(world: ContainerWorld, *, other: bool = False) -> AzureSdkStore:
    """The leases as a host sees them."""
    return AzureSdkStore(world.other if other else world.blobs, NAMES, 15, world.clock)


async def listed(store: AzureSdkStore) -> Lease:
    """Partition 0 as listed."""
    return (await store.list(["0"])).leases["0"]


async def hold(store: AzureSdkStore, world: ContainerWorld, owner: str = "host-a") -> HeldLease:
    """Acquire partition 0, which must work."""
    taken = await store.acquire(await listed(store), owner)
    assert taken is not None
    return HeldLease(store, taken, world.clock)


async def metadata(world: ContainerWorld, name: str) -> dict[str, str]:
    """A blob's metadata; it must have no content."""
    head = await world.other.head(name)
    assert head is not None and head.size == 0
    return {key.lower(): value for key, value in head.metadata.items()}


async def claim_as_sdk(world: ContainerWorld, owner: str, name: str = OWNERSHIP) -> None:
    """What a processor of an SDK does to claim, or with an empty owner to give back."""
    head = await world.other.head(name)
    if head is None:
        await world.other.put(name, b"", metadata={"ownerid": owner}, if_absent=True)
    else:
        await world.other.set_metadata(name, {"ownerid": owner}, if_match=head.etag)


async def test_the_blobs_from_the_first_claim_to_release(world: ContainerWorld) -> None:
    store = store_of(world)
    await store.list(["0"])
    assert await world.other.list("") == []  # nothing is there before somebody claims it
    held = await hold(store, world)
    token = held.lease.token
    assert await metadata(world, OWNERSHIP) == {"ownerid": "host-a", "epoch": "1", "token": token, "seconds": "15"}
    await held.advance(Checkpoint("4096", 12))
    assert await metadata(world, CHECKPOINT) == {"offset": "4096", "sequencenumber": "12"}
    await held.release()
    assert await metadata(world, OWNERSHIP) == {"ownerid": "", "epoch": "1", "token": "", "seconds": "15"}
    assert [info.name for info in await world.other.list("")] == [CHECKPOINT, OWNERSHIP]


async def test_renewing_changes_the_blob_so_that_others_see_life(world: ContainerWorld) -> None:
    held = await hold(store_of(world), world)
    before = await world.other.head(OWNERSHIP)
    await held._renew()
    after = await world.other.head(OWNERSHIP)
    assert before is not None and after is not None and before.etag != after.etag == held.lease.etag


async def test_a_claim_by_a_processor_of_an_sdk_ends_ours_and_drops_the_epoch(world: ContainerWorld) -> None:
    store = store_of(world)
    held = await hold(store, world)
    await held.raise_epoch(above=8)
    await claim_as_sdk(world, "processor-1")
    with pytest.raises(LeaseLost):
        await held._renew()
    seen = await listed(store)
    assert (seen.owner, seen.leased, seen.epoch) == ("processor-1", True, 0)
    with pytest.raises(LeaseLost):
        await held.refresh()
    taken = await store.acquire(seen, "host-a")
    assert taken is not None and taken.lease.epoch == 10  # remembered by this host, though the blob lost it


async def test_an_ownership_of_an_sdk_is_over_when_it_did_not_change_for_long(world: ContainerWorld) -> None:
    if world.blobs is not world.other:
        pytest.skip("two minutes of real time")
    store = store_of(world)
    await claim_as_sdk(world, "processor-1")
    assert (await listed(store)).leased
    await world.sleep(FOREIGN_SECONDS - 1)
    assert (await listed(store)).leased
    await claim_as_sdk(world, "processor-1")
    await world.sleep(2)
    assert (await listed(store)).leased
    await world.sleep(FOREIGN_SECONDS + 1)
    seen = await listed(store)
    assert (seen.owner, seen.leased) == ("processor-1", False)
    await hold(store, world)


@pytest.mark.parametrize(
    ("intervals", "patience"),
    [
        ([30] * 6, 75),  # .NET, Java and Python as they are by default
        ([30, 33, 36, 30], 90),
        ([10] * 13, 25),
        ([2] * 60, 15),  # not less than a lease of a host
        ([0.5] * 20 + [30] * 4, 75),  # it first acquired its share
        ([0.5] * 20 + [30] * 3, FOREIGN_SECONDS),  # too few were seen
        ([60] * 4, FOREIGN_SECONDS),
    ],
)
async def test_an_ownership_of_an_sdk_expires_by_the_intervals_between_its_claims(
    world: ContainerWorld, intervals: list[float], patience: int
) -> None:
    if world.blobs is not world.other:
        pytest.skip("minutes of real time")
    store = store_of(world)
    await claim_as_sdk(world, "processor-1")
    for interval in intervals:
        assert (await listed(store)).leased
        await world.sleep(interval)
        await claim_as_sdk(world, "processor-1")
    assert (await listed(store)).leased
    await world.sleep(patience - 0.1)
    assert (await listed(store)).leased
    await world.sleep(0.2)
    assert not (await listed(store)).leased


async def test_a_partition_expires_by_the_claims_on_all_partitions_of_its_owner(world: ContainerWorld) -> None:
    if world.blobs is not world.other:
        pytest.skip("minutes of real time")
    store = store_of(world)
    other = OWNERSHIP.replace("/0", "/1")
    for _ in range(13):
        await claim_as_sdk(world, "processor-1", other)
        await store.list(["0", "1"])
        await world.sleep(10)
    await claim_as_sdk(world, "processor-1", other)
    await claim_as_sdk(world, "processor-1")  # it just took this one, and dies
    assert {lease.leased for lease in (await store.list(["0", "1"])).leases.values()} == {True}
    await world.sleep(26)
    assert {lease.leased for lease in (await store.list(["0", "1"])).leases.values()} == {False}


async def test_what_an_sdk_gave_back_is_free_at_once(world: ContainerWorld) -> None:
    store = store_of(world)
    await claim_as_sdk(world, "processor-1")
    assert (await listed(store)).leased
    await claim_as_sdk(world, "")
    seen = await listed(store)
    assert (seen.owner, seen.token, seen.leased) == ("", "", False)
    await hold(store, world)


async def test_a_claimant_that_was_refused_finds_the_partition_free_at_its_next_attempt(world: ContainerWorld) -> None:
    ours, other = store_of(world), store_of(world, other=True)
    await hold(ours, world)
    await other.list(["0"])
    await claim_as_sdk(world, "processor-1")  # attaches, is refused while our reader is there
    await claim_as_sdk(world, "")  # and gives up
    for store in (ours, other):
        seen = await listed(store)
        assert (seen.owner, seen.leased, seen.token) == ("", True, "")  # kept for the claimant
    await claim_as_sdk(world, "processor-1")
    assert (await listed(ours)).owner == "processor-1"
    if world.blobs is world.other:
        await claim_as_sdk(world, "")
        assert (await listed(ours)).leased
        await world.sleep(HANDOVER_SECONDS)
        assert not (await listed(ours)).leased


async def test_a_partition_that_one_of_ours_released_is_kept_for_nobody(world: ContainerWorld) -> None:
    store, other = store_of(world), store_of(world, other=True)
    held = await hold(store, world)
    await other.list(["0"])
    await held.release()
    assert not (await listed(other)).leased


async def test_checkpoints_of_an_sdk_are_read_and_never_lowered(world: ContainerWorld) -> None:
    await world.other.put(CHECKPOINT, b"", metadata={"offset": "100", "sequencenumber": "7", "clientidentifier": "c"})
    store = store_of(world)
    held = await hold(store, world)
    assert held.lease.checkpoint == Checkpoint("100", 7)
    await world.other.set_metadata(CHECKPOINT, {"offset": "200", "sequencenumber": "20"})  # on no condition
    await held.advance(Checkpoint("150", 12))
    assert await metadata(world, CHECKPOINT) == {"offset": "200", "sequencenumber": "20"}
    assert held.lease.checkpoint == Checkpoint("200", 20)
    await world.other.set_metadata(CHECKPOINT, {"offset": "50", "sequencenumber": "3"})  # a zombie's
    await held.advance(Checkpoint("210", 21))
    assert await metadata(world, CHECKPOINT) == {"offset": "210", "sequencenumber": "21"}


async def test_a_checkpoint_written_after_the_tenure_is_refused(world: ContainerWorld) -> None:
    held = await hold(store_of(world), world)
    await held.advance(Checkpoint("10", 1))
    await claim_as_sdk(world, "processor-1")
    await world.other.set_metadata(CHECKPOINT, {"offset": "5", "sequencenumber": "0"})
    with pytest.raises(LeaseLost):
        await held.advance(Checkpoint("20", 2))
    assert held.keeper.lost.is_set()
    assert await metadata(world, CHECKPOINT) == {"offset": "5", "sequencenumber": "0"}


SPELLED = "SHOP.example/Orders/$Default"  # by the user of another program


def record(spelling: str) -> bytes:
    """The record of the leases."""
    texts = dict.fromkeys(("namespace", "hub", "consumer_group", "chain", "sink", "resource"), "x")
    return LeaseRecord(**texts, since=EPOCH, spelling=spelling).model_dump_json(by_alias=True).encode()


async def test_blobs_of_an_sdk_that_keeps_case_are_used_under_their_names(world: ContainerWorld) -> None:
    await world.other.put(f"{SPELLED}/checkpoint/0", b"", metadata={"offset": "100", "sequencenumber": "7"})
    await claim_as_sdk(world, "", f"{SPELLED}/ownership/0")
    await world.other.put("SHOP.example/Orders/$Defaults/ownership/0", b"")  # of another group
    store = store_of(world)
    (found,) = await store.existing()
    held = await hold(store, world)
    assert found.checkpoint == held.lease.checkpoint == (await held.refresh()).checkpoint == Checkpoint("100", 7)
    await held.advance(Checkpoint("110", 8))
    await held.release()
    assert await metadata(world, f"{SPELLED}/checkpoint/0") == {"offset": "110", "sequencenumber": "8"}
    assert await world.other.list("shop.") == []
    assert (await store.spelling(), store.folder) == (SPELLED, "shop.example/orders/$default/")


async def test_the_record_decides_the_spelling_for_good(world: ContainerWorld) -> None:
    await world.other.put(f"{SPELLED}/checkpoint/0", b"", metadata={"offset": "100", "sequencenumber": "7"})
    await world.other.put(CHECKPOINT, b"", metadata={"offset": "50", "sequencenumber": "3"})
    with pytest.raises(LeasesAmbiguous, match=r"2 folders.*SHOP.example/Orders/\$Default and shop.example/orders/"):
        await listed(store_of(world))
    for spelling, number in {"": 3, SPELLED: 7}.items():
        await world.other.put("shop.example/orders/$default~identity.json", record(spelling))
        reached = (await listed(store_of(world))).checkpoint
        assert reached is not None and reached.sequence_number == number
    for other in ("shop.example/orders", "shop.example/billing/$default", "shop.example/orders/$default/x"):
        await world.other.put("shop.example/orders/$default~identity.json", record(other))
        with pytest.raises(Damaged, match=r"cannot parse the record shop.example/orders/"):
            await listed(store_of(world))


async def test_a_partition_whose_owner_lives_under_another_spelling_is_left_to_it(world: ContainerWorld) -> None:
    await world.other.put("shop.example/orders/$default~identity.json", record(""))
    rival = f"{SPELLED}/ownership/0"
    await claim_as_sdk(world, "go-1", rival)
    store = store_of(world)
    listing = await store.list(["0", "1"])
    assert (listing.invalid["0"].rebuild, [*listing.leases]) == (None, ["1"])
    assert f"go-1 owns it by blob {rival}" in listing.invalid["0"].why
    await claim_as_sdk(world, "", rival)
    assert not (await listed(store)).leased
    if world.blobs is world.other:
        await claim_as_sdk(world, "go-2", rival)
        await world.sleep(FOREIGN_SECONDS + 1)  # it ended, and a host of ours runs
        assert await store.acquire(listing.leases["1"], "host-a")
        await hold(store_of(world), world)


async def test_of_an_sdk_and_a_host_that_claim_at_once_one_wins(world: ContainerWorld) -> None:
    store = store_of(world)
    await claim_as_sdk(world, "")
    seen = await listed(store)
    stale = seen.etag

    async def sdk() -> bool:
        try:
            await world.other.set_metadata(OWNERSHIP, {"ownerid": "processor-1"}, if_match=stale)
        except Exception:
            return False
        return True

    taken, claimed = await asyncio.gather(store.acquire(seen, "host-a"), sdk())
    assert (taken is not None) != claimed
    owner = (await metadata(world, OWNERSHIP))["ownerid"]
    assert owner == ("processor-1" if claimed else "host-a")


async def test_a_lease_rebuilt_from_a_damaged_checkpoint_can_be_read_again(world: ContainerWorld) -> None:
    store = store_of(world)
    await (await hold(store, world)).release()
    await world.other.put(CHECKPOINT, b"", metadata={"sequencenumber": "twelve"})
    unusable = (await store.list(["0"])).invalid["0"]
    assert unusable.rebuild is not None
    taken = await store.acquire(unusable.rebuild, "host-b", rebuild=True)
    assert taken is not None
    held = HeldLease(store, taken, world.clock)
    assert (await held.refresh()).checkpoint is None
    await held.advance(Checkpoint("4096", 12))
    assert await metadata(world, CHECKPOINT) == {"offset": "4096", "sequencenumber": "12"}
