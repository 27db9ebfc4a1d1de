"""One host drains, several share, hosts come and go: every event is in exactly one file, always."""

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, wait_until


def wait_drained(consumer: Consumer, sent: int, seconds: float = 40) -> None:
    """Wait until the checkpoints of all partitions are at the heads, then check the files."""
    hosts = [host for host in consumer.hosts if host.process.poll() is None]

    def met() -> bool:
        found: dict[str, int] = {}
        for host in hosts:
            for partition in host.report().partitions:
                if partition.next_sequence_number is not None:
                    found[partition.id] = partition.next_sequence_number - 1
        return found == consumer.heads()

    wait_until(met, seconds, f"drained; logs: {[(host.name, host.log[-3000:]) for host in hosts]}")
    with consumer.container(consumer.drained) as container:
        drained = read_drained(container, "shop/orders")
    assert_exactly_once(drained, consumer.heads(), sent)


def test_one_host_drains_every_partition(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=4)
    orders.publish(2000)
    host = orders.host()
    wait_drained(orders, 2000)
    orders.publish(500, start=2000)
    wait_drained(orders, 2500)
    assert host.get("/healthz") == b"ok\n"
    assert b'eventconsumer_files_total{partition="0"}' in host.get("/metrics")
    assert host.terminate() == 0
    assert "Traceback" not in host.log
