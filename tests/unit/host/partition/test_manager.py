"""Fleets of partition managers in virtual time, in either layout: who owns what, who makes way, what is told."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from eventconsumer_host.errors import HubNotFound, LinkStolen
from eventconsumer_host.lease.azuresdk_store import MISSED
from eventconsumer_host.lease.eventprocessorhost import decode
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.store import STORAGE_SECONDS
from eventconsumer_host.partition.ownership import HEALED_SECONDS, LONGEST_PAUSE_SECONDS
from eventconsumer_host.source.hub import HubInfo, PartitionInfo
from eventconsumer_storage.blobs import BlobInfo
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import EPOCH as FAKE_EPOCH
from tests.support.fakes.blobs import FOREVER, FakeBlobStore
from tests.support.fakes.hub import FakeHub, FakeSource
from tests.support.legacyleases import WITHOUT_NUMBER, document
from tests.unit.host.fleets import (
    FOREIGN,
    LAYOUTS,
    SCAN,
    Fleet,
    cancelled,
    fleet_test,
    until,
)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_lone_host_takes_everything_at_its_first_scan(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        fleet.start("a")
        assert await until(lambda: fleet.counts() == [32], 2) < 1

    fleet_test(test, 32, layout)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_second_host_gets_its_share_and_then_nothing_moves(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        fleet.start("a")
        await until(lambda: fleet.counts() == [32], 10)
        fleet.start("b")
        assert await until(fleet.balanced, 16 * SCAN + 20) < 100
        before = [host.owned() for host in fleet.hosts.values()]
        for _ in range(50):
            await asyncio.sleep(SCAN / 10)
            assert [host.owned() for host in fleet.hosts.values()] == before

    fleet_test(test, 32, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_hosts_that_start_at_once_on_latest_agree_where(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        for part in fleet.hub.partitions.values():
            part.add(*[b"old"] * 5)
        fleet.start("a")
        fleet.start("b")
        await until(fleet.balanced, 30)
        for part in fleet.hub.partitions.values():
            part.add(*[b"new"] * 3)
        await until(fleet.drained, 60)
        assert {files[0][0] for files in fleet.files().values()} == {5}
        assert len([name for name in fleet.sink.blobs if "_genesis" in name]) == 4

    fleet_test(test, 4, layout)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_ten_hosts_join_leave_and_die(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        rng = Random(25)
        produced = 0
        for number in range(10):
            fleet.start(f"host-{number}")
            for part in fleet.hub.partitions.values():
                part.add(b"event")
                produced += 1
            await asyncio.sleep(rng.uniform(0, 2 * SCAN))
        await until(fleet.balanced, 200)
        for number in rng.sample(range(10), 8):
            host = fleet.hosts.pop(f"host-{number}")
            await (host.stop() if number % 2 else host.kill())
            for part in fleet.hub.partitions.values():
                part.add(b"event")
            await asyncio.sleep(rng.uniform(0, 2 * SCAN))
        await until(fleet.balanced, 30 + 16 * SCAN)
        await until(fleet.drained, 60)
        fleet.files()

    fleet_test(test, 16, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dead_hosts_partitions_are_owned_again_within_lease_and_scan(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        fleet.lease_seconds = 60
        dead = fleet.start("a")
        fleet.start("b")
        await until(fleet.balanced, 60)

        def renewed() -> int:
            calls = fleet.leases.calls
            return sum(what in {"renew_lease", "set_metadata"} and name[-1] in dead.owned() for what, name in calls)

        before = renewed()
        await until(lambda: renewed() > before, 60)  # the worst moment is right after a renewal
        await fleet.hosts.pop("a").kill()
        unseen = SCAN if layout == "AzureSdk" else 0.0  # there, an ownership counts from the scan that found it renewed
        seconds = await until(fleet.balanced, 60 + 4 * SCAN)
        print(f"a host died right after a renewal, alone, {layout}: {seconds:.1f} s")
        assert seconds <= 60 + 5 + unseen

    fleet_test(test, 8, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_stopped_hosts_partitions_are_owned_again_within_a_scan(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        fleet.start("a")
        fleet.start("b")
        await until(fleet.balanced, 60)
        await fleet.hosts.pop("a").stop()
        assert await until(fleet.balanced, 2 * SCAN) <= SCAN + 1

    fleet_test(test, 8, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_partitions_added_to_the_hub_are_found_and_counted(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [4], 10)
        grown = FakeHub(8)
        fleet.hub.partitions.update({name: part for name, part in grown.partitions.items() if int(name) >= 4})
        fleet.hub.partitions["6"].add(b"event")
        await until(lambda: fleet.counts() == [8], 8 * SCAN)
        assert len(host.manager.partition_ids) == 8

    fleet_test(test, 4, layout)


# --- faults of the lease container ---


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_deleted_lease_container_is_rebuilt_and_epochs_stay_above_the_files(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        fleet.start("a")
        await until(lambda: fleet.counts() == [4], 10)
        fleet.hub.partitions["1"].add(*[b"before"] * 10)
        await until(fleet.drained, 30)
        fleet.leases.delete_container()
        fleet.hub.partitions["1"].add(*[b"after"] * 10)
        fleet.hub.partitions["3"].add(*[b"first"] * 10)
        await asyncio.sleep(2 * SCAN + 12)
        await until(lambda: fleet.counts() == [4] and fleet.drained(), 30)
        files = fleet.files()["1"]
        assert [start for start, _, _ in files] == [0, 10]
        assert files[1][2] >= files[0][2]

    fleet_test(test, 4, layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_lease_deleted_while_held_is_taken_again_and_the_others_continue(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [2], 10)
        fleet.hub.partitions["0"].add(*[b"before"] * 10)
        await until(fleet.drained, 30)
        other = host.manager._owned["1"]
        fleet.leases.delete(fleet.blob("0"))
        await asyncio.sleep(2 * SCAN)
        fleet.hub.partitions["0"].add(*[b"after"] * 10)
        await until(lambda: fleet.counts() == [2] and fleet.drained(), 30)
        assert [epoch for _, _, epoch in fleet.files()["0"]] == [1, 2]
        assert host.manager._owned["1"] is other

    fleet_test(test, 2, layout)


def test_a_broken_lease_stops_its_pump_at_once() -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [2], 10)
        before = host.manager._owned["0"]
        fleet.leases.break_lease(fleet.blob("0"), 25)
        await until(lambda: host.manager._owned.get("0") is not before, 19)  # at the next renewal
        assert fleet.leases._lease(fleet.leases.blobs[fleet.blob("0")]) is not None  # it could still write
        await until(lambda: fleet.counts() == [2], 40)
        assert host.manager.reports()[0].epoch == 2

    fleet_test(test, 2, "EventProcessorHost")


def test_a_foreign_lease_that_never_ends_is_said_and_touches_no_other_partition() -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [4], 10)
        await host.stop()
        await fleet.leases.acquire_lease(fleet.blob("2"), FOREIGN, FOREVER)
        host = fleet.start("b")
        fleet.hosts.pop("a")
        await until(lambda: host.owned() == {"0", "1", "3"}, 10)
        (problem,) = host.problems("LeaseInvalid")
        assert problem.field == "spec.checkpointStore.container"
        assert "partition 2" in problem.message and "$Default/2" in problem.message
        assert "infinite lease" in problem.message and "Break the lease" in problem.message
        fleet.leases.break_lease(fleet.blob("2"), 0)
        await until(lambda: fleet.counts() == [4], 2 * SCAN)
        assert not host.problems("LeaseInvalid")

    fleet_test(test, 4, "EventProcessorHost")


class Gone(FakeHub):
    """Its links and, unless only the consumer group was deleted, the hub itself are not found."""

    group_only = False

    async def describe(self) -> HubInfo:
        if self.group_only:
            return await super().describe()
        raise HubNotFound("amqp:not-found: The messaging entity could not be found.")

    async def partition(self, partition: str) -> PartitionInfo:
        if self.group_only:
            return await super().partition(partition)
        raise HubNotFound("status code: 404")

    async def open(self, *_: object) -> FakeSource:
        raise HubNotFound("amqp:not-found: The messaging entity could not be found.")


@pytest.mark.parametrize("group_only", [False, True])
def test_a_deleted_hub_is_named_for_as_long_as_it_is_gone_and_a_deleted_group_as_such(group_only: bool) -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [2], 10)
        fleet.hub.__class__, fleet.hub.group_only = Gone, group_only
        for partition in fleet.hub.partitions.values():
            assert partition.reader
            partition.reader.broken = True
        await until(lambda: bool(host.problems("EventHubNotFound")), 10)
        await asyncio.sleep(60)  # the hub is silent, which is a problem of the host by itself
        found = {(each.reason, each.field) for each in host.manager.problems()}
        assert found == {("EventHubNotFound", f"spec.eventHub.{'consumerGroup' if group_only else 'name'}")}

    fleet_test(test, 2, "EventProcessorHost")


@pytest.mark.parametrize("body", [b"", b"{", b" " * 20_000, b"[" * 16_000])
def test_a_damaged_lease_is_rebuilt_where_files_know_the_position(body: bytes) -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [2], 10)
        fleet.hub.partitions["0"].add(*[b"before"] * 10)
        await until(fleet.drained, 30)
        await host.stop()
        await fleet.leases.put(fleet.blob("0"), body)
        fleet.hub.partitions["0"].add(*[b"after"] * 10)
        host = fleet.start("b")
        fleet.hosts.pop("a")
        await until(lambda: fleet.counts() == [2] and fleet.drained(), 30)
        (_, last, first_epoch), (start, _, epoch) = fleet.files()["0"]
        assert start == last + 1 and epoch > first_epoch
        assert not host.manager.problems()

    fleet_test(test, 2, "EventProcessorHost")


def test_a_damaged_lease_without_files_is_left_to_a_person() -> None:
    """It may have held what another program had read: starting at Latest would skip events silently."""

    async def test(fleet: Fleet) -> None:
        await fleet.leases.put(fleet.blob("0"), b'{"Offset":"100","SequenceNumber":')
        host = fleet.start("a")
        await until(lambda: host.owned() == {"1"}, 10)
        await asyncio.sleep(5 * SCAN)
        assert host.owned() == {"1"}
        (problem,) = host.problems("LeaseInvalid")
        assert "cannot parse lease blob $Default/0" in problem.message and "Restore or correct" in problem.message
        fleet.leases.delete(fleet.blob("0"))
        await until(lambda: fleet.counts() == [2], 2 * SCAN)
        assert not host.problems("LeaseInvalid")

    fleet_test(test, 2, "EventProcessorHost")


@pytest.mark.parametrize("dialect", [*WITHOUT_NUMBER, "go"])
def test_a_checkpoint_that_has_only_an_offset_gets_its_number_from_the_hub_or_waits_for_a_person(dialect: str) -> None:
    sdk = "shop.example/orders/$default/checkpoint/"  # azeventhubs: a program may give only the offset

    async def test(fleet: Fleet) -> None:
        for partition, offset in (("0", "60"), ("1", "65")):
            fleet.hub.partitions[partition].add(*[b"event"] * 10)
            if dialect == "go":
                await fleet.leases.put(sdk + partition, b"", metadata={"offset": offset})
            else:
                await fleet.leases.put(fleet.blob(partition), document(dialect, partition, offset, 6))
        host = fleet.start("a")
        await until(lambda: bool(fleet.files()) and fleet.files()["0"][-1][1] == 9, 30)
        assert fleet.files()["0"][0][:1] == (7,) and set(fleet.files()) == {"0"}  # read from behind the event
        if dialect == "go":
            await until(lambda: fleet.leases.blobs[sdk + "0"].metadata.get("sequencenumber") == "9", 10)
        else:
            checkpoint = decode(fleet.leases.blobs[fleet.blob("0")].data, "0").checkpoint
            assert checkpoint and checkpoint.sequence_number == 9
        (problem,) = host.problems("CheckpointInvalid")
        assert "partition 1 has offset '65' and no sequence number" in problem.message
        assert "checkpoint set orders -n shop --partition 1 --sequence-number" in problem.message

    fleet_test(test, 2, "AzureSdk" if dialect == "go" else "EventProcessorHost")


def test_a_damaged_checkpoint_of_the_sdks_is_rebuilt_or_left_likewise() -> None:
    async def test(fleet: Fleet) -> None:
        checkpoint = "shop.example/orders/$default/checkpoint/"
        for partition in "01":
            await fleet.leases.put(checkpoint + partition, b"", metadata={"offset": "1", "sequencenumber": "x"})
        await fleet.chain("0").begin(0)
        fleet.hub.partitions["0"].add(*[b"event"] * 10)
        host = fleet.start("a")
        await until(lambda: host.owned() == {"0"} and fleet.drained(), 30)
        await until(lambda: fleet.leases.blobs[checkpoint + "0"].metadata["sequencenumber"] == "9", 10)
        (problem,) = host.problems("LeaseInvalid")
        assert f"checkpoint blob {checkpoint}1" in problem.message

    fleet_test(test, 2, "AzureSdk")


# --- rivals ---


async def steal_link(fleet: Fleet, epoch: int | None = None) -> None:
    """A reader that holds no lease attaches to partition 0 with an equal or higher epoch."""
    part = fleet.hub.partitions["0"]
    mine = part.reader.epoch if part.reader else 0
    await fleet.hub.open("0", part.last, mine if epoch is None else epoch, 300)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rival_of_a_higher_epoch_is_reported_and_retried_less_and_less(layout: str) -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [2], 10)
        await asyncio.sleep(5)
        await steal_link(fleet, epoch=10_000)
        rival = fleet.hub.partitions["0"].reader
        assert rival is not None
        await until(lambda: bool(host.problems("Fenced")), 10)
        (problem,) = host.problems("Fenced")
        assert problem.field == "spec.eventHub.consumerGroup"
        assert "$Default" in problem.message and "partition 0" in problem.message and "stop it" in problem.message
        before = host.manager.reports()[0].epoch
        await asyncio.sleep(600)
        attempts = host.manager.reports()[0].epoch - before
        assert 600 / (LONGEST_PAUSE_SECONDS * 1.25) - 1 <= attempts <= 20  # bounded, and still trying
        assert host.owned() == {"0", "1"} and host.problems("Fenced")
        await rival.close()
        fleet.hub.partitions["0"].add(b"event")
        await until(fleet.drained, LONGEST_PAUSE_SECONDS * 1.25 + 10)
        await until(lambda: not host.problems("Fenced"), HEALED_SECONDS + 1)

    fleet_test(test, 2, layout)


def test_a_rival_that_takes_the_link_once_is_no_problem() -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [2], 10)
        await asyncio.sleep(5)
        await steal_link(fleet)
        fleet.hub.partitions["0"].add(b"event")
        await until(fleet.drained, 15)
        assert not host.problems("Fenced")
        assert host.manager.reports()[0].epoch == 2

    fleet_test(test, 2, "EventProcessorHost")


def test_a_stop_while_a_stolen_links_epoch_is_raised_gives_the_partition_up(monkeypatch: pytest.MonkeyPatch) -> None:
    raising = asyncio.Event()
    raise_epoch = HeldLease.raise_epoch

    async def slowly(self: HeldLease, above: int) -> None:
        raising.set()
        await asyncio.sleep(1)
        await raise_epoch(self, above)

    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [1], 10)
        await asyncio.sleep(5)
        monkeypatch.setattr(HeldLease, "raise_epoch", slowly)
        await steal_link(fleet)
        async with asyncio.timeout(20):
            await raising.wait()
        began = virtual_clock()
        await host.manager.drain(60)
        assert virtual_clock() - began < 5, "it does not wait for a pump that nobody told to stop"
        assert not host.owned()

    fleet_test(test, 1, "EventProcessorHost")


def test_two_rivals_with_equal_epochs_are_no_busy_loop() -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [1], 10)
        thefts = 0
        part = fleet.hub.partitions["0"]
        rival = None
        for _ in range(600):  # it takes the link back within a second, under the same epoch
            await asyncio.sleep(1)
            if part.reader is not rival and part.reader is not None and not part.reader.closed:
                await steal_link(fleet)
                rival = part.reader
                thefts += 1
        assert 10 <= thefts <= 40
        assert host.problems("Fenced")

    fleet_test(test, 1, "EventProcessorHost")


def test_a_fenced_pump_says_that_another_consumer_drains_into_the_same_files() -> None:
    async def test(fleet: Fleet) -> None:
        """Two consumers with lease containers of their own, and the same sink."""
        other = Fleet(fleet.hub, sink=fleet.sink)
        host, rival = fleet.start("a"), other.start("z")
        told: set[str] = set()
        for _ in range(200):
            fleet.hub.partitions["0"].add(b"event")
            await asyncio.sleep(1)
            told |= {problem.field for one in (host, rival) for problem in one.problems("Fenced")}
        assert told & {"spec.eventHub.consumerGroup", "spec.sink.prefix"}
        await other.close()
        await until(fleet.drained, LONGEST_PAUSE_SECONDS * 1.25 + 10)
        await until(lambda: not host.problems("Fenced"), HEALED_SECONDS + 1)

    fleet_test(test, 1, "EventProcessorHost")


def test_a_rival_does_not_keep_a_host_from_stopping() -> None:
    async def test(fleet: Fleet) -> None:
        host = fleet.start("a")
        await until(lambda: fleet.counts() == [1], 10)
        await steal_link(fleet, epoch=10_000)
        await asyncio.sleep(200)
        began = virtual_clock()
        await host.stop()
        assert virtual_clock() - began < 1
        assert b'"owner":""' in fleet.leases.blobs[fleet.blob("0")].data

    fleet_test(test, 1, "EventProcessorHost")


# --- time ---


class SlowStore(FakeBlobStore):
    """Some requests take long."""

    def __init__(self, inner: FakeBlobStore, slow: Callable[[str, str], float]) -> None:
        self.__dict__ = inner.__dict__
        self._slow = slow

    async def acquire_lease(self, name: str, lease_id: str, seconds: int) -> None:
        """See `BlobStore`."""
        await asyncio.sleep(self._slow("acquire_lease", name))
        await super().acquire_lease(name, lease_id, seconds)

    async def list(self, prefix: str, *, metadata: bool = False, limit: int | None = None) -> list[BlobInfo]:
        """See `BlobStore`."""
        await asyncio.sleep(self._slow("list", prefix))
        return await super().list(prefix, metadata=metadata, limit=limit)


def test_a_slow_acquisition_keeps_no_other_waiting() -> None:
    async def test(fleet: Fleet) -> None:
        slow = SlowStore(fleet.leases, lambda operation, name: 15.0 if name == fleet.blob("3") else 0.0)
        host = fleet.start("a", slow)
        assert await until(lambda: len(host.owned()) == 7, 3) < 3
        await until(lambda: len(host.owned()) == 8, 20)
        assert not host.manager.problems()

    fleet_test(test, 8, "EventProcessorHost")


def test_storage_that_hangs_bounds_the_scan_and_is_a_problem() -> None:
    async def test(fleet: Fleet) -> None:
        hang = [0.0]
        beats: list[float] = []
        slow = SlowStore(fleet.leases, lambda operation, _: hang[0] if operation == "list" else 0.0)
        host = fleet.start("a", slow)
        await cancelled(host.tasks[0])
        host.tasks[0] = asyncio.create_task(host.manager.run(lambda: beats.append(virtual_clock())))
        await until(lambda: fleet.counts() == [2], 10)
        hang[0] = 10_000.0
        await asyncio.sleep(400)
        assert max(after - before for before, after in pairwise(beats)) <= STORAGE_SECONDS + SCAN + 1
        (problem,) = host.problems("StorageUnreachable")
        assert "listing the leases took longer than 60 s" in problem.message
        assert fleet.counts() == [2]  # leases are renewed beside the scans
        hang[0] = 0.0
        await until(lambda: not host.manager.problems(), STORAGE_SECONDS + 2 * SCAN)

    fleet_test(test, 2, "EventProcessorHost")


def test_a_host_stopped_in_the_middle_of_an_acquisition_leaves_no_lease_behind() -> None:
    async def test(fleet: Fleet) -> None:
        class SlowRead(FakeBlobStore):
            def __init__(self, inner: FakeBlobStore) -> None:
                self.__dict__ = inner.__dict__

            async def put(self, name: str, data: bytes, **options: Any) -> str:
                if options.get("lease_id"):
                    await asyncio.sleep(10)
                return await super().put(name, data, **options)

        host = fleet.start("a", SlowRead(fleet.leases))
        await asyncio.sleep(3)
        assert all(fleet.leases._lease(blob) for blob in fleet.leases.blobs.values())
        await host.stop()
        assert not any(fleet.leases._lease(blob) for blob in fleet.leases.blobs.values())

    fleet_test(test, 2, "EventProcessorHost")


def test_a_host_stopped_while_a_lease_is_being_taken_gives_it_up_when_it_has_it() -> None:
    """A request that was sent has its effect, whoever waits for it; the release must come behind it."""

    async def test(fleet: Fleet) -> None:
        class OnItsWay(FakeBlobStore):
            def __init__(self, inner: FakeBlobStore) -> None:
                self.__dict__ = inner.__dict__

            async def acquire_lease(self, name: str, lease_id: str, seconds: int) -> None:
                async def arrive() -> None:
                    await asyncio.sleep(1)
                    await FakeBlobStore.acquire_lease(self, name, lease_id, seconds)

                await asyncio.shield(asyncio.ensure_future(arrive()))

        host = fleet.start("a", OnItsWay(fleet.leases))
        await asyncio.sleep(0.5)  # its leases are on their way
        assert not any(fleet.leases._lease(fleet.leases.blobs[fleet.blob(each)]) for each in fleet.hub.partitions)
        began = virtual_clock()
        await host.stop()
        assert virtual_clock() - began < 2
        await asyncio.sleep(3)
        assert not any(fleet.leases._lease(blob) for blob in fleet.leases.blobs.values())

    fleet_test(test, 2, "EventProcessorHost")


# --- beside processors of an SDK ---


@dataclass
class SdkProcessor:
    """What an SDK's processor does to the blobs and the hub: claims by metadata, attaches under epoch 0, gives up."""

    fleet: Fleet
    name: str
    interval: float = 30.0
    readers: dict[str, Any] = field(default_factory=dict)

    async def run(self) -> None:
        """Balance as the SDK does, for ever."""
        while True:
            await self.balance()
            await asyncio.sleep(self.interval)

    async def balance(self) -> None:
        """One round: renew what it owns, claim what is free, or steal one where it has less than its share."""
        blobs, now = self.fleet.leases, virtual_clock()
        owners = {}
        for partition in self.fleet.hub.partitions:
            blob = blobs.blobs.get(self.fleet.blob(partition))
            age = now - (blob.modified - FAKE_EPOCH).total_seconds() if blob else 0.0
            owners[partition] = blob.metadata["ownerid"] if blob and age < 6 * self.interval else ""
        alive = {owner for owner in owners.values() if owner} | {self.name}
        mine = [partition for partition, owner in owners.items() if owner == self.name]
        free = [partition for partition, owner in owners.items() if not owner]
        share = len(owners) // len(alive)
        most = -(-len(owners) // len(alive))
        claims = [*mine, *free[: max(0, most - len(mine))]]
        if len(claims) == len(mine) < share:
            loads = [owner for owner in owners.values() if owner != self.name]
            richest = max(set(loads), key=loads.count)
            claims.append(next(partition for partition, owner in owners.items() if owner == richest))
        for partition in claims:
            await self.claim(partition)

    async def claim(self, partition: str) -> None:
        """Claim, attach; give back where the link is refused."""
        blobs, name = self.fleet.leases, self.fleet.blob(partition)
        if name in blobs.blobs:
            await blobs.set_metadata(name, {"ownerid": self.name}, if_match=blobs.blobs[name].etag)
        else:
            await blobs.put(name, b"", metadata={"ownerid": self.name}, if_absent=True)
        reader = self.readers.get(partition)
        if reader and not reader.stolen:
            return
        try:
            self.readers[partition] = await self.fleet.hub.open(partition, -1, 0, 300)
        except LinkStolen:
            await blobs.set_metadata(name, {"ownerid": ""}, if_match=blobs.blobs[name].etag)

    def reading(self) -> set[str]:
        """Partitions whose link is its own."""
        return {
            partition
            for partition, reader in self.readers.items()
            if not reader.stolen and self.fleet.hub.partitions[partition].reader is reader
        }


@pytest.mark.parametrize("hosts", [1, 2])
def test_an_sdk_processor_gets_its_share_though_its_epoch_is_lower(hosts: int) -> None:
    async def test(fleet: Fleet) -> None:
        for number in range(hosts):
            fleet.start(f"host-{number}")
        await until(fleet.balanced, 60)
        await asyncio.sleep(60)
        sdk = SdkProcessor(fleet, "processor-1")
        running = asyncio.create_task(sdk.run())
        share = 8 // (hosts + 1)
        took = await until(lambda: len(sdk.reading()) >= share, 16 * sdk.interval)
        assert took <= 2 * share * sdk.interval + 10  # one theft takes two of its rounds
        await until(lambda: sum(fleet.counts()) + len(sdk.reading()) == 8, 60)
        before = (sdk.reading(), [host.owned() for host in fleet.hosts.values()])
        for _ in range(10):
            await asyncio.sleep(15)
            assert (sdk.reading(), [host.owned() for host in fleet.hosts.values()]) == before
        counts = [*fleet.counts(), len(sdk.reading())]
        assert max(counts) - min(counts) <= 1
        await cancelled(running)  # dies
        await until(fleet.balanced, MISSED * (sdk.interval + SCAN) + 10 * SCAN)

    fleet_test(test, 8, "AzureSdk")
