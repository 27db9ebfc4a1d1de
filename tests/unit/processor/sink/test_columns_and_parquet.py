"""From AMQP messages to a Parquet file and back: every property type, every event."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from azure.eventhub._pyamqp._decode import decode_payload
from azure.eventhub._pyamqp.message import Message, Properties
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_processor.sink.parquet import SCHEMA, encode
from eventconsumer_processor.source import sdk
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.columns import as_text, to_batch
from eventconsumer_processor.source.rows import Kind
from tests.support.fakes.hub import batch_of

assert sdk  # its import completes the decoder


def message(number: int, **parts: Any) -> Message:
    """A message as pyamqp decodes it."""
    annotations = {
        b"x-opt-sequence-number": number,
        b"x-opt-offset": str(number * 100).encode(),
        b"x-opt-enqueued-time": 1_700_000_000_123 + number,
    } | parts.pop("annotations", {})
    return Message(message_annotations=annotations, **{"data": [b"body"], **parts})


def read(batches: list[EventBatch], partition: str = "3") -> pa.Table:
    """The table of the encoded file."""
    return pq.read_table(pa.BufferReader(b"".join(encode(batches, partition, {"from": "0"}))))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"5", Kind.TEXT),
        ("5", Kind.TEXT),
        (5, Kind.INTEGER),
        (-(2**63), Kind.INTEGER),
        (2**64 - 1, Kind.TEXT),
        (5.0, Kind.FLOAT),
        (None, Kind.NULL),
        (True, Kind.TEXT),
        (b"\xff", Kind.BINARY),
        (b'{"$binary":"/w=="}', Kind.TEXT),
        (UUID(int=1), Kind.TEXT),
        ([1], Kind.TEXT),
        ({b"k": 1}, Kind.TEXT),
    ],
)
def test_kinds_tell_what_a_text_was(value: Any, kind: Kind) -> None:
    rows = to_batch([message(1, application_properties={b"k": value})]).rows()
    assert list(rows.properties.kinds) == [kind]


@given(st.lists(st.lists(st.sampled_from([1, "1", None, 1.5]), max_size=3), min_size=1, max_size=6), st.data())
def test_kinds_stay_with_their_values(events: list[list[Any]], data: st.DataObject) -> None:
    kinds = {int: Kind.INTEGER, str: Kind.TEXT, type(None): Kind.NULL, float: Kind.FLOAT}
    batch = to_batch(
        message(number, application_properties={str(index): value for index, value in enumerate(values)})
        for number, values in enumerate(events)
    )
    start = data.draw(st.integers(0, len(events) - 1))
    stop = data.draw(st.integers(start + 1, len(events)))
    cut = batch.after(start - 1).head(stop - start).rows().properties
    assert list(cut.kinds) == [kinds[type(value)] for values in events[start:stop] for value in values]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-5, "-5"),
        (2**63 - 1, "9223372036854775807"),
        (1.5, "1.5"),
        (b"text", "text"),
        ("text", "text"),
        (b"\xff\x00", '{"$binary":"/wA="}'),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        ([1, b"a", None], '[1,"a",null]'),
        ({b"k": [b"\xff"]}, '{"k":[{"$binary":"/w=="}]}'),
    ],
)
def test_values_become_text(value: Any, text: str) -> None:
    assert as_text(value) == text


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
    assert table.schema.equals(SCHEMA)
    first, second = table.to_pylist()
    assert first == {
        "sequence_number": 7,
        "offset": "700",
        "enqueued_time": datetime(2023, 11, 14, 22, 13, 20, 130_000, UTC),
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
        ({"data": None}, b""),
        ({"data": None, "value": b"v"}, b"v"),
        ({"data": None, "value": {b"k": 1}}, b'{"k":1}'),
        ({"data": None, "sequence": [[1, 2]]}, b"[[1,2]]"),
    ],
)
def test_every_kind_of_body(parts: dict[str, Any], body: bytes) -> None:
    assert to_batch([message(1, **parts)]).rows().bodies == [body]


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


properties = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=9),
    max_size=4,
)


@given(st.lists(st.tuples(st.binary(max_size=50), properties), min_size=1, max_size=20), st.integers(0, 19))
def test_batches_survive_the_round_trip(events: list[tuple[bytes, dict[str, Any]]], cut: int) -> None:
    batch = to_batch(
        message(number, data=[body], application_properties=found) for number, (body, found) in enumerate(events)
    )
    rows = read([batch.after(cut - 1)]).to_pylist() if cut < len(events) else []
    assert [row["sequence_number"] for row in rows] == list(range(cut, len(events)))
    assert [row["body"] for row in rows] == [body for body, _ in events[cut:]]
    for row, (_, found) in zip(rows, events[cut:], strict=True):
        restored = {
            key: value if isinstance(found[key], str) else json.loads(value) for key, value in row["properties"]
        }
        assert restored == found


def test_the_file_says_where_it_belongs() -> None:
    data = b"".join(encode([batch_of([(5, b"x")])], "3", {"from": "4", "epoch": "2"}))
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.schema_arrow.metadata[b"eventconsumer.from"] == b"4"
    assert file.schema_arrow.metadata[b"eventconsumer.epoch"] == b"2"
    assert file.metadata.row_group(0).column(5).compression == "ZSTD"


def test_row_groups_are_bounded_in_bytes_and_hold_every_event() -> None:
    batches, number = [], 0
    for sizes in ([20 * 1024**2, 20 * 1024**2], [1024**2] * 5, [0], [100] * 3000):
        numbers = range(number, number + len(sizes))
        batches.append(batch_of((n, bytes([n % 256]) * size) for n, size in zip(numbers, sizes, strict=True)))
        number += len(sizes)
    data = b"".join(encode(batches, "3", {"from": "0"}))
    file = pq.ParquetFile(pa.BufferReader(data))
    groups = [file.metadata.row_group(index) for index in range(file.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [1, number - 1]
    table = file.read()
    assert table["sequence_number"].to_pylist() == list(range(number))
    bodies = [body for batch in batches for body in batch.rows().bodies]
    assert table["body"].to_pylist() == bodies
    assert [len(entries) for entries in table["properties"].to_pylist()] == [1] * number


def test_a_file_without_batches_is_a_file_without_rows() -> None:
    assert read([]).num_rows == 0


def test_large_and_many_batches_make_one_file() -> None:
    batches = [batch_of((n, bytes([n]) * 100_000) for n in range(start, start + 10)) for start in (0, 10, 20)]
    table = read(batches)
    assert table["sequence_number"].to_pylist() == list(range(30))
    assert table["body"][29].as_py() == bytes([29]) * 100_000


@given(st.lists(st.integers(0, 30), max_size=30), st.integers(-1, 30))
def test_redelivered_events_are_dropped(numbers: list[int], seen: int) -> None:
    batch = batch_of((number, b"%d" % number) for number in numbers)
    expected: list[int] = []
    for number in numbers:
        if not expected or number > expected[-1]:
            expected.append(number)
    fresh = batch.rising().after(seen).rows()
    assert fresh.sequence_numbers == [number for number in expected if number > seen]
    assert fresh.bodies == [b"%d" % number for number in fresh.sequence_numbers]
    assert fresh.properties.values == [str(number) for number in fresh.sequence_numbers]
    assert fresh.properties.ends == list(range(1, len(fresh) + 1))
