"""Retention of files on Azurite: leading hosts that are killed while they remove files, the probe, and the command."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer
from tests.integration.processor.test_probe import ProbeProcess
from tests.support.audited import assert_clean, run_program
from tests.support.azurite import AzuriteProcess
from tests.support.waiting import wait_until

CURSOR = "shop/orders/_retention.json"
KILLS = 3
EVENTS = 600
SMALL = {"maxBatchSize": 5, "prefetchCount": 100, "maxWaitSeconds": 5}  # many small files


def files(orders: Consumer) -> dict[str, list[tuple[int, bool]]]:
    """Start of each file, and whether it is a tombstone, by partition."""
    found: dict[str, list[tuple[int, bool]]] = {}
    with orders.container(orders.drained) as container:
        for blob in container.list_blobs("shop/orders/segment=", include=["metadata"]):
            start, partition = int(blob.name[-28:-8]), blob.name.split("partition=")[1].split("/")[0]
            found.setdefault(partition, []).append((start, "tombstone" in (blob.metadata or {})))
    return found


def removed(orders: Consumer) -> int:
    """Number of tombstones."""
    return sum(tombstone for each in files(orders).values() for _, tombstone in each)


def cursor(orders: Consumer) -> dict[str, Any]:
    """The cursor of retention; empty: there is none."""
    with orders.container(orders.drained) as container:
        blob = container.get_blob_client(CURSOR)
        found: dict[str, Any] = json.loads(blob.download_blob().readall()) if blob.exists() else {}
        return found


@pytest.mark.long  # the simulation checks its rules
def test_leading_hosts_that_are_killed_while_they_remove_files_leave_a_clean_chain(
    consumer: MakeConsumer, azurite: AzuriteProcess
) -> None:
    roll = {"maxBytes": 1_000_000, "maxSeconds": 1, "maxEvents": 10}
    orders = consumer(2, roll=roll, table={"maxSeconds": 1}, processing=SMALL)
    first = orders.host()
    for number, partition in enumerate(("0", "1")):
        orders.publish(EVENTS, partition, start=EVENTS * number)
    wait_until(lambda: {each.next_sequence_number for each in first.report().partitions} == {EVENTS}, "all is in files")
    assert first.terminate() == 0
    made = sum(map(len, files(orders).values()))
    assert made > 60 and not removed(orders)

    orders.config["retention"] = {"bytes": 1}
    for number in range(KILLS):
        before = removed(orders)
        host = orders.host(f"orders-host-{number + 1}")
        wait_until(lambda seen=before: removed(orders) > seen or removed(orders) == made - 2, "it removes files")
        host.kill()
        assert_clean(azurite, orders.drained, "shop/orders")
        for partition, each in files(orders).items():
            after = cursor(orders)["partitions"][partition]["next"]
            assert all(start < after for start, tombstone in each if tombstone)
    last = orders.host("orders-host-9")
    wait_until(lambda: last.owned() == {"0", "1"}, "it runs")
    wait_until(lambda: removed(orders) == made - 2, "all but the last file of each partition are removed")
    assert all(not each[-1][1] for each in files(orders).values())
    wait_until(lambda: all(one["done"] == one["next"] for one in cursor(orders)["partitions"].values()), "it is done")
    assert cursor(orders)["removed"]["files"] == made - 2
    assert last.terminate() == 0
    report = assert_clean(azurite, orders.drained, "shop/orders")
    assert report["counts"]["Tombstones"] == made - 2


def test_the_command_and_the_probe_remove_what_is_due_without_a_host(
    consumer: MakeConsumer, azurite: AzuriteProcess, tmp_path: Path
) -> None:
    roll = {"maxBytes": 1_000_000, "maxSeconds": 1, "maxEvents": 10}
    orders = consumer(1, roll=roll, table={"maxSeconds": 1}, processing=SMALL)
    host = orders.host()
    orders.publish(100)
    wait_until(lambda: {each.next_sequence_number for each in host.report().partitions} == {100}, "all is in files")
    assert host.terminate() == 0
    made, config = sum(map(len, files(orders).values())), tmp_path / "orders.json"

    def run(*arguments: str, bytes_: int | None = None) -> "subprocess.CompletedProcess[str]":
        retention = {"bytes": bytes_} if bytes_ else None
        config.write_text(json.dumps(orders.config | {"retention": retention}))
        return run_program("retention", *arguments, EVENTCONSUMER_CONFIG=str(config))

    assert "spec.sink.retention is not set" in run("--once").stderr
    assert run(bytes_=1).returncode == 3, "without --once"
    done = run("--once", bytes_=10**9)
    assert (done.returncode, done.stdout.partition(",")[0]) == (0, "Removed in total: 0 files"), done
    orders.config["retention"] = {"bytes": 1}
    probe = ProbeProcess(tmp_path, orders)
    wait_until(lambda: removed(orders) == made - 1, f"the probe removes files: {probe.log[-2000:]}")
    assert probe.terminate() == 0
    done = run("--once", bytes_=1)
    assert (done.returncode, done.stdout.partition(",")[0]) == (0, f"Removed in total: {made - 1} files"), done
    report = assert_clean(azurite, orders.drained, "shop/orders")
    assert report["counts"]["Tombstones"] == made - 1
