"""What a host reads first: a clean hub, existing data, unread data, new data only, and every starting position."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.eventhub import EventData, EventHubProducerClient

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import Drained, assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.audited import assert_clean
from tests.support.waiting import wait_until


def publish(orders: Consumer, each: int, start: int = 0) -> None:
    """Send `each` events to every partition, with the bodies `<number>|`; numbers continue across partitions."""
    producer = EventHubProducerClient.from_connection_string(orders.emulator.connection_string(orders.hub))
    with producer:
        for index, partition in enumerate(orders.heads()):
            first = start + index * each
            events = [EventData(f"{number}|") for number in range(first, first + each)]
            producer.send_batch(events, partition_id=partition)


def counted(host: HostProcess, name: str) -> int:
    """A counter of the host, over all its labels."""
    text = host.get("/metrics").decode()
    assert f"# TYPE eventconsumer_{name} counter" in text, f"no counter is called {name}"
    lines = [line for line in text.splitlines() if line.startswith(f"eventconsumer_{name}")]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if "_created" not in line))


def wait_caught_up(orders: Consumer, *hosts: HostProcess, waits: str = "") -> None:
    """Wait until what is committed or handled reaches the hub's heads; of one partition, the start has not come."""

    def met() -> bool:
        reports = [report for host in hosts for report in host.report().partitions]
        found = {report.id: report.next_sequence_number for report in reports}
        return found == {
            partition: None if partition == waits else head + 1 for partition, head in orders.heads().items()
        }

    wait_until(met, f"caught up; logs: {[host.log[-3000:] for host in hosts]}")


def drained(orders: Consumer, prefix: str = "shop/orders") -> Drained:
    with orders.container(orders.drained) as container:
        return read_drained(container, prefix)


def lease(orders: Consumer, partition: str, prefix: str = "") -> dict[str, Any]:
    """The body of a lease blob."""
    with orders.container(orders.leases) as container:
        body: dict[str, Any] = json.loads(container.download_blob(f"{prefix}$Default/{partition}").readall())
        return body


def elsewhere(orders: Consumer, leases: str, sink: str, **position: Any) -> dict[str, Any]:
    """Settings of a consumer with other prefixes and a starting position."""
    location = orders.config["leases"]["location"] | {"prefix": leases}
    return {
        "leases": orders.config["leases"] | {"location": location},
        "sink": orders.config["sink"] | {"prefix": sink},
        "startingPosition": position,
    }


# --- the four scenarios ---


def test_clean_hub(consumer: MakeConsumer) -> None:
    """Nothing is there: no file is made and no checkpoint written; then everything published is drained."""
    orders = consumer(partitions=2)
    host = orders.host()
    wait_caught_up(orders, host)
    time.sleep(2.5)  # longer than a file may take
    assert drained(orders).rows == {}
    for partition in "01":
        body = lease(orders, partition)
        assert (body.get("offset"), body["sequenceNumber"]) == (None, -1)
        assert body["owner"] == "shop/orders/orders-host-0.uid-of-orders-host-0"
    publish(orders, 100)
    wait_caught_up(orders, host)
    assert_exactly_once(drained(orders), orders.heads(), 200)


def test_existing_data_and_then_unread_data_only(consumer: MakeConsumer) -> None:
    """Without a checkpoint a host reads all that is retained; after a pause the next one continues behind it."""
    orders = consumer(partitions=2)
    publish(orders, 150)
    orders.emulator.admin.move_retention("orders", "0", before=50)
    first = orders.host("orders-host-0")
    wait_caught_up(orders, first)
    found = drained(orders)
    assert found.rows == {"0": list(range(50, 150)), "1": list(range(150))}
    assert found.gaps == {}  # what was gone before the start is no gap
    assert first.terminate() == 0
    before = orders.heads()
    assert {p: lease(orders, p)["sequenceNumber"] for p in before} == before
    publish(orders, 50, start=300)  # nobody listens
    second = orders.host("orders-host-1", startingPosition={"type": "Latest"})  # the checkpoint counts, not this
    wait_caught_up(orders, second)
    publish(orders, 25, start=400)
    wait_caught_up(orders, second)
    assert counted(second, "received_events_total") == 150
    assert counted(second, "duplicate_events_total") == 0
    assert drained(orders).rows == {"0": list(range(50, 225)), "1": list(range(225))}


def test_new_data_only(consumer: MakeConsumer) -> None:
    """Other prefixes for leases and files, and Latest: the old events are ignored, nothing new is missed."""
    orders = consumer(partitions=2)
    publish(orders, 100)
    old = orders.heads()
    host = orders.host(**elsewhere(orders, "fresh/", "shop/fresh", type="Latest"))
    wait_caught_up(orders, host)
    assert counted(host, "received_events_total") == 0
    assert host.terminate() == 0  # the start is decided: what comes now is new, although nobody listens
    publish(orders, 50, start=200)
    again = orders.host("orders-host-1", **elsewhere(orders, "fresh/", "shop/fresh", type="Latest"))
    wait_caught_up(orders, again)
    found = drained(orders, "shop/fresh")
    assert found.rows == {p: list(range(old[p] + 1, head + 1)) for p, head in orders.heads().items()}
    assert sorted(int(body.split(b"|")[0]) for body in found.bodies) == list(range(200, 300))
    assert drained(orders).rows == {}


# --- starting positions ---


def test_every_starting_position(consumer: MakeConsumer) -> None:
    """Each partition has a position of its own; what is not named starts at the common one."""
    orders = consumer(partitions=7)
    publish(orders, 30)
    time.sleep(0.2)
    middle = datetime.now(UTC)
    time.sleep(0.2)
    publish(orders, 30)
    first = orders.host("orders-host-0")
    wait_caught_up(orders, first)
    assert first.terminate() == 0
    offsets = {
        (row["partition_id"], row["sequence_number"]): row["offset"]
        for row in drained(orders).table.select(["partition_id", "sequence_number", "offset"]).to_pylist()
    }
    orders.emulator.admin.move_retention("orders", "6", before=20)
    later = datetime.now(UTC) + timedelta(hours=1)
    partitions = {
        "0": {"type": "Earliest"},
        "1": {"type": "Latest"},
        "2": {"type": "EnqueuedTime", "enqueuedTime": middle.isoformat()},
        "3": {"type": "Offset", "offset": offsets["3", 41]},
        "4": {"type": "SequenceNumber", "sequenceNumber": 17},
        "5": {"type": "EnqueuedTime", "enqueuedTime": later.isoformat()},
    }
    settings = elsewhere(orders, "b/", "shop/b", type="SequenceNumber", sequenceNumber=5, partitions=partitions)
    second = orders.host("orders-host-1", **settings)
    wait_caught_up(orders, second, waits="5")
    publish(orders, 5)
    wait_caught_up(orders, second, waits="5")
    rows = drained(orders, "shop/b").rows
    starts = {"0": 0, "1": 60, "2": 30, "3": 42, "4": 17, "6": 20}
    assert rows == {partition: list(range(start, 65)) for partition, start in starts.items()}


@pytest.mark.parametrize("client", ["BuiltIn", "AzureSdk"])  # the SDK does not tell the time of the hub
def test_events_before_a_starting_time_in_the_future_are_skipped(consumer: MakeConsumer, client: str) -> None:
    orders = consumer(partitions=1)
    orders.config["processing"]["client"] = client
    publish(orders, 30)
    when = datetime.now(UTC) + timedelta(seconds=3)
    orders.config["startingPosition"] = {"type": "EnqueuedTime", "enqueuedTime": when.isoformat()}
    first = orders.host("orders-host-0")
    wait_until(lambda: "waiting for the starting time" in first.log, f"it waits, see {first.log_file}")
    assert first.report().partitions[0].read and first.report().problems == ()
    assert orders.emulator.admin.links(kind="reader") == []
    first.kill()
    second = orders.host("orders-host-1")
    while datetime.now(UTC) <= when:
        publish(orders, 1)
        time.sleep(0.1)
    publish(orders, 5)
    wait_caught_up(orders, second)
    assert second.terminate() == 0
    found = drained(orders)
    assert min(found.table["enqueued_time"].to_pylist()) >= when
    assert found.rows["0"][0] >= 30 and found.rows == {"0": list(range(found.rows["0"][0], orders.heads()["0"] + 1))}
    assert_clean(orders.azurite, orders.drained, "shop/orders", orders.leases)
