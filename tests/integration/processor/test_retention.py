"""Retention of files by real hosts on Azurite: leading hosts that are killed while they remove files."""

import json
from typing import Any

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer
from tests.support.audited import assert_clean
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
        for blob in container.list_blobs("shop/orders/inc=", include=["metadata"]):
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
