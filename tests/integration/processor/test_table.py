"""The table over the files, written by real hosts on Azurite, and read by delta-rs."""

from collections import Counter

from deltalake import DeltaTable

from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.azurite import ACCOUNT, KEY
from tests.support.waiting import wait_until


def rows_of(orders: Consumer) -> Counter[tuple[str, int]]:
    """How often each event is in the table."""
    options = {"allow_http": "true", "azure_endpoint": orders.azurite.url, "account_name": ACCOUNT, "account_key": KEY}
    table = DeltaTable(f"az://{orders.drained}/shop/orders", storage_options=options)
    found = table.to_pyarrow_table(columns=["partition_id", "sequence_number"])
    return Counter(zip(found["partition_id"].to_pylist(), found["sequence_number"].to_pylist(), strict=True))


def has_table(host: HostProcess) -> bool:
    """Whether it leads and knows the table."""
    fleet = host.report().fleet
    return fleet is not None and fleet.table is not None


def test_each_event_is_in_the_table_once_after_the_leader_was_killed(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=2, table={"maxSeconds": 1})
    orders.publish(400)
    first = orders.host("orders-host-0")
    wait_until(lambda: has_table(first), f"a table: {first.log[-2000:]}")
    wait_until(lambda: len(rows_of(orders)) == 400, f"400 events in the table: {first.log[-2000:]}")
    orders.publish(300)
    first.kill()
    second = orders.host("orders-host-1")
    wait_until(lambda: len(rows_of(orders)) == 700, f"700 events in the table: {second.log[-2000:]}")
    assert set(rows_of(orders).values()) == {1}
    wait_until(
        lambda: (
            (fleet := second.report().fleet) is not None
            and fleet.table is not None
            and (fleet.table.events, fleet.table.pending_files) == (700, 0)
        ),
        "the leading host reports the table",
    )


def test_the_files_of_a_host_that_stops_are_in_the_table(consumer: MakeConsumer) -> None:
    roll = {"maxBytes": 100_000_000, "maxSeconds": 600, "maxEvents": 1_000_000}
    orders = consumer(partitions=2, table={"maxSeconds": 1}, roll=roll)
    orders.publish(100, "0")
    orders.publish(100, "1")
    host = orders.host("orders-host-0")
    wait_until(lambda: sum(each.sequence_number is not None for each in host.report().partitions) == 2, "it reads")
    assert host.terminate() == 0
    assert sum(rows_of(orders).values()) == 200
