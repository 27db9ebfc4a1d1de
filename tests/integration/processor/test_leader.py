"""The leading host: what it measures, and the batches it freezes, also across leaders."""

import io
import json
import time

import fastavro
from azure.core import MatchConditions

from eventconsumer_api.wire.batch import manifest_name
from eventconsumer_api.wire.host_report import FleetReport
from eventconsumer_operator.rest import digest_of_reports
from tests.integration.processor.batches import PREFIX, commit_batch, read_manifest
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.waiting import wait_until

UNCHANGED = MatchConditions.IfNotModified


def fleet_of(*hosts: HostProcess) -> FleetReport | None:
    """What the leading host measured, if one leads."""
    reports = [report.fleet for report in (host.report() for host in hosts) if report.fleet]
    assert len(reports) <= 1
    return reports[0] if reports else None


def wait_fleet(orders: Consumer, events: int, *hosts: HostProcess) -> FleetReport:
    """Wait until all events are in files and the leading host knows it."""
    found: list[FleetReport] = []

    def met() -> bool:
        fleet = fleet_of(*hosts)
        found[:] = [fleet] if fleet else []
        return fleet is not None and (fleet.events, fleet.lag_events) == (events, 0)

    wait_until(met, f"{events} events in files: {found}; {[host.log[-1500:] for host in hosts]}")
    return found[0]


def says_the_same(*hosts: HostProcess) -> bool:
    """Whether the operator sees no change between two reports of the hosts."""
    before = {host.name: host.report() for host in hosts}
    time.sleep(3)
    return digest_of_reports(before) == digest_of_reports({host.name: host.report() for host in hosts})


def test_one_host_leads_and_measures_all(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=4)
    orders.publish(1000)
    first, second = orders.host("orders-host-0"), orders.host("orders-host-1")
    fleet = wait_fleet(orders, 1000, first, second)
    assert fleet.partition_count == 4
    assert set(fleet.owners) == {"0", "1", "2", "3"}
    assert set(fleet.owners.values()) <= {
        "shop/orders/orders-host-0.uid-of-orders-host-0",
        "shop/orders/orders-host-1.uid-of-orders-host-1",
    }
    assert fleet.lag_seconds == 0
    with orders.container(orders.drained) as container:
        sizes = [blob.size for blob in container.list_blobs(f"{PREFIX}/segment=")]
    assert (fleet.files, fleet.bytes) == (len(sizes), sum(sizes))
    assert fleet.last_file_time is not None
    assert fleet.open_batch is None
    assert (fleet.pending_files, fleet.pending_bytes, fleet.pending_seconds) == (0, 0, 0)  # nothing waits for Spark
    wait_until(lambda: says_the_same(first, second), "two reports of a host at rest are the same to the operator")


def test_the_next_leader_continues_with_the_totals_of_the_first_one(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=4)
    orders.publish(1000)
    first = orders.host("orders-host-0")
    wait_fleet(orders, 1000, first)
    with orders.container(orders.drained) as container:
        record = container.get_blob_client(f"{PREFIX}/_watermark.json")
        wait_until(record.exists, "the watermark is written")
        counted = json.loads(record.download_blob().readall())
    assert counted["totals"]["events"] == 1000
    first.kill()
    orders.publish(500)
    second = orders.host("orders-host-1")
    fleet = wait_fleet(orders, 1500, second)
    assert fleet.files > counted["totals"]["files"]
    report = orders.audit(deep=False)
    assert report.exit_code == 0, report


def test_batches_are_contiguous_and_one_at_a_time_across_leaders(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=2, batches={"trigger": {"files": 2, "ageSeconds": 3600}})
    orders.publish(100, "0")
    orders.publish(100, "1", start=100)
    first = orders.host("orders-host-0")
    wait_until(lambda: bool((fleet := fleet_of(first)) and fleet.open_batch), f"a batch is open: {first.log}")
    orders.publish(100, "0", start=200)
    orders.publish(100, "1", start=300)
    wait_fleet(orders, 400, first)
    with orders.container(orders.drained) as container:
        one = read_manifest(container, 1)
        assert (one.reason, one.number) == ("Files", 1)
        assert not container.get_blob_client(manifest_name(PREFIX, 2)).exists()
        for file in one.files:
            properties = container.get_blob_client(file.path).get_blob_properties()
            assert (properties.etag, properties.size) == (file.etag, file.size)
        first.kill()
        second = orders.host("orders-host-1")
        fleet = wait_fleet(orders, 400, second)
        assert fleet.open_batch is not None
        assert (fleet.open_batch.number, fleet.committed_batch, fleet.processed_files) == (1, 0, 0)
        commit_batch(container, one)
        wait_until(lambda: bool((fleet := fleet_of(second)) and fleet.committed_batch == 1), "the commit is seen")
        wait_until(container.get_blob_client(manifest_name(PREFIX, 2)).exists, "the next batch is frozen")
        two = read_manifest(container, 2)
        assert two.segment_id == one.segment_id
        for partition, part in two.ranges.items():
            assert part.first == one.next[partition]
        assert not {file.path for file in one.files} & {file.path for file in two.files}
        assert two.totals.events == 400
        assert two.next == {partition: head + 1 for partition, head in orders.heads().items()}
        wait_until(lambda: bool((fleet := fleet_of(second)) and fleet.open_batch), "the next batch is open")
        later = fleet_of(second)
        assert later is not None and later.open_batch is not None
        assert later.processed_files == len(one.files)
        assert later.pending_files == len(two.files)
        assert later.committed_reason == "Files"
        assert later.last_commit is not None
        assert (later.last_commit.number, later.last_commit.rows_read) == (1, sum(file.count for file in one.files))
        assert later.pending_bytes == sum(file.size for file in two.files)


def test_a_batch_names_the_blobs_that_a_reader_opens(consumer: MakeConsumer) -> None:
    files = {"format": "Avro", "layout": "Capture"}
    limits = {"maxFiles": 1}
    orders = consumer(partitions=2, files=files, batches={"trigger": {"files": 2, "ageSeconds": 3}, "limits": limits})
    orders.publish(40, "0")
    orders.publish(40, "1", start=40)
    host = orders.host("orders-host-0")
    wait_until(lambda: bool((fleet := fleet_of(host)) and fleet.open_batch), f"a batch is open: {host.log}")
    with orders.container(orders.drained) as container:
        one = read_manifest(container, 1)
        assert one.format == "Avro"
        (file,) = one.files
        properties = container.get_blob_client(file.path).get_blob_properties()
        assert (str(properties.etag).strip('"'), properties.size) == (file.etag.strip('"'), file.size)
        content = io.BytesIO(container.download_blob(file.path, etag=file.etag, match_condition=UNCHANGED).readall())
        numbers = [row["SequenceNumber"] for row in fastavro.reader(content)]
        assert numbers == list(range(file.first, file.last + 1))
        assert len(numbers) == file.count
        commit_batch(container, one)
        wait_until(container.get_blob_client(manifest_name(PREFIX, 2)).exists, "the rest is in the next batch")
        two = read_manifest(container, 2)
        assert {one.files[0].partition, two.files[0].partition} == {"0", "1"}
