"""Leases and checkpoints that others delete, break, take or change (rows 11 to 14 of the fault list)."""

import json
from typing import Any

import pytest
from azure.storage.blob import BlobClient, BlobLeaseClient

from tests.faults.stage import (
    Stage,
    leases,
    logged,
    publish,
    wait_owned,
)
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.waiting import wait_until


@pytest.mark.parametrize("position", ["Earliest", "Latest"])
def test_11_lease_container_deleted(stage: Stage, position: str) -> None:
    orders = stage.consumer(partitions=4, startingPosition={"type": position})
    host = orders.host("only")
    wait_until(lambda: len(logged(host, "attached")) == 4, "all partitions are read")
    publish(orders, 100)
    stage.settled(orders, 400)
    with orders.container(orders.leases) as container:
        container.delete_container()
    publish(orders, 100, start=400)
    wait_until(lambda: len(logged(host, "pump closed")) == 4, "the loss is noticed")
    wait_owned(host, 4)
    publish(orders, 100, start=800)
    drained = stage.settled(orders, 1200)  # nothing is skipped, with Latest neither
    for partition, lease in leases(orders).items():
        assert lease["Epoch"] >= max(drained.epochs[partition]) >= 2
    wait_until(lambda: not host.report().problems, "no problem is left")


def test_11_lease_blobs_deleted_while_no_host_runs(stage: Stage) -> None:
    orders = stage.consumer(partitions=2, startingPosition={"type": "Latest"})
    first = orders.host("first")
    wait_until(lambda: len(logged(first, "attached")) == 2, "all partitions are read")
    publish(orders, 100)
    stage.settled(orders, 200)
    assert first.terminate() == 0
    for partition in ("0", "1"):
        with lease_blob(orders, partition) as blob:
            blob.delete_blob()
    publish(orders, 100, start=200)
    second = orders.host("second")
    wait_owned(second, 2)
    drained = stage.settled(orders, 400)
    assert all(epochs[-1] > epochs[0] for epochs in drained.epochs.values())


def test_12_lease_broken_by_others(stage: Stage) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    wait_owned(host, 2)
    publish(orders, 100)
    stage.settled(orders, 200)
    with lease_blob(orders, "0") as blob:
        BlobLeaseClient(blob).break_lease(0)
    wait_until(lambda: len(logged(host, "pump closed")) == 1, "the host fences itself")
    publish(orders, 100, start=200)
    wait_owned(host, 2)
    stage.settled(orders, 400)
    assert {entry["partition"] for entry in logged(host, "pump closed")} == {"0"}  # the other one was left alone


def test_12_foreign_lease_without_an_end(stage: Stage) -> None:
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
        assert problem.field == "spec.leaseStore.container"
        assert "partition 0" in problem.message
        wait_until(lambda: _checkpoint(orders, "1") == 199, "the other partition goes on")
        foreign.release()
    orders.publish(50, "0", start=350)
    wait_owned(host, 2)
    stage.settled(orders, 400)
    wait_until(lambda: not host.report().problems, "no problem is left")


DAMAGED = {
    "corrupt": b'{"Offset":"1","SequenceNumber":oops',
    "empty": b"",
    "huge": b'{"Owner":"' + b"x" * 2_000_000 + b'"}',
    "deep": b'{"Offset":' + b"[" * 7000 + b"]" * 7000 + b"}",
    "foreign": b'{"PartitionId":"17","Epoch":3}',
    "numbers": b'{"Offset":"5","SequenceNumber":1e999,"Epoch":-99999999999999999999999}',
}


def test_13_damaged_lease_bodies(stage: Stage) -> None:
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
    assert host.problem("LeaseInvalid").field == "spec.leaseStore.container"
    for partition in range(len(DAMAGED)):
        with lease_blob(orders, str(partition)) as blob:
            if str(partition) not in host.owned():
                blob.delete_blob()
    wait_owned(host, len(DAMAGED) + 1)
    stage.settled(orders, 50 * (len(DAMAGED) + 1))
    wait_until(lambda: not host.report().problems, "no problem is left")


@pytest.mark.parametrize("kind", ["corrupt", "huge"])
def test_13_lease_body_damaged_while_it_is_held(stage: Stage, kind: str) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    wait_owned(host, 2)
    publish(orders, 100)
    stage.settled(orders, 200)
    with lease_blob(orders, "0") as blob:
        BlobLeaseClient(blob).break_lease(0)
        blob.upload_blob(DAMAGED[kind], overwrite=True)
    publish(orders, 100, start=200)
    wait_until(lambda: len(logged(host, "pump closed")) == 1, "the host fences itself")
    wait_owned(host, 2)  # the files know how far the partition was read, so the lease is written anew
    publish(orders, 100, start=400)  # those before may be in files of the first epoch
    drained = stage.settled(orders, 600)
    assert leases(orders)["0"]["Epoch"] >= drained.epochs["0"][-1] > drained.epochs["0"][0]
    assert {entry["partition"] for entry in logged(host, "pump closed")} == {"0"}
    wait_until(lambda: not host.report().problems, "no problem is left")


def test_14_checkpoint_edited_above_the_head(stage: Stage) -> None:
    orders, first = _drained(stage)
    assert first.terminate() == 0
    saved = _edit(orders, "0", Offset="999999", SequenceNumber=5_000)
    publish(orders, 100, start=200)
    second = orders.host("second")
    problem = second.problem("CheckpointInvalid")
    assert "partition 0" in problem.message
    wait_until(lambda: _checkpoint(orders, "1") == 199, "the other partition goes on")
    assert stage.audit(orders, 2)["findings"]
    second.kill()
    with lease_blob(orders, "0") as blob:
        BlobLeaseClient(blob).break_lease(0)
        blob.upload_blob(saved, overwrite=True)
    third = orders.host("third")
    wait_owned(third, 2)
    stage.settled(orders, 400)


def test_14_checkpoint_edited_below(stage: Stage) -> None:
    orders, first = _drained(stage)
    assert first.terminate() == 0
    _edit(orders, "0", Offset="", SequenceNumber=0)
    _edit(orders, "1", Offset="7", SequenceNumber=7, Epoch=0)  # inside the first file, and an epoch that came before
    publish(orders, 100, start=200)
    second = orders.host("second")
    wait_owned(second, 2)
    stage.settled(orders, 400)
    assert not second.report().problems


def test_14_checkpoint_edited_while_the_host_drains(stage: Stage) -> None:
    orders, host = _drained(stage)
    with lease_blob(orders, "0") as blob:
        BlobLeaseClient(blob).break_lease(0)
    _edit(orders, "0", Offset="", SequenceNumber=0)
    publish(orders, 100, start=200)
    wait_until(lambda: bool(logged(host, "pump closed")), "the host sees that it lost the lease")
    stage.settled(orders, 400)


def lease_blob(orders: Consumer, partition: str) -> BlobClient:
    """A client of a partition's lease blob."""
    return BlobClient.from_connection_string(orders.storage_secret.read_text(), orders.leases, f"$Default/{partition}")


def _drained(stage: Stage) -> tuple[Consumer, HostProcess]:
    """A consumer that drained 100 events of each of two partitions."""
    orders = stage.consumer(partitions=2)
    publish(orders, 100)
    host = orders.host("first")
    wait_owned(host, 2)
    stage.settled(orders, 200)
    return orders, host


def _edit(orders: Consumer, partition: str, **values: Any) -> bytes:
    """Change fields of a lease's body; the body before."""
    with lease_blob(orders, partition) as blob:
        before = blob.download_blob().readall()
        blob.upload_blob(json.dumps(json.loads(before) | values), overwrite=True)
    return before


def _checkpoint(orders: Consumer, partition: str) -> int:
    lease = leases(orders).get(partition) or {}
    return int(lease["SequenceNumber"]) if lease.get("Offset") else -1
