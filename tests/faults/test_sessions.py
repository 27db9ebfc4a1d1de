"""Hosts' sessions: broken, run out while their host is frozen, and leases tied to them that others break."""

import time

import pytest
from azure.storage.blob import BlobClient, BlobLeaseClient

from tests.faults.stage import (
    LAYOUTS,
    LEASE_SECONDS,
    SCAN_SECONDS,
    TAKEOVER_SECONDS,
    Stage,
    logged,
    publish,
    slots,
    wait_owned,
    wait_tied,
    wait_until,
)
from tests.integration.processor.hosts import Consumer

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_session_broken_by_others(stage: Stage, layout: str) -> None:
    orders = stage.consumer(partitions=4, layout=layout)
    hosts = [orders.host("first"), orders.host("second")]
    wait_until(lambda: [len(host.owned()) for host in hosts] == [2, 2], 60, "both have their share")
    publish(orders, 100)
    stage.settled(orders, 400)
    time.sleep(LEASE_SECONDS)  # for ties, which come with the first renewal
    with orders.container(orders.leases) as container:
        (name,) = [blob.name for blob in container.list_blobs() if blob.name.endswith(f"sessions/{hosts[0].name}")]
        BlobLeaseClient(container.get_blob_client(name)).break_lease(0)
    publish(orders, 100, start=400)
    wait_until(lambda: len(logged(hosts[0], "the session was lost")) == 1, LEASE_SECONDS, "the loss is noticed")
    wait_until(lambda: sum(len(host.owned()) for host in hosts) == 4, 60, "all partitions are owned")
    publish(orders, 100, start=800)
    stage.settled(orders, 1200)
    wait_until(lambda: len(logged(hosts[0], "session begun")) == 2, LEASE_SECONDS, "it has another session")


def test_tied_lease_broken_by_others(stage: Stage) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    wait_owned(host, 2)
    wait_tied(orders, 2)
    with lease_blob(orders, "0") as blob:
        BlobLeaseClient(blob).break_lease(0)
    wait_until(lambda: len(logged(host, "pump closed")) == 1, LEASE_SECONDS, "the host fences itself")
    publish(orders, 100)
    wait_owned(host, 2, 2 * SCAN_SECONDS + 2)
    stage.settled(orders, 200)
    assert {entry["partition"] for entry in logged(host, "pump closed")} == {"0"}
    wait_tied(orders, 2)
    assert host.terminate() == 0
    with orders.container(orders.leases) as container:
        assert {blob.lease.state for blob in container.list_blobs()} == {"available"}


@pytest.mark.long
def test_frozen_until_the_session_ran_out(stage: Stage) -> None:
    orders = stage.consumer(partitions=2)
    orders.publish(100)
    zombie = orders.host("zombie")
    wait_owned(zombie, 2)
    stage.settled(orders, 100)
    wait_tied(orders, 2)
    zombie.pause()
    orders.publish(500, start=100)
    successor = orders.host("successor")
    wait_owned(successor, 2, TAKEOVER_SECONDS)
    stage.settled(orders, 600)
    files = slots(orders)
    zombie.go_on()
    wait_until(lambda: len(logged(zombie, "pump closed")) >= 2, 10, "the zombie halts")
    orders.publish(500, start=600)
    stage.settled(orders, 1100)
    assert files.items() <= slots(orders).items()


def lease_blob(orders: Consumer, partition: str) -> BlobClient:
    """A client of a partition's lease blob."""
    return BlobClient.from_connection_string(orders.storage_secret.read_text(), orders.leases, f"$Default/{partition}")
