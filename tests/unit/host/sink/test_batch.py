"""Batches of columns, against lists: parts, redelivered events, sizes; and the files that are made of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec.body_columns import schema_columns
from eventconsumer_api.wire.file_columns import of_bodies
from eventconsumer_host.sink.parquet import SCHEMA, encode
from eventconsumer_host.sink.row_chunks import groups
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.rows import EVENT_OVERHEAD_BYTES, EventRows, FlatMap, PropertyKind
from eventconsumer_host.source.schema import arrow_schema
from tests.support.fakes.hub import batch_of

Event = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

texts = st.text(max_size=6)
entries = st.dictionaries(texts, st.tuples(texts, st.sampled_from(list(PropertyKind))), max_size=3)
events = st.fixed_dictionaries(
    {
        "number": st.integers(0, 30),
        "offset": texts,
        "ms": st.integers(-(10**13), 10**13),
        "key": st.none() | texts,
        "body": st.binary(max_size=20),
        "properties": entries,
        "system": entries,
        "content_type": st.none() | texts,
        "message_id": st.none() | texts,
        "correlation_id": st.none() | texts,
    }
)


def flat(maps: list[dict[str, tuple[str, PropertyKind]]]) -> FlatMap:
    """Maps in a row."""
    found = FlatMap()
    for one in maps:
        found.keys += one
        found.values += [value for value, _ in one.values()]
        found.kinds += bytes(kind for _, kind in one.values())
        found.ends.append(len(found.keys))
    return found


def rows_of(found: list[Event]) -> EventRows:
    """The same as lists."""
    return EventRows(
        [event["number"] for event in found],
        [event["offset"] for event in found],
        [event["ms"] for event in found],
        [event["key"] for event in found],
        [event["body"] for event in found],
        flat([event["properties"] for event in found]),
        flat([event["system"] for event in found]),
        [event["content_type"] for event in found],
        [event["message_id"] for event in found],
        [event["correlation_id"] for event in found],
    )


def size_of(event: Event) -> int:
    """What an event counts."""
    texts = [event["key"] or "", *(part for name in ("properties", "system") for part in pairs(event[name]))]
    return EVENT_OVERHEAD_BYTES + len(event["body"]) + sum(len(text.encode()) for text in texts)


def pairs(entries: dict[str, tuple[str, PropertyKind]]) -> list[str]:
    """Keys and values."""
    return [part for key, (value, _) in entries.items() for part in (key, value)]


@given(st.lists(events, max_size=6), st.data())
def test_parts_are_parts_of_the_lists_and_share_their_memory(found: list[Event], data: st.DataObject) -> None:
    batch = EventBatch.of(rows_of(found))
    assert batch.rows() == rows_of(found)
    assert batch.sizes.tolist() == [size_of(event) for event in found]
    start = data.draw(st.integers(0, len(found)))
    stop = data.draw(st.integers(start, len(found)))
    part = batch.slice(start, stop)
    assert part.rows() == rows_of(found[start:stop])
    assert part.size == sum(map(size_of, found[start:stop]))
    if len(part):
        last = found[stop - 1]
        assert (part.first, part.last) == (found[start]["number"], last["number"])
        assert (part.last_offset, part.last_enqueued_ms) == (last["offset"], last["ms"])
    for whole, own in zip(batch.columns.columns, part.columns.columns, strict=True):
        assert [b and b.address for b in own.buffers()] == [b and b.address for b in whole.buffers()]
    count = data.draw(st.integers(0, 14))
    assert part.head(count).rows() == rows_of(found[start:stop][:count])
    assert EventBatch.joined([batch.slice(0, start), batch.slice(start, len(found))]).rows() == rows_of(found)


@given(st.lists(events, max_size=6), st.integers(-1, 31))
def test_redelivered_events_are_dropped_with_all_their_columns(found: list[Event], seen: int) -> None:
    expected: list[Event] = []
    for event in found:
        if not expected or event["number"] > expected[-1]["number"]:
            expected.append(event)
    fresh = EventBatch.of(rows_of(found)).rising()
    assert fresh.rows() == rows_of(expected)
    assert fresh.after(seen).rows() == rows_of([event for event in expected if event["number"] > seen])


@given(st.lists(st.lists(events, max_size=4), max_size=3), st.data())
def test_a_file_holds_the_same_as_lists_of_the_events(found: list[list[Event]], data: st.DataObject) -> None:
    """Batches are parts of others, as they are behind a file that was adopted."""
    cuts = [data.draw(st.integers(0, len(some))) for some in found]
    batches = [EventBatch.of(rows_of(some)).slice(cut, len(some)) for some, cut in zip(found, cuts, strict=True)]
    kept = [event for some, cut in zip(found, cuts, strict=True) for event in some[cut:]]
    table = pq.read_table(pa.BufferReader(b"".join(encode(batches, "3", {}))))
    assert table.schema.equals(SCHEMA)
    assert table.to_pylist() == [
        {
            "sequence_number": event["number"],
            "offset": event["offset"],
            "enqueued_time": EPOCH + timedelta(milliseconds=event["ms"]),
            "partition_key": event["key"],
            "partition_id": "3",
            "body": event["body"],
            "properties": [(key, value) for key, (value, _) in event["properties"].items()],
            "system_properties": [(key, value) for key, (value, _) in event["system"].items()],
            "content_type": event["content_type"],
            "message_id": event["message_id"],
            "correlation_id": event["correlation_id"],
        }
        for event in kept
    ]


COLUMNS_OF_BODIES = schema_columns(
    "n BIGINT, text STRING, at TIMESTAMP, day DATE, price DECIMAL(10, 2), ratio DOUBLE, ok BOOLEAN, "
    "items ARRAY<STRUCT<sku: STRING, qty: BIGINT>>, tags MAP<STRING, BIGINT>"
)


def typed(numbers: Sequence[int], distinct: bool = False) -> EventBatch:
    """Events whose typed columns are made of their numbers; each third has an error and no values."""
    batch = batch_of((number, b"x") for number in numbers)
    rows = [typed_row(number, distinct=distinct) for number in numbers]
    return batch.with_typed(pa.RecordBatch.from_pylist(rows, arrow_schema(of_bodies(COLUMNS_OF_BODIES))))


def typed_row(number: int, *, distinct: bool = False) -> dict[str, Any]:
    """The typed columns of an event."""
    if number % 3 == 0:
        return {**{each.name: None for each in COLUMNS_OF_BODIES}, "_error": f"no {number}"}
    return {
        "n": number,
        "text": f"t{number if distinct else number % 2}",
        "at": EPOCH + timedelta(microseconds=number),
        "day": EPOCH.date() + timedelta(days=number),
        "price": Decimal(number) / 100,
        "ratio": number / 7,
        "ok": number % 2 == 0,
        "items": [{"sku": f"s{number}" if distinct else "s", "qty": number}] * (number % 4),
        "tags": [("k", number)],
        "_error": None,
    }


cuts = st.sampled_from(["after", "head", "take", "slice", "rising", "noting"])


@given(st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=8), min_size=1, max_size=4), st.data())
def test_typed_columns_stay_with_their_events(found: list[set[int]], data: st.DataObject) -> None:
    batch = EventBatch.joined([typed(sorted(numbers)) for numbers in found])
    for cut in data.draw(st.lists(cuts, max_size=4)):
        at = data.draw(st.integers(0, len(batch)))
        match cut:
            case "after":
                batch = batch.rising().after(at)
            case "head":
                batch = batch.head(at)
            case "take":
                batch = batch.take(range(at, len(batch), 2))
            case "slice":
                batch = batch.slice(at, len(batch))
            case "rising":
                batch = batch.rising()
            case _:
                batch = batch.noting(None)
    assert batch.typed is not None
    assert batch.typed.to_pylist() == [typed_row(number) for number in batch.numbers.tolist()]
    assert batch.typed_bytes == batch.typed.nbytes
    stretches = [part for group in groups([batch], 200) for part in group]
    assert [row for part in stretches if part.typed for row in part.typed.to_pylist()] == batch.typed.to_pylist()


def test_batches_with_and_without_typed_columns_are_never_joined() -> None:
    with pytest.raises(AssertionError):
        EventBatch.joined([typed([1]), batch_of([(2, b"x")])])
    with pytest.raises(AssertionError):
        batch_of([(2, b"x")]).with_typed(typed([1, 2]).typed)


@pytest.mark.parametrize("distinct", [True, False])
def test_a_file_has_the_typed_columns_behind_those_of_each_file(distinct: bool) -> None:
    batch = typed(range(1, 200), distinct)
    batches = [batch.slice(0, 50), batch.slice(50, 199)]
    data = b"".join(encode(batches, "3", {}, COLUMNS_OF_BODIES))
    assert data == b"".join(encode(batches, "3", {}, COLUMNS_OF_BODIES))
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.schema_arrow.equals(pa.schema([*SCHEMA, *arrow_schema(of_bodies(COLUMNS_OF_BODIES))]))
    names = [each.name for each in of_bodies(COLUMNS_OF_BODIES)]
    assert file.read(names).to_pylist() == [typed_row(number, distinct=distinct) for number in range(1, 200)]
    group = file.metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    encodings = {each.path_in_schema: set(each.encodings) for each in columns}
    assert {path for path, found in encodings.items() if "DELTA_BINARY_PACKED" in found} == {"sequence_number"}
    dictionaries = {path for path, found in encodings.items() if "RLE_DICTIONARY" in found}
    repeated = {"text", "items.list.element.sku"}
    assert dictionaries & repeated == (set() if distinct else repeated)
    assert "tags.key_value.key" in dictionaries
    assert not {"ratio", "price", "body", "offset"} & dictionaries
    assert {each for found in encodings.values() for each in found} <= {
        *("PLAIN", "RLE", "RLE_DICTIONARY", "DELTA_BINARY_PACKED")
    }
    unbounded = {each.path_in_schema.partition(".")[0] for each in columns if not each.is_stats_set}
    assert {"body", "properties", "system_properties"} <= unbounded
    assert not {"sequence_number", "enqueued_time", "partition_key", "n", "price", "ratio", "items"} & unbounded


def test_a_file_without_events_may_have_typed_columns() -> None:
    file = pq.ParquetFile(pa.BufferReader(b"".join(encode([], "3", {}, COLUMNS_OF_BODIES))))
    assert file.metadata.num_rows == 0
    assert file.schema_arrow.names[-1] == "_error"


def test_stretches_share_the_memory_of_their_batch() -> None:
    batch = batch_of((number, bytes(100)) for number in range(10))
    body = batch.columns.column("body").buffers()[2].address
    stretches = [stretch for group in groups([batch], 500) for stretch in group]
    assert len(stretches) > 1
    assert {stretch.columns.column("body").buffers()[2].address for stretch in stretches} == {body}
