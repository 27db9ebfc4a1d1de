"""A host with the lease rules of the .NET EventProcessorHost beside ours: takeovers both ways; nobody owns twice."""

import json
import time
from collections.abc import Callable, Iterator

import pytest
from azure.storage.blob import ContainerClient

from eventconsumer_api.wire.identity import pod_of
from eventconsumer_host.lease.eventprocessorhost import BODY_METADATA as COPY
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import read_drained
from tests.integration.processor.hosts import Consumer
from tests.integration.processor.legacy_host import OWNER, LegacyHost
from tests.integration.processor.test_sdk_processor import foreign, publish
from tests.support.waiting import HANG_SECONDS

TURN_SECONDS = 0.5
LEASE_SECONDS = 15


class Shared:
    """A lease container that both kinds of host use, watched turn by turn."""

    def __init__(self, consumer: Consumer, container: ContainerClient) -> None:
        self.consumer = consumer
        self.container = container
        self.legacy: list[LegacyHost] = []
        self.tenures: dict[str, dict[int, str]] = {partition: {} for partition in consumer.heads()}  # epoch -> token
        self.owners: dict[str, str] = {}

    def host(self, name: str) -> LegacyHost:
        """Start a legacy host."""
        host = LegacyHost(name, self.container, seconds=60)  # no turn takes so long on a busy machine
        host.register(sorted(self.consumer.heads()))
        self.legacy.append(host)
        return host

    def turn(self) -> None:
        """Each legacy host does one turn of its loop and processes what is enqueued; then all blobs are checked."""
        for host in self.legacy:
            host.step()
            heads = self.consumer.emulator.admin.hub(self.consumer.hub)["partitions"]
            for head in heads:
                if head["partition"] in host.owned and head["last_enqueued_sequence_number"] >= 0:
                    host.checkpoint(
                        head["partition"], head["last_enqueued_offset"], head["last_enqueued_sequence_number"]
                    )
        self.check()
        time.sleep(TURN_SECONDS)

    def check(self) -> None:
        """One tenure an epoch, epochs never fall, and metadata that names the owner in the body, or nobody.

        A copy of the body in the metadata is ours; a legacy host keeps it, so it may be that of an earlier body.
        """
        for partition, tenures in self.tenures.items():
            blob = self.container.download_blob(f"$Default/{partition}")
            lease, metadata = json.loads(blob.readall()), blob.properties.metadata
            assert list(lease) == ["Offset", "SequenceNumber", "PartitionId", "Owner", "Token", "Epoch"]
            assert lease["Epoch"] >= max(tenures, default=0)
            self.owners[partition] = lease["Owner"]
            if lease["Token"]:
                assert tenures.setdefault(lease["Epoch"], lease["Token"]) == lease["Token"]
                assert metadata.keys() - {COPY} == {OWNER} and metadata[OWNER] == lease["Owner"]
            else:
                assert metadata.keys() <= {COPY}
            tokens = {host.name for host in self.legacy if host.owned.get(partition, {}).get("Token") == lease["Token"]}
            assert tokens <= {lease["Owner"]}

    def count(self, name: str) -> int:
        """How many partitions a host owns."""
        return sum(pod_of(owner).startswith(name) for owner in self.owners.values())

    def until(self, met: Callable[[], bool], what: str) -> None:
        """Turn after turn, until it is met."""
        deadline = time.monotonic() + HANG_SECONDS
        while not met():
            assert time.monotonic() < deadline, f"not within {HANG_SECONDS:.0f} s: {what}; {self.owners}"
            self.turn()


@pytest.fixture
def shared(consumer: MakeConsumer) -> Iterator[Shared]:
    """A consumer of four partitions whose leases others share."""
    orders = consumer(partitions=4)
    orders.config["leases"] |= {"shared": True, "durationSeconds": LEASE_SECONDS}
    with orders.container(orders.leases) as container:
        container.create_container()
        yield Shared(orders, container)


@pytest.mark.long  # contract/host/lease and test_identity.py have its leases
def test_partitions_pass_between_a_legacy_host_and_ours_in_both_directions(shared: Shared) -> None:
    orders = shared.consumer
    legacy = shared.host("legacy-0")
    publish(orders, 25)
    shared.until(lambda: shared.count("legacy-0") == 4, "the legacy host owns everything")
    shared.turn()
    ours = orders.host("ours-0")
    shared.until(lambda: shared.count("ours-0") == shared.count("legacy-0") == 2, "ours stole its share")
    settled = dict(shared.owners)
    for _ in range(10):  # two scans of ours
        shared.turn()
        assert shared.owners == settled  # balanced: nothing moves
    assert set(legacy.owned) == {partition for partition, owner in settled.items() if owner == "legacy-0"}
    publish(orders, 100, 100)
    shared.turn()
    legacy.release_all()
    shared.legacy.clear()
    shared.until(lambda: shared.count("ours-0") == 4, "what it released is taken at once")
    again = shared.host("legacy-1")
    publish(orders, 100, 500)
    shared.until(lambda: shared.count("legacy-1") == 2, "the legacy host stole its share")
    shared.until(lambda: len(ours.owned()) == 2, "and ours noticed")
    publish(orders, 25, 900)
    heads = orders.heads()
    shared.until(
        lambda: all(part.next_sequence_number == heads[part.id] + 1 for part in ours.report().partitions),
        "ours read its share",
    )
    assert ours.terminate() == 0
    shared.check()
    assert shared.count("ours") == 0  # released: no owner, token nor metadata
    for part in orders.emulator.admin.hub(orders.hub)["partitions"]:
        lease = again.read(part["partition"])  # it reads our checkpoints as its own
        end = part["last_enqueued_offset"], part["last_enqueued_sequence_number"]
        assert (lease["Offset"], lease["SequenceNumber"]) == end
    shared.until(lambda: shared.count("legacy-1") == 4, "what ours released is taken")
    second = orders.host("ours-2")
    shared.until(lambda: shared.count("ours-2") == 2, "ours again")
    second.kill()
    shared.until(lambda: shared.count("legacy-1") == 4, "expired leases are taken")
    again.release_all()
    shared.legacy.clear()
    third = orders.host("ours-3")
    publish(orders, 25, 1000)

    def drained() -> bool:
        found = {part.id: part.next_sequence_number for part in third.report().partitions}
        return found == {partition: head + 1 for partition, head in orders.heads().items()}

    shared.until(drained, "everything is read")
    with orders.container(orders.drained) as container:
        result = read_drained(container, "shop/orders")
    skipped = foreign(result)
    for partition, head in orders.heads().items():
        rows, gone = set(result.rows[partition]), {number for p, number in skipped if p == partition}
        assert not rows & gone
        assert rows | gone == set(range(min(rows | gone), head + 1))
    assert set(skipped.values()) <= {1}
