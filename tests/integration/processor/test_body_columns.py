"""Bodies in JSON to typed columns of files and the table, by real hosts on Azurite; read by delta-rs and PyArrow."""

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from azure.eventhub import EventData, EventHubProducerClient
from deltalake import DeltaTable

from eventconsumer_api.spec.conditions import Reason
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, without_decoder
from tests.integration.processor.test_table import has_table
from tests.integration.processor.test_tools import document
from tests.support.azurite import ACCOUNT, KEY
from tests.support.waiting import wait_until

ROOT = "shop/orders"
COLUMNS = [
    {"name": "order_id", "type": "STRING", "path": "$['order id']", "statistics": True},
    {"name": "cents", "type": "BIGINT", "path": "$.price.cents", "statistics": True},
    {"name": "amount", "type": "DECIMAL(12, 2)", "path": "$.price.amount", "statistics": True},
    {"name": "at", "type": "TIMESTAMP", "from": "EpochMillis", "statistics": True},
    {"name": "items", "type": "ARRAY<STRUCT<sku: STRING, qty: BIGINT>>"},
]
NAMES = [each["name"] for each in COLUMNS]
BEGIN = datetime(2026, 1, 2, tzinfo=UTC)
EVENTS = 2000


def order_id(number: int) -> str:
    """A text that must be escaped in the metadata of a blob."""
    return f'ö  "{number}" \\'


def body(number: int) -> bytes:
    """Of each hundred bodies, one is no JSON object."""
    if number % 100 == 7:
        return b'{"order id": "cut %d' % number
    value: dict[str, Any] = {
        "order id": order_id(number),
        "price": {"cents": number, "amount": f"{number}.25"},
        "at": int((BEGIN + timedelta(milliseconds=number)).timestamp() * 1000),
        "items": [{"sku": f"s{number % 5}", "qty": number}, {"sku": None}][: number % 3],
        "note": f"n{number}",
    }
    return json.dumps(value).encode()


def expected(number: int) -> dict[str, Any]:
    """The typed columns of an event."""
    if number % 100 == 7:
        return dict.fromkeys(NAMES)
    return {
        "order_id": order_id(number),
        "cents": number,
        "amount": Decimal(f"{number}.25"),
        "at": BEGIN + timedelta(milliseconds=number),
        "items": [{"sku": f"s{number % 5}", "qty": number}, {"sku": None, "qty": None}][: number % 3],
    }


def publish(orders: Consumer, first: int, last: int) -> None:
    """Send events."""
    producer = EventHubProducerClient.from_connection_string(orders.emulator.connection_string(orders.hub))
    with producer:
        for partition in ("0", "1"):
            batch = producer.create_batch(partition_id=partition)
            for number in range(first, last):
                if number % 2 == int(partition):
                    batch.add(EventData(body(number)))
            producer.send_batch(batch)


def table(orders: Consumer) -> DeltaTable:
    """The table."""
    options = {"allow_http": "true", "azure_endpoint": orders.azurite.url, "account_name": ACCOUNT, "account_key": KEY}
    return DeltaTable(f"az://{orders.drained}/{ROOT}", storage_options=options)


def rows(orders: Consumer, *more: str) -> dict[bytes, dict[str, Any]]:
    """The typed columns by body."""
    found = table(orders).to_pyarrow_table(columns=["body", "_error", *NAMES, *more]).to_pylist()
    return {row.pop("body"): row for row in found}


def count(orders: Consumer) -> int:
    """Rows of the table."""
    return int(table(orders).to_pyarrow_table(columns=["sequence_number"]).num_rows)


def test_bodies_are_typed_columns_of_the_files_and_the_table(consumer: MakeConsumer) -> None:
    roll = {"maxBytes": 1_000_000, "maxSeconds": 1, "maxEvents": 300}
    orders = consumer(partitions=2, table={"maxSeconds": 1}, roll=roll, body={"columns": COLUMNS})
    publish(orders, 0, EVENTS)
    host = orders.host("orders-host-0")
    wait_until(lambda: has_table(host), f"a table: {host}")
    wait_until(lambda: count(orders) == EVENTS, f"{EVENTS} events in the table: {host}")
    found = rows(orders)
    for number in range(EVENTS):
        error = found[body(number)].pop("_error")
        assert found[body(number)] == expected(number)
        assert (error is None) == (number % 100 != 7)
    low, high = 500, 620
    some = table(orders).to_pyarrow_table(columns=["cents"], filters=[("cents", ">=", low), ("cents", "<", high)])
    assert sorted(some["cents"].to_pylist()) == [each for each in range(low, high) if each % 100 != 7]
    some = table(orders).to_pyarrow_table(columns=["cents"], filters=[("order_id", "=", order_id(77))])
    assert some["cents"].to_pylist() == [77]
    facts = pa.table(table(orders).get_add_actions(flatten=True)).to_pylist()
    assert sum(fact["null_count.cents"] for fact in facts) == EVENTS // 100
    assert all(fact["max.cents"] - fact["min.cents"] < 2 * fact["num_records"] for fact in facts), "of the file alone"
    container = orders.container(orders.drained)
    names = [each.name for each in container.list_blobs(f"{ROOT}/segment=") if each.name.endswith(".parquet")]
    files = [pq.read_table(pa.BufferReader(container.download_blob(name).readall())) for name in names]
    assert sum(file.num_rows for file in files) == EVENTS
    assert all(file.schema.names[-6:] == [*NAMES, "_error"] for file in files)
    assert sorted(each for file in files for each in file["cents"].to_pylist() if each is not None) == [
        number for number in range(EVENTS) if number % 100 != 7
    ]
    wrong = {number for number in range(EVENTS) if number % 100 == 7}
    counted = re.findall(
        r"^eventconsumer_body_error_events_total{.*} (.+)$", host.get("/metrics").decode(), re.MULTILINE
    )
    assert sum(map(float, counted)) == len(wrong)
    (told,) = host.report().body_errors
    assert (told.events, told.file in names) == (len(wrong), True)
    listed = document(orders, "errors", "--limit", "1000")
    bodies = {(row["partition_id"], row["sequence_number"]): row["body"] for file in files for row in file.to_pylist()}
    shown = [bodies[row["partition"], row["sequenceNumber"]] for row in listed["rows"]]
    assert sorted(shown) == sorted(map(body, wrong))
    assert {row["error"] for row in listed["rows"]} == {told.error}
    assert (listed["errors"], listed["events"], listed["unreadable"]) == (len(wrong), EVENTS, [])
    assert host.terminate() == 0
    report = orders.audit(deep=True)
    assert (report.exit_code, report.counts) == (0, {})


def test_columns_are_only_added_and_one_whose_name_is_taken_is_refused(consumer: MakeConsumer, tmp_path: Path) -> None:
    orders = consumer(partitions=2, table={"maxSeconds": 1})
    publish(orders, 0, 100)
    first = orders.host("orders-host-0")  # without columns
    wait_until(lambda: has_table(first), f"a table: {first}")
    wait_until(lambda: count(orders) == 100, f"100 events in the table: {first}")
    assert first.terminate() == 0
    publish(orders, 100, 200)
    second = orders.host("orders-host-1", environment=without_decoder(tmp_path), body={"columns": COLUMNS})
    assert second.problem(Reason.DECODER_MISSING).field == "spec.processing.image"
    wait_until(lambda: count(orders) == 200, f"200 events in the table: {second}")
    assert second.terminate() == 0
    other = [{"name": "note", "type": "STRING"}, {"name": "Cents", "type": "STRING", "path": "$.price.cents"}]
    publish(orders, 200, 300)
    third = orders.host("orders-host-2", body={"columns": other})
    problem = third.problem(Reason.COLUMNS_REFUSED)
    assert "Cents STRING is refused, because files have cents BIGINT" in problem.message
    wait_until(lambda: count(orders) == 300, f"300 events in the table, also with a refused column: {third}")
    found = rows(orders, "note")
    for number in (0, 150, 250):
        row = found[body(number)]
        assert {name: row[name] for name in NAMES} == (expected(150) if number == 150 else dict.fromkeys(NAMES))
        assert row["note"] == ("n250" if number == 250 else None)
        assert row["_error"] is None
    assert third.terminate() == 0
    report = orders.audit(deep=True)
    assert (report.exit_code, report.counts) == (0, {})
