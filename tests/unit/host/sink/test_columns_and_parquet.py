"""From AMQP messages to a Parquet file and back: every property type, every event."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.eventhub._pyamqp._decode import decode_payload
from azure.eventhub._pyamqp.message import Properties
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.sink import parquet
from eventconsumer_host.source import sdk
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.columns import as_text, to_batch
from eventconsumer_host.source.rows import Binary, PropertyKind
from tests.support.fakes.hub import batch_of
from tests.unit.host.sink.messages import message

assert sdk  # its import completes the decoder


def read(batches: list[EventBatch], partition: str = "3") -> pa.Table:
    """The table of the encoded file."""
    return pq.read_table(pa.BufferReader(b"".join(parquet.encode(batches, partition, {"from": "0"}))))


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        (None, "null", PropertyKind.NULL),
        (True, "true", PropertyKind.TEXT),
        (-5, "-5", PropertyKind.INTEGER),
        (-(2**63), "-9223372036854775808", PropertyKind.INTEGER),
        (2**63 - 1, "9223372036854775807", PropertyKind.INTEGER),
        (2**64 - 1, "18446744073709551615", PropertyKind.TEXT),
        (1.5, "1.5", PropertyKind.FLOAT),
        (5.0, "5.0", PropertyKind.FLOAT),
        (b"5", "5", PropertyKind.TEXT),
        ("text", "text", PropertyKind.TEXT),
        (b"\xff\x00", '{"$binary":"/wA="}', PropertyKind.BINARY),
        (Binary(b"5"), '{"$binary":"NQ=="}', PropertyKind.BINARY),
        (b'{"$binary":"/w=="}', '{"$binary":"/w=="}', PropertyKind.TEXT),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001", PropertyKind.TEXT),
        (Decimal("1.10"), "1.10", PropertyKind.TEXT),
        ([1, b"a", None], '[1,"a",null]', PropertyKind.TEXT),
        ({b"k": [b"\xff"]}, '{"k":[{"$binary":"/w=="}]}', PropertyKind.TEXT),
    ],
)
def test_a_value_becomes_text_with_its_kind(value: Any, text: str, kind: PropertyKind) -> None:
    found = to_batch([message(1, application_properties={b"k": value})]).rows().properties
    assert (found.values, list(found.kinds), as_text(value)) == ([text], [kind], text)


@given(st.lists(st.lists(st.sampled_from([1, "1", None, 1.5]), max_size=3), min_size=1, max_size=6), st.data())
def test_kinds_stay_with_their_values(events: list[list[Any]], data: st.DataObject) -> None:
    kinds = {
        int: PropertyKind.INTEGER,
        str: PropertyKind.TEXT,
        type(None): PropertyKind.NULL,
        float: PropertyKind.FLOAT,
    }
    batch = to_batch(
        message(number, application_properties={str(index): value for index, value in enumerate(values)})
        for number, values in enumerate(events)
    )
    start = data.draw(st.integers(0, len(events) - 1))
    stop = data.draw(st.integers(start + 1, len(events)))
    cut = batch.after(start - 1).head(stop - start).rows().properties
    assert list(cut.kinds) == [kinds[type(value)] for values in events[start:stop] for value in values]


def test_all_columns_of_a_message() -> None:
    batch = to_batch(
        [
            message(
                7,
                annotations={b"x-opt-partition-key": b"blue", b"iothub-device": b"d1"},
                properties=Properties(
                    message_id=UUID(int=2), content_type=b"text/plain", subject=b"s", group_sequence=4
                ),
                application_properties={b"n": 5, b"s": b"x", b"none": None},
                data=[b"one", b"two"],
            ),
            message(8),
        ]
    )
    table = read([batch])
    assert table.schema.equals(parquet.SCHEMA)
    first, second = table.to_pylist()
    assert first == {
        "sequence_number": 7,
        "offset": "700",
        "enqueued_time": datetime(2016, 11, 16, 16, 44, 11, 130_000, UTC),
        "partition_key": "blue",
        "partition_id": "3",
        "body": b"onetwo",
        "properties": [("n", "5"), ("s", "x"), ("none", "null")],
        "system_properties": [("iothub-device", "d1"), ("subject", "s"), ("group_sequence", "4")],
        "content_type": "text/plain",
        "message_id": "00000000-0000-0000-0000-000000000002",
        "correlation_id": None,
    }
    assert (second["partition_key"], second["properties"], second["system_properties"]) == (None, [], [])


@pytest.mark.parametrize(
    ("parts", "body"),
    [
        ({"data": [b""]}, b""),
        ({"data": None}, None),
        ({"data": None, "value": b"v"}, b"v"),
        ({"data": None, "value": {b"k": 1}}, b'{"k":1}'),
        ({"data": None, "sequence": [[1, 2]]}, b"[[1,2]]"),
    ],
)
def test_every_kind_of_body(parts: dict[str, Any], body: bytes | None) -> None:
    batch = to_batch([message(1, **parts)])
    assert batch.rows().bodies == [body]
    assert read([batch]).column("body").to_pylist() == [body]


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (b"\x73\x00\x00\x20\xac", "€"),  # char
        (b"\x74\xff\xff\xff\xff", '{"$binary":"/////w=="}'),  # decimal32
        (b"\x84" + b"\xff" * 8, '{"$binary":"//////////8="}'),  # decimal64
        (b"\x94" + b"\xff" * 16, '{"$binary":"/////////////////////w=="}'),  # decimal128
        (b"\x83" + (1_700_000_000_000).to_bytes(8), "1700000000000"),  # timestamp
        (b"\x98" + bytes(15) + b"\x01", "00000000-0000-0000-0000-000000000001"),  # uuid
        (b"\x42", "false"),
        (b"\x51\xff", "-1"),  # byte
        (b"\xa3\x03sym", "sym"),  # symbol
    ],
)
def test_every_wire_type_of_a_property_is_decoded(encoded: bytes, text: str) -> None:
    entry = b"\xa1\x01k" + encoded
    payload = b"\x00\x53\x74\xc1" + bytes([len(entry) + 1, 2]) + entry
    decoded = decode_payload(memoryview(payload))
    rows = to_batch([message(1, application_properties=decoded.application_properties)]).rows()
    assert rows.properties.values == [text]


def test_the_metadata_of_a_file_has_its_place_in_the_chain() -> None:
    data = b"".join(parquet.encode([batch_of([(5, b"x")])], "3", {"from": "4", "epoch": "2"}))
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.schema_arrow.metadata[b"eventconsumer.from"] == b"4"
    assert file.schema_arrow.metadata[b"eventconsumer.epoch"] == b"2"
    assert file.metadata.row_group(0).column(5).compression == "ZSTD"


def test_row_groups_are_bounded_in_bytes_and_hold_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 32 * 1024)
    batches, number = [], 0
    for sizes in ([20 * 1024, 20 * 1024], [1024] * 5, [0], [10] * 30):
        numbers = range(number, number + len(sizes))
        batches.append(batch_of((n, bytes([n % 256]) * size) for n, size in zip(numbers, sizes, strict=True)))
        number += len(sizes)
    file = pq.ParquetFile(pa.BufferReader(b"".join(parquet.encode(batches, "3", {"from": "0"}))))
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [1, number - 1]
    table = file.read()
    assert table["sequence_number"].to_pylist() == list(range(number))
    assert table["body"].to_pylist() == [body for batch in batches for body in batch.rows().bodies]
    assert [len(entries) for entries in table["properties"].to_pylist()] == [1] * number
