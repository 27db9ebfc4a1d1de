"""Hosts that write Avro, also in the layout of Event Hubs Capture; files are read with none of the hosts' code."""

import hashlib
import io
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import fastavro
from azure.eventhub import EventData, EventHubProducerClient
from azure.storage.blob import ContainerClient

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer
from tests.support.audited import assert_clean
from tests.support.azurite import AzuriteProcess
from tests.support.waiting import wait_until

PREFIX = "shop/orders"
DATA_FILE = re.compile(PREFIX + r"/localhost/orders/(\d+)/\d{4}/\d\d/\d\d/\d\d/\d\d/\d\d\.avro")
AVRO = {"format": "Avro"}
CAPTURE = {"format": "Avro", "layout": "Capture", "emptyFiles": True}


@dataclass
class Files:
    """What a container holds, each chain checked from its genesis on."""

    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # by partition
    named: set[str] = field(default_factory=set)  # data files in chains
    empty: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> dict[str, list[int]]:
        """Sequence numbers by partition."""
        return {p: [record["SequenceNumber"] for record in found] for p, found in self.records.items()}


def read_files(container: ContainerClient) -> Files:
    """Follow every chain and read its files; a container that is not there yet has none."""
    files = Files()
    if not container.exists():
        return files
    blobs = {blob.name: blob for blob in container.list_blobs(include=["metadata"])}
    for genesis in [name for name in blobs if "/_genesis/" in name]:
        era, partition = genesis.removesuffix(".json").split("/")[-2:]
        expected = int(json.loads(container.download_blob(genesis).readall())["start"])
        found = files.records.setdefault(partition, [])
        stem = f"{PREFIX}/segment={era}/partition={partition}/from="
        while slot := next((blob for blob in blobs.values() if blob.name.startswith(f"{stem}{expected:020d}.")), None):
            facts: dict[str, Any] = slot.metadata
            path = slot.name
            if path.endswith(".json"):
                path = facts["path"]
                record = json.loads(container.download_blob(slot.name).readall())
                assert record == {**facts, "from": expected}
                assert (str(blobs[path].size), f'"{blobs[path].etag}"') == (facts["size"], facts["etag"])
                assert blobs[path].metadata.items() <= facts.items()
            data = container.download_blob(path).readall()
            assert hashlib.sha256(data).hexdigest() == facts["sha256"]
            rows: list[Any] = list(fastavro.reader(io.BytesIO(data)))
            numbers = [row["SequenceNumber"] for row in rows]
            assert numbers == list(range(expected, int(facts["last"]) + 1)) and len(rows) == int(facts["count"])
            found += rows
            files.named.add(path)
            expected = numbers[-1] + 1
    files.empty = [name for name, blob in blobs.items() if blob.metadata.get("empty") == "true"]
    return files


def wait_drained(consumer: Consumer) -> Files:
    """Wait until the files reach the heads."""
    found: list[Files] = []

    def met() -> bool:
        with consumer.container(consumer.drained) as container:
            found[:] = [read_files(container)]
        ends = {p: numbers[-1] if numbers else -1 for p, numbers in found[0].numbers.items()}
        return ends == consumer.heads()

    wait_until(met, f"drained; logs: {[host.log[-3000:] for host in consumer.hosts]}")
    return found[0]


def assert_once(files: Files, sent: int) -> None:
    """Every event that was sent is in exactly one file."""
    bodies = Counter(int(row["Body"].split(b"|")[0]) for rows in files.records.values() for row in rows)
    assert len(bodies) == sent and set(bodies.values()) == {1}


def send(consumer: Consumer, *events: EventData) -> None:
    """Send these events to partition 0."""
    with EventHubProducerClient.from_connection_string(consumer.emulator.connection_string(consumer.hub)) as producer:
        for event in events:
            producer.send_batch([event], partition_id="0")


def test_avro_files_hold_events_of_every_size_and_type(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=1, files=AVRO)
    values: dict[str | bytes, Any] = {
        "int": 5,
        "text": "5",
        "float": 1.5,
        "bool": True,
        "large": 2**31 - 1,
        "unicode": "€",
    }
    large = b"y" * (1024**2 - 2000)
    typed, empty, huge = EventData(b"typed"), EventData(b""), EventData(large)
    typed.properties, typed.message_id = values, "m-1"
    send(orders, typed, empty, huge)
    orders.host()
    one, two, three = wait_drained(orders).records["0"]
    assert (one["Body"], two["Body"], three["Body"]) == (b"typed", b"", large)
    assert one["Properties"] == values | {"bool": "true"}
    assert one["SystemProperties"]["message-id"] == "m-1"
    assert re.fullmatch(r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d\d:\d\d [AP]M", one["EnqueuedTimeUtc"])
    with orders.container(orders.drained) as container:
        names = [name for name in container.list_blob_names() if "/from=" in name]
    assert names[0].endswith("/from=00000000000000000000.avro")


def test_capture_files_survive_a_killed_host_and_idle_windows_get_empty_files(
    consumer: MakeConsumer, azurite: AzuriteProcess
) -> None:
    orders = consumer(partitions=4, files=CAPTURE)
    orders.publish(2000)
    first = orders.host("orders-host-0")
    wait_drained(orders)
    orders.publish(2000, start=2000)
    wait_until(lambda: b"eventconsumer_received_events_total" in first.get("/metrics"), "it receives")
    first.kill()
    second = orders.host("orders-host-1")
    files = wait_drained(orders)
    assert_once(files, 4000)
    assert all(DATA_FILE.fullmatch(name) for name in files.named)
    many = len(files.empty) + 8
    wait_until(lambda: _empty(orders) >= many, f"empty files: {second.log[-2000:]}")
    orders.publish(500, start=4000)
    files = wait_drained(orders)
    assert_once(files, 4500)
    assert second.terminate() == 0  # it would write empty files while they are counted
    with orders.container(orders.drained) as container:
        files = read_files(container)
        sizes = {len(container.download_blob(name).readall()) for name in files.empty}
        data = {name for name in container.list_blob_names() if name.endswith(".avro")}
    assert sizes == {508} and all(DATA_FILE.fullmatch(name) for name in files.empty)
    orphans = data - files.named - set(files.empty)
    assert len(orphans) <= 4  # at most the file that each of the killed host's partitions was at
    assert "Traceback" not in second.log
    assert_clean(azurite, orders.drained, PREFIX, orders.leases)


def _empty(orders: Consumer) -> int:
    with orders.container(orders.drained) as container:
        return len(read_files(container).empty)
