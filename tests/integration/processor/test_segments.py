"""The next segment of a chain: real hosts, the real tool, Azurite.

A hub loses events that are in files (on a cluster: tests/e2e), or the starting position changes before the first file.
"""

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.storage.blob import ContainerClient

from eventconsumer_api.wire.batch import BatchManifest, manifest_name
from eventconsumer_api.wire.identity import SegmentRecord, segment_name
from tests.integration.processor.batches import PREFIX, commit_batch, read_manifest
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.integration.processor.test_tools import tool
from tests.support.audited import assert_clean
from tests.support.waiting import wait_until

GAPS = re.compile(rb"^eventconsumer_gap_events_total\S* (\S+)", re.MULTILINE)


def reached(orders: Consumer, host: HostProcess, *partitions: str) -> None:
    """Wait until its files reach the hub's ends."""
    wanted = {partition: orders.heads()[partition] + 1 for partition in partitions}

    def met() -> bool:
        found = {report.id: report.next_sequence_number for report in host.report().partitions}
        return {partition: found.get(partition) for partition in partitions} == wanted

    wait_until(met, f"files reach {wanted}, see {host.log_file}")


def segment(orders: Consumer, number: int) -> SegmentRecord:
    with orders.container(orders.drained) as container:
        return SegmentRecord.model_validate_json(container.download_blob(segment_name(PREFIX, number)).readall())


def drained(orders: Consumer, segment_id: str, partition: str) -> list[tuple[int, int]]:
    """Sequence numbers and the numbers in bodies of a partition's files in a segment, in chain order."""
    found: list[tuple[int, int]] = []
    with orders.container(orders.drained) as container:
        for blob in container.list_blobs(f"{PREFIX}/segment={segment_id}/partition={partition}/", include=["metadata"]):
            if "sealed" not in blob.metadata:
                table = pq.read_table(pa.BufferReader(container.download_blob(blob.name).readall()))
                bodies = [int(body.split(b"|")[0]) for body in table["body"].to_pylist()]
                found += zip(table["sequence_number"].to_pylist(), bodies, strict=True)
    return found


def is_frozen(container: ContainerClient, number: int) -> bool:
    return bool(container.get_blob_client(manifest_name(PREFIX, number)).exists())


def gap_events(host: HostProcess) -> float:
    return sum(float(value) for value in GAPS.findall(host.get("/metrics")))


def accept(orders: Consumer, *arguments: str, code: int = 0, command: str = "accept") -> dict[str, Any]:
    answer = tool(orders, "hub", command, "-o", "json", *arguments)
    assert answer.code == code, answer
    report: dict[str, Any] = json.loads(answer.stdout)
    return report


def test_a_failover_is_recognised_over_links_that_start_early(consumer: MakeConsumer) -> None:
    """Seen on Azure: a link for the events above the last one starts some events before it."""
    orders = consumer()
    orders.publish(100, "0")
    host = orders.host()
    reached(orders, host, "0")
    orders.emulator.admin.start_early(4, hub=orders.hub)
    orders.emulator.admin.drop_connections()
    orders.publish(20, "0", start=100)
    reached(orders, host, "0")
    orders.emulator.admin.fail_over(orders.hub, {"0": 10})
    orders.publish(30, "0", start=2000)
    assert "is number 119, offset" in host.problem("HubDiverged").message
    assert host.terminate() == 0
    plan = accept(orders)["partitions"][0]
    assert (plan["diverged"], plan["common"], plan["start"], plan["ahead"]) == (True, 109, 110, 30)
    assert drained(orders, segment(orders, 1).segment_id, "0") == [(number, number) for number in range(120)]


@pytest.mark.long
def test_a_failover_that_lost_events_is_not_read_across_until_it_is_accepted(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=2, batches={"trigger": {"files": 1, "ageSeconds": 3600}})
    orders.publish(200, "0")
    orders.publish(100, "1", start=1000)
    host = orders.host()
    reached(orders, host, "0", "1")

    # The new primary lacks the last 30 events; their numbers go to others.
    orders.emulator.admin.fail_over(orders.hub, {"0": 30})
    orders.publish(50, "0", start=2000)
    orders.publish(10, "1", start=1100)
    problem = host.problem("HubDiverged")
    assert problem.field == "spec.eventHub.name"
    assert re.search(
        r"read before is number 199, offset \S+, enqueued \S+, the last event .* number 219", problem.message
    )
    assert "kubectl eventconsumer hub accept" in problem.message
    reached(orders, host, "1")  # it continues
    refused = accept(orders, code=2)
    assert "holds the lease of partition" in refused["why"] and refused["partitions"] == []
    assert host.terminate() == 0
    first = segment(orders, 1)
    assert drained(orders, first.segment_id, "0") == [(number, number) for number in range(200)]

    plan = accept(orders)
    rows = {row["partition"]: row for row in plan["partitions"]}
    assert {name: rows["0"][name] for name in ("diverged", "common", "start", "gone", "ahead")} == {
        "diverged": True,
        "common": 169,
        "start": 170,
        "gone": 30,
        "ahead": 50,
    }
    assert (rows["1"]["diverged"], rows["1"]["start"], plan["done"]) == (False, 110, False)
    assert accept(orders, "--yes")["done"]
    assert accept(orders, "--yes", code=1)["why"].startswith("the hub has the last event of all files")
    second = segment(orders, 2)
    assert (second.breaks["0"].start, second.breaks["0"].files_end.sequence_number) == (170, 199)
    assert second.breaks["0"].hub_end.sequence_number == 219

    # Retention takes ten of the new events before they are read: they are counted.
    orders.emulator.admin.move_retention(orders.hub, "0", before=180)
    again = orders.host("orders-host-1")
    reached(orders, again, "0", "1")
    orders.publish(10, "0", start=2050)
    orders.publish(10, "1", start=1110)
    reached(orders, again, "0", "1")
    assert not {problem.reason for problem in again.report().problems} & {"HubDiverged", "CheckpointStoreInUse"}
    assert gap_events(again) == 10
    assert drained(orders, first.segment_id, "0") == [(number, number) for number in range(200)]
    assert drained(orders, second.segment_id, "0") == [(number, 2000 + number - 170) for number in range(180, 230)]
    numbers = [body for era in (first, second) for _, body in drained(orders, era.segment_id, "1")]
    assert numbers == list(range(1000, 1120))

    # Batches of the first segment end with it; then those of the second come.
    batches: list[BatchManifest] = []
    with orders.container(orders.drained) as container:
        while sum(file.count for batch in batches for file in batch.files) < 300 + 50 + 20:
            wait_until(lambda: is_frozen(container, len(batches) + 1), f"the next batch, see {again.log_file}")
            batches.append(read_manifest(container, len(batches) + 1))
            commit_batch(container, batches[-1])
    for batch in batches:
        assert {file.path.split("/segment=")[1][:16] for file in batch.files} == {batch.segment_id}
    order = [batch.segment_id for batch in batches]
    assert order == sorted(order, key=[first.segment_id, second.segment_id].index) and len(set(order)) == 2
    assert again.terminate() == 0
    report = assert_clean(orders.azurite, orders.drained, PREFIX, orders.leases, allow_gaps=True)
    assert [each["partition"] for each in report["breaks"] if each["segment"] == 2] == ["0", "1"]


def test_a_starting_position_is_changed_before_the_first_file(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=2, startingPosition={"type": "Latest"})
    orders.publish(20, "0")
    orders.publish(20, "1", start=1000)
    host = orders.host()
    reached(orders, host, "0", "1")
    orders.publish(10, "1", start=1020)
    reached(orders, host, "1")
    orders.config["startingPosition"] = {"type": "SequenceNumber", "sequenceNumber": 5}
    assert "holds the lease of partition" in accept(orders, code=2, command="reposition")["why"]
    assert host.terminate() == 0

    plan = accept(orders, command="reposition")
    rows = {row["partition"]: row for row in plan["partitions"]}
    assert plan["kind"] == "HubRepositionPlan" and not plan["done"]
    assert [(rows[name]["repositioned"], rows[name]["start"], rows[name]["gone"]) for name in ("0", "1")] == [
        (True, 5, 0),
        (False, 30, 0),
    ]
    assert accept(orders, "--yes", command="reposition")["done"]
    assert "begin at spec.startingPosition already" in accept(orders, "--yes", code=1, command="reposition")["why"]

    again = orders.host("orders-host-1")
    orders.publish(5, "0", start=20)
    orders.publish(5, "1", start=1030)
    reached(orders, again, "0", "1")
    assert again.terminate() == 0
    first, second = segment(orders, 1), segment(orders, 2)
    assert drained(orders, first.segment_id, "0") == []
    assert drained(orders, second.segment_id, "0") == [(number, number) for number in range(5, 25)]
    files = [number for era in (first, second) for number, _ in drained(orders, era.segment_id, "1")]
    assert files == list(range(20, 35))
    report = assert_clean(orders.azurite, orders.drained, PREFIX, orders.leases)
    assert [(each["partition"], each["gone"]) for each in report["breaks"]] == [("0", 0), ("1", 0)]
