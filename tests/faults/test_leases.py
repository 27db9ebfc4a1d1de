"""Leases and checkpoints that others delete, break, take or change (rows 11 to 14 of the fault list)."""

import json
from typing import Any

from azure.storage.blob import BlobClient, BlobLeaseClient

from tests.faults.rows import simulated
from tests.faults.stage import (
    FaultStage,
    leases,
    logged,
    publish,
    wait_owned,
)
from tests.integration.processor.hosts import Consumer
from tests.support.waiting import wait_until


@simulated("delete lease", "delete leases")
def test_11_leases_deleted_while_a_host_runs_and_while_none_does(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2, startingPosition={"type": "Latest"})
    first = orders.host("first")
    wait_until(lambda: len(logged(first, "attached")) == 2, "all partitions are read")
    publish(orders, 100)
    stage.settled(orders, 200)
    with orders.container(orders.leases) as container:
        container.delete_container()
    publish(orders, 100, start=200)
    wait_until(lambda: len(logged(first, "pump closed")) == 2, "the loss is noticed")
    wait_owned(first, 2)
    publish(orders, 100, start=400)
    drained = stage.settled(orders, 600)  # nothing is skipped
    for partition, lease in leases(orders).items():
        assert lease["epoch"] >= max(drained.epochs[partition]) >= 2
    wait_until(lambda: not first.report().problems, "no problem is left")
    assert first.terminate() == 0
    for partition in ("0", "1"):
        with lease_blob(orders, partition) as blob:
            blob.delete_blob()
    publish(orders, 100, start=600)
    second = orders.host("second")
    wait_owned(second, 2)
    drained = stage.settled(orders, 800)
    assert all(epochs[-1] > epochs[0] for epochs in drained.epochs.values())


@simulated("break lease", "foreign lease", "damage lease")
def test_12_lease_broken_taken_and_damaged_by_others(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    wait_owned(host, 2)
    publish(orders, 100)
    stage.settled(orders, 200)
    with lease_blob(orders, "0") as blob:
        BlobLeaseClient(blob).break_lease(0)
        foreign = BlobLeaseClient(blob)
        foreign.acquire(-1)
        orders.publish(50, "0", start=200)
        wait_until(lambda: host.owned() == {"1"}, "the host fences itself")
        orders.publish(100, "1", start=250)
        problem = host.problem("LeaseInvalid")
        assert problem.field == "spec.checkpointStore.container"
        assert "partition 0" in problem.message
        wait_until(lambda: _checkpoint(orders, "1") == 199, "the other partition goes on")
        foreign.release()
    orders.publish(50, "0", start=350)
    wait_owned(host, 2)
    stage.settled(orders, 400)
    with lease_blob(orders, "0") as blob:
        BlobLeaseClient(blob).break_lease(0)
        blob.upload_blob(DAMAGED["corrupt"], overwrite=True)
    publish(orders, 100, start=400)
    wait_until(lambda: len(logged(host, "pump closed")) >= 2, "the host fences itself")
    wait_owned(host, 2)  # the files know how far the partition was read, so the lease is written again
    publish(orders, 100, start=600)  # those before may be in files of the first epoch
    drained = stage.settled(orders, 800)
    assert leases(orders)["0"]["epoch"] >= drained.epochs["0"][-1] > drained.epochs["0"][0]
    assert {entry["partition"] for entry in logged(host, "pump closed")} == {"0"}  # the other one was left alone
    wait_until(lambda: not host.report().problems, "no problem is left")


DAMAGED = {
    "corrupt": b'{"offset":"1","sequenceNumber":oops',
    "empty": b"",
    "huge": b'{"owner":"' + b"x" * 2_000_000 + b'"}',
    "deep": b'{"offset":' + b"[" * 7000 + b"]" * 7000 + b"}",
    "foreign": b'{"partitionId":"17","epoch":3}',
    "numbers": b'{"offset":"5","sequenceNumber":1e999,"epoch":-99999999999999999999999}',
}


@simulated("damage lease")
def test_13_damaged_lease_bodies(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=len(DAMAGED) + 1)
    publish(orders, 50)
    healthy = str(len(DAMAGED))
    with orders.container(orders.leases) as container:
        container.create_container()
        for partition, body in enumerate(DAMAGED.values()):
            container.upload_blob(f"$Default/{partition}", body)
    host = orders.host("only")
    wait_until(lambda: _checkpoint(orders, healthy) == 49, f"the healthy partition is drained: {host.log[-2000:]}")
    assert host.owned() <= {healthy, "1"}  # an empty blob may be rebuilt
    assert host.problem("LeaseInvalid").field == "spec.checkpointStore.container"
    for partition in range(len(DAMAGED)):
        with lease_blob(orders, str(partition)) as blob:
            if str(partition) not in host.owned():
                blob.delete_blob()
    wait_owned(host, len(DAMAGED) + 1)
    stage.settled(orders, 50 * (len(DAMAGED) + 1))
    wait_until(lambda: not host.report().problems, "no problem is left")


@simulated("checkpoint up", "checkpoint down")
def test_14_checkpoint_edited_above_and_below(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2)
    publish(orders, 100)
    first = orders.host("first")
    wait_owned(first, 2)
    stage.settled(orders, 200)
    assert first.terminate() == 0
    _edit(orders, "0", offset="999999", sequenceNumber=5_000)
    publish(orders, 100, start=200)
    second = orders.host("second")
    problem = second.problem("CheckpointInvalid")
    assert "partition 0" in problem.message
    wait_until(lambda: _checkpoint(orders, "1") == 199, "the other partition goes on")
    assert stage.audit(orders, 2)["findings"]
    assert second.terminate() == 0
    _edit(orders, "0", offset="", sequenceNumber=0)
    _edit(orders, "1", offset="7", sequenceNumber=7, epoch=0)  # inside the first file, and an epoch that came before
    publish(orders, 100, start=400)
    third = orders.host("third")
    wait_owned(third, 2)
    stage.settled(orders, 600)
    assert not third.report().problems


def lease_blob(orders: Consumer, partition: str) -> BlobClient:
    """A client of a partition's lease blob."""
    return BlobClient.from_connection_string(orders.storage_secret.read_text(), orders.leases, f"$Default/{partition}")


def _edit(orders: Consumer, partition: str, **values: Any) -> None:
    """Change fields of a lease's body."""
    with lease_blob(orders, partition) as blob:
        blob.upload_blob(json.dumps(json.loads(blob.download_blob().readall()) | values), overwrite=True)


def _checkpoint(orders: Consumer, partition: str) -> int:
    lease = leases(orders).get(partition) or {}
    return int(lease["sequenceNumber"]) if lease.get("offset") else -1
