"""Avro as Event Hubs Capture writes it: its bytes, and every event back from them."""

import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from azure.eventhub._pyamqp.message import Properties
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.sink import avro
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.columns import to_batch
from tests.support.fakes.hub import batch_of, rows_of
from tests.unit.host.sink.messages import message

# What a file of Capture starts with: 490 bytes, of which the last 16 are its sync marker.
CAPTURE_HEADER = (
    b'Obj\x01\x04\x14avro.codec\x08null\x16avro.schema\xec\x06{"type":"record","name":"EventData",'
    b'"namespace":"Microsoft.ServiceBus.Messaging","fields":[{"name":"SequenceNumber","type":"long"},'
    b'{"name":"Offset","type":"string"},{"name":"EnqueuedTimeUtc","type":"string"},'
    b'{"name":"SystemProperties","type":{"type":"map","values":["long","double","string","bytes"]}},'
    b'{"name":"Properties","type":{"type":"map","values":["long","double","string","bytes","null"]}},'
    b'{"name":"Body","type":["null","bytes"]}]}\x00'
)


def read(*batches: EventBatch) -> list[dict[str, Any]]:
    """The records of the encoded file."""
    reader = fastavro.reader(io.BytesIO(b"".join(avro.encode(batches, "3", {"from": "0"}))))
    records: list[dict[str, Any]] = list(reader)
    return records


def test_the_header_is_captures() -> None:
    data = b"".join(avro.encode([to_batch([message(1)])], "0", {}))
    assert len(CAPTURE_HEADER) == 490 - 16
    assert data.startswith(CAPTURE_HEADER)
    assert data[-16:] == data[474:490]


def test_the_empty_file_is_captures_508_bytes() -> None:
    data = avro.empty_file("a/b.avro")
    sync = data[474:490]
    assert data == CAPTURE_HEADER + sync + b"\x00\x00" + sync
    assert len(data) == 508
    assert list(fastavro.reader(io.BytesIO(data))) == []
    assert avro.empty_file("a/b.avro") == data and avro.empty_file("a/c.avro") != data


def test_a_record_holds_the_whole_event() -> None:
    (record,) = read(
        to_batch(
            [
                message(
                    7,
                    annotations={b"x-opt-partition-key": b"blue", b"iothub-device": b"d1", b"hops": 3},
                    properties=Properties(
                        message_id=UUID(int=2), content_type=b"text/plain", subject=b"s", group_sequence=4
                    ),
                    application_properties={b"n": 5, b"text": b"5", b"none": None},
                )
            ]
        )
    )
    assert record == {
        "SequenceNumber": 7,
        "Offset": "700",
        "EnqueuedTimeUtc": "11/16/2016 4:44:11 PM",
        "SystemProperties": {
            "x-opt-enqueued-time": 1_479_314_651_130,
            "x-opt-partition-key": "blue",
            "iothub-device": "d1",
            "hops": 3,
            "subject": "s",
            "group-sequence": 4,
            "message-id": "00000000-0000-0000-0000-000000000002",
            "content-type": "text/plain",
        },
        "Properties": {"n": 5, "text": "5", "none": None},
        "Body": b"body",
    }


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, None),
        (True, "true"),
        (-5, -5),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
        (2**64 - 1, "18446744073709551615"),
        (1.5, 1.5),
        (float("inf"), float("inf")),
        (3.0, 3.0),
        (b"5", "5"),
        ("é", "é"),
        (b"\xff\x00", b"\xff\x00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        ([1, b"a"], '[1,"a"]'),
        ({b"k": 1}, '{"k":1}'),
    ],
)
def test_every_type_of_a_property_is_stored_in_its_type(value: Any, stored: Any) -> None:
    (record,) = read(to_batch([message(1, application_properties={b"k": value}, annotations={b"a": value})]))
    found = record["Properties"]["k"]
    assert found == stored and type(found) is type(stored)
    assert record["SystemProperties"]["a"] == ("null" if stored is None else stored)


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_enqueued_times_read_back_to_the_second(time: datetime) -> None:
    text = avro.enqueued_time(int(time.replace(microsecond=0).timestamp()) * 1000 + 999)
    assert datetime.strptime(text, "%m/%d/%Y %I:%M:%S %p").replace(tzinfo=UTC) == time.replace(microsecond=0)
    assert "/0" not in text and not text.startswith("0") and " 0" not in text


properties = st.dictionaries(
    st.text(max_size=5),
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=9),
    max_size=4,
)


@given(st.lists(st.tuples(st.binary(max_size=50), properties), min_size=1, max_size=20), st.integers(0, 19))
def test_batches_survive_the_round_trip(events: list[tuple[bytes, dict[str, Any]]], cut: int) -> None:
    whole = to_batch(
        message(number, data=[body], application_properties=found) for number, (body, found) in enumerate(events)
    )
    cut = min(cut, len(events))
    records = read(*(batch for batch in (whole.head(cut), whole.after(cut - 1)) if len(batch)))
    assert [record["SequenceNumber"] for record in records] == list(range(len(events)))
    assert [(record["Body"], record["Properties"]) for record in records] == events


def test_batches_without_kinds_are_all_text() -> None:
    rows = rows_of([(1, b"x")])
    rows.properties.kinds.clear()
    assert read(EventBatch.of(rows))[0]["Properties"] == {"number": "1"}


def test_large_and_empty_bodies_are_stored_in_bounded_blocks() -> None:
    bodies = [bytes([number]) * 1024**2 for number in range(5)] + [b""] * 3
    batch = batch_of(enumerate(bodies))
    data = b"".join(avro.encode([batch], "0", {}))
    assert [record["Body"] for record in read(batch)] == bodies
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert [block.num_records for block in blocks] == [1, 1, 1, 1, 1, 3]


def test_equal_files_are_equal_bytes_and_others_differ_in_their_marker() -> None:
    batch = to_batch([message(1)])
    one, same, other = (b"".join(avro.encode([batch], "0", {"nonce": nonce})) for nonce in ("a", "a", "b"))
    assert one == same
    assert one[:474] == other[:474] and one[474:490] != other[474:490]
