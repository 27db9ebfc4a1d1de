"""A real host drains a broker of another stack: every field of every event is compared in the files."""

from pathlib import Path

import pyarrow as pa
import pytest

from eventconsumer_api.v1alpha1 import HubTransport
from tests.integration.processor.drained import Drained, read_drained
from tests.integration.processor.hosts import Consumer, without_decoder
from tests.support.azurite import AzuriteProcess
from tests.support.peer import mixed
from tests.support.peer.hub import offset_of, time_of
from tests.support.peer.process import PeerProcess
from tests.support.waiting import wait_until

PARTITIONS = 4


def wait_drained(consumer: Consumer, peer: PeerProcess) -> None:
    """Wait until the checkpoints of all partitions are at the heads."""
    (host,) = consumer.hosts
    heads = peer.call("heads", hub="orders")

    def met() -> bool:
        found = {partition.id: partition.next_sequence_number for partition in host.report().partitions}
        return found == {partition: head + 1 for partition, head in heads.items()}

    wait_until(met, f"drained; log: {host.log[-3000:]}")


def assert_equal(drained: Drained, each: int) -> None:
    """Compare all columns; the number of the first event of a partition is `each` times that of the partition."""
    table = drained.table.sort_by([("partition_id", "ascending"), ("sequence_number", "ascending")])
    numbers = list(range(each))
    assert table["partition_id"].to_pylist() == [str(number) for number in range(PARTITIONS) for _ in numbers]
    assert table["sequence_number"].to_pylist() == numbers * PARTITIONS
    assert table["offset"].to_pylist() == [offset_of(number) for number in numbers] * PARTITIONS
    assert (
        table["enqueued_time"].cast(pa.int64()).to_pylist()
        == [time_of(number) * 1000 for number in numbers] * PARTITIONS
    )
    for name, expected in mixed.expected(each * PARTITIONS).items():
        found = table[name].to_pylist()
        if found != expected:  # pytest's comparison of so many values takes minutes
            at = next(index for index, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
            pytest.fail(f"{name} of event {at}: {found[at]!r:.500} is not {expected[at]!r:.500}")


@pytest.mark.parametrize("transport", list(HubTransport))
@pytest.mark.parametrize(
    ("decoder", "each"),
    [
        ("compiled", 2500),
        ("python", 2500),
        pytest.param("compiled", 25_000, marks=pytest.mark.long),
        pytest.param("python", 25_000, marks=pytest.mark.long),
    ],
)
def test_every_field_of_mixed_events_is_in_the_files(
    peer: PeerProcess,
    azurite: AzuriteProcess,
    tmp_path: Path,
    transport: HubTransport,
    decoder: str,
    each: int,
) -> None:
    peer.call("create", hub="orders", partitions=PARTITIONS)
    by = peer.by_websockets() if transport is HubTransport.AMQP_WEB_SOCKETS else peer
    consumer = Consumer(tmp_path, by, azurite, "orders")  # type: ignore[arg-type]
    consumer.config["eventHub"]["transport"] = transport
    for number in range(PARTITIONS):
        peer.call("produce_mixed", hub="orders", partition=str(number), count=each, start=number * each)
    host = consumer.host(environment=without_decoder(tmp_path) if decoder == "python" else None)
    try:
        wait_drained(consumer, peer)
        assert f"amqp, {decoder} decoder" in host.log
        with consumer.container(consumer.drained) as container:
            assert_equal(read_drained(container, "shop/orders"), each)
        assert host.terminate() == 0
        assert "Traceback" not in host.log
    finally:
        consumer.close()
