"""The unmodified Java libraries beside our hosts on one lease container: takeovers both ways, kills, a hub that grows.

Each event is in exactly one file, or was given to a Java processor; what a Java processor has checkpointed is recorded
as a gap of kind `foreign` between the files.
"""

import json
from collections import Counter

import pytest

from eventconsumer_api.wire.identity import pod_of
from tests.integration.interop.conftest import MakeTlsConsumer, StartJava
from tests.integration.interop.processes import CURRENT, LEGACY, JavaProcess, TlsConsumer
from tests.integration.processor.drained import read_drained
from tests.integration.processor.hosts import HostProcess
from tests.integration.processor.test_sdk_processor import foreign
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long
LEASE_SECONDS = 15


def bodies(orders: TlsConsumer) -> dict[str, tuple[dict[str, object], bool]]:
    """Lease blobs in layout EventProcessorHost by partition: the body, and whether the blob is leased."""
    with orders.container(orders.leases) as container:
        found = [blob for blob in container.list_blobs("$Default/") if "~" not in blob.name]
        return {
            blob.name.rsplit("/", 1)[1]: (
                json.loads(container.download_blob(blob.name).readall()),
                blob.lease.state == "leased",
            )
            for blob in found
        }


def shares(orders: TlsConsumer) -> Counter[str]:
    """Number of partitions of each owner in leases that are held: pods of ours, names of Java processes."""
    found = [str(body.get("owner") or "") for body, leased in bodies(orders).values() if leased]
    return Counter(pod_of(owner) if "/" in owner else owner for owner in found if owner)


def in_files(orders: TlsConsumer) -> dict[str, int]:
    """Partition -> last sequence number in files."""
    found: dict[str, int] = {}
    with orders.container(orders.drained) as container:
        for blob in container.list_blobs("shop/orders/segment=", include=["metadata"]):
            partition = blob.name.split("partition=")[1].split("/")[0]
            found[partition] = max(found.get(partition, -1), int(blob.metadata["last"]))
    return found


def sdk_shares(orders: TlsConsumer) -> Counter[bool]:
    """Number of ownership blobs in layout AzureSdk by whether a host of ours is the owner; released ones not."""
    with orders.container(orders.leases) as container:
        found = [blob.metadata for blob in container.list_blobs(include=["metadata"]) if "/ownership/" in blob.name]
    return Counter("epoch" in facts for facts in found if facts.get("ownerid"))


class _Links:
    """The links of all readers, for the message of a failure."""

    def __init__(self, orders: TlsConsumer) -> None:
        self._orders = orders

    def __repr__(self) -> str:
        return str(self._orders.emulator.admin.links(kind="reader", hub=self._orders.hub))


def wait_read(orders: TlsConsumer, hosts: list[HostProcess], others: list[JavaProcess]) -> None:
    """Wait until each partition is read to its end, by a host of ours or a Java process.

    A host of ours may write events of a partition after another program has taken its ownership blob.
    """

    def behind() -> set[str]:
        reached = in_files(orders)
        for other in others:
            for partition, numbers in other.given.items():
                reached[partition] = max(reached.get(partition, -1), *numbers)
        for host in hosts:
            for part in host.report().partitions:
                reached[part.id] = max(reached.get(part.id, -1), (part.next_sequence_number or 0) - 1)
        return {partition for partition, head in orders.heads().items() if reached.get(partition, -1) < head}

    wait_until(lambda: not behind(), ("all is read", _Links(orders), hosts, others))


def check(orders: TlsConsumer, others: list[JavaProcess]) -> None:
    """Each event is once in a file, or a Java process was given it; what is recorded as foreign, it was given."""
    with orders.container(orders.drained) as container:
        drained = read_drained(container, "shop/orders")
    rows = Counter((partition, number) for partition, found in drained.rows.items() for number in found)
    given = {(p, number) for other in others for p, numbers in other.given.items() for number in numbers}
    skipped = foreign(drained)
    assert set(rows.values()) <= {1}
    assert set(skipped.values()) <= {1}
    assert not rows.keys() & skipped.keys()
    assert skipped.keys() <= given
    everything = {(partition, number) for partition, head in orders.heads().items() for number in range(head + 1)}
    assert rows.keys() | given == everything


def test_leases_of_ours_go_to_java_and_back(consumer: MakeTlsConsumer, java: StartJava) -> None:
    orders = consumer(8, shared=True, durationSeconds=LEASE_SECONDS)
    first = orders.host("ours-0")
    wait_until(lambda: shares(orders) == {"ours-0": 8}, "ours owns all")
    orders.publish_numbers(50)
    wait_read(orders, [first], [])
    assert first.terminate() == 0
    old = orders.heads()
    other = java(LEGACY, orders, "java-0")
    wait_until(lambda: shares(orders) == {"java-0": 8}, ("Java takes all", other), pause=1)
    orders.publish_numbers(50)
    wait_read(orders, [], [other])
    assert {p: min(numbers) for p, numbers in other.given.items()} == {p: head + 1 for p, head in old.items()}
    assert {p for p, (body, _) in bodies(orders).items() if body["partitionId"] != p} == set()
    other.stop()
    second = orders.host("ours-1")
    wait_until(lambda: shares(orders) == {"ours-1": 8}, "ours owns all again")
    orders.publish_numbers(50)
    wait_read(orders, [second], [])
    assert not second.report().problems
    assert second.terminate() == 0
    check(orders, [other])


def test_java_takes_all_partitions_of_a_host_that_was_killed(consumer: MakeTlsConsumer, java: StartJava) -> None:
    orders = consumer(8, durationSeconds=LEASE_SECONDS)  # not shared
    first = orders.host("ours-0")
    wait_until(lambda: shares(orders) == {"ours-0": 8}, "ours owns all")
    orders.publish_numbers(50)
    wait_read(orders, [first], [])
    first.kill()
    other = java(LEGACY, orders, "java-0")
    wait_until(lambda: shares(orders) == {"java-0": 8}, ("Java takes all", other), pause=1)
    orders.publish_numbers(50)
    wait_read(orders, [], [other])
    check(orders, [other])


def test_side_by_side_with_kills_a_hub_that_grows_and_rebuilt_leases(
    consumer: MakeTlsConsumer, java: StartJava
) -> None:
    orders = consumer(4, shared=True, durationSeconds=LEASE_SECONDS)
    ours = orders.host("ours-0")
    wait_until(lambda: shares(orders) == {"ours-0": 4}, "ours owns all")
    orders.publish_numbers(50)
    wait_read(orders, [ours], [])
    first = java(LEGACY, orders, "java-0")
    wait_until(lambda: shares(orders) == {"ours-0": 2, "java-0": 2}, ("two each", first), pause=1)
    orders.emulator.admin.add_partitions(orders.hub, 8)
    orders.publish_numbers(50)
    first.stop()  # its library looks for partitions when it starts
    second = java(LEGACY, orders, "java-1")
    wait_until(lambda: shares(orders) == {"ours-0": 4, "java-1": 4}, ("four each", second), pause=1)
    wait_read(orders, [ours], [first, second])
    with orders.container(orders.leases) as container:
        mine = next(p for p, (body, _) in bodies(orders).items() if "ours-0" in str(body["owner"]))
        lease = container.get_blob_client(f"$Default/{mine}")
        ours.pause()
        wait_until(lambda: lease.get_blob_properties().lease.state == "expired", "its lease expires")
        lease.upload_blob(b"not a lease", overwrite=True)
        ours.go_on()
    wait_until(lambda: bodies_are_leases(orders), "the lease is rebuilt")
    wait_until(lambda: sum(shares(orders).values()) == 8, "all are owned", pause=1)
    assert {p for p, (body, _) in bodies(orders).items() if body["partitionId"] != p} == set()
    orders.publish_numbers(50)
    wait_read(orders, [ours], [first, second])
    second.kill()
    wait_until(lambda: shares(orders) == {"ours-0": 8}, "ours takes all", pause=1)
    orders.publish_numbers(50)
    wait_read(orders, [ours], [first, second])
    third = java(LEGACY, orders, "java-2")
    wait_until(lambda: shares(orders) == {"ours-0": 4, "java-2": 4}, ("four each", third), pause=1)
    ours.kill()
    wait_until(lambda: shares(orders) == {"java-2": 8}, ("Java takes all", third), pause=1)
    orders.publish_numbers(50)
    wait_read(orders, [], [first, second, third])
    check(orders, [first, second, third])


def bodies_are_leases(orders: TlsConsumer) -> bool:
    """Whether all lease blobs can be parsed."""
    try:
        return bool(bodies(orders))
    except ValueError:
        return False


def test_the_current_sdk_beside_ours_with_kills(consumer: MakeTlsConsumer, java: StartJava) -> None:
    orders = consumer(8, layout="AzureSdk", shared=True, durationSeconds=LEASE_SECONDS)
    ours = orders.host("ours-0")
    wait_until(lambda: sdk_shares(orders) == {True: 8}, "ours owns all")
    orders.publish_numbers(50)
    wait_read(orders, [ours], [])
    first = java(CURRENT, orders, "java-0")
    wait_until(lambda: sdk_shares(orders) == {True: 4, False: 4}, ("four each", first), pause=1)
    orders.publish_numbers(50)
    wait_read(orders, [ours], [first])
    first.kill()
    wait_until(lambda: sdk_shares(orders) == {True: 8}, "ours takes all", pause=1)
    orders.publish_numbers(50)
    wait_read(orders, [ours], [first])
    second = java(CURRENT, orders, "java-1")
    wait_until(lambda: sdk_shares(orders) == {True: 4, False: 4}, ("four each", second), pause=1)
    ours.kill()
    wait_until(lambda: sdk_shares(orders) == {False: 8}, ("Java takes all", second), pause=1)
    orders.publish_numbers(50)
    wait_read(orders, [], [first, second])
    check(orders, [first, second])
