"""One host drains, two share, and one hands over in order. Kills and zombies: tests/faults and tests/simulation."""

from pathlib import Path

import pytest

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, without_decoder
from tests.support.waiting import wait_until


def wait_drained(consumer: Consumer, sent: int) -> None:
    """Wait until the checkpoints of all partitions are at the heads, then check the files."""
    hosts = [host for host in consumer.hosts if host.process.poll() is None]

    def met() -> bool:
        found: dict[str, int] = {}
        for host in hosts:
            for partition in host.report().partitions:
                if partition.next_sequence_number is not None:
                    found[partition.id] = partition.next_sequence_number - 1
        return found == consumer.heads()

    wait_until(met, f"drained; logs: {[(host.name, host.log[-3000:]) for host in hosts]}")
    with consumer.container(consumer.drained) as container:
        drained = read_drained(container, "shop/orders")
    assert_exactly_once(drained, consumer.heads(), sent)


@pytest.mark.parametrize(("source", "connections"), [("BuiltIn", 1), ("AzureSdk", 4)])
def test_one_host_drains_every_partition_with_either_receiver(
    consumer: MakeConsumer, source: str, connections: int
) -> None:
    orders = consumer(partitions=4)
    orders.config["processing"]["client"] = source
    orders.publish(2000)
    host = orders.host()
    wait_drained(orders, 2000)
    orders.publish(500, start=2000)
    wait_drained(orders, 2500)
    assert len({link["connection"] for link in orders.emulator.admin.links(kind="reader")}) == connections
    assert host.get("/healthz") == b"ok\n"
    assert b'eventconsumer_committed_files_total{partition="0"}' in host.get("/metrics")
    assert host.terminate() == 0
    assert "Traceback" not in host.log


def test_a_host_without_the_compiled_decoder_does_the_same(consumer: MakeConsumer, tmp_path: Path) -> None:
    orders = consumer(partitions=4)
    orders.publish(2000)
    plain = orders.host("orders-host-0", environment=without_decoder(tmp_path))
    wait_drained(orders, 2000)
    assert "amqp, python decoder" in plain.log
    compiled = orders.host("orders-host-1")
    wait_until(lambda: len(compiled.owned()) == 2, "they share the partitions")
    orders.publish(2000, start=2000)
    wait_drained(orders, 4000)
    assert "amqp, compiled decoder" in compiled.log
    assert "Traceback" not in plain.log + compiled.log


def test_sigterm_hands_partitions_over_with_nothing_lost_or_doubled(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=4, roll={"maxBytes": 100_000_000, "maxSeconds": 600, "maxEvents": 1_000_000})
    orders.publish(1000)
    first = orders.host("orders-host-0")
    received = [b"", b"eventconsumer_received_events_total"]
    wait_until(lambda: received[1] in first.get("/metrics"), "events are buffered")
    wait_until(lambda: _total(first.get("/metrics"), "received_events") == 1000, "all events are buffered")
    assert first.report().partitions[0].files == 0
    assert first.terminate() == 0
    with orders.container(orders.drained) as container:
        assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), 1000)
    second = orders.host("orders-host-1", roll={"maxBytes": 1_000_000, "maxSeconds": 1, "maxEvents": 1000})
    wait_until(lambda: len(second.owned()) == 4, "released leases are taken at once")
    orders.publish(1000, start=1000)
    wait_drained(orders, 2000)


def _total(text: bytes, name: str) -> int:
    """The sum of a counter over its labels."""
    lines = [line for line in text.decode().splitlines() if line.startswith(f"eventconsumer_{name}_total")]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines))
