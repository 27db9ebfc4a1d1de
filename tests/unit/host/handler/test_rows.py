"""What a handler may return in mode Transform, what becomes of it, and what is refused with which remedy."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_host.handler.rows import InvalidRows, rows_of
from eventconsumer_host.sink import avro, parquet
from eventconsumer_host.source.batch import COLUMNS, EventBatch, sizes_of
from eventconsumer_host.source.rows import EventRows, FlatMap, PropertyKind
from tests.support.fakes.hub import batch_of

PAIRS = pa.map_(pa.string(), pa.string())
TRANSFORM = HandlerMode.TRANSFORM


def events() -> EventBatch:
    """Three events with properties of several kinds."""
    kinds = bytearray([PropertyKind.TEXT, PropertyKind.INTEGER, PropertyKind.INTEGER])
    properties = FlatMap([2, 2, 3], ["source", "version", "version"], ["app", "5", "6"], kinds)
    system = FlatMap([0, 1, 1], ["user-id"], ["ann"], bytearray([PropertyKind.TEXT]))
    return EventBatch.of(
        EventRows(
            [10, 12, 13],
            ["a", "b", "c"],
            [1000, 2000, 3000],
            ["k", None, "k"],
            [b"one", None, b""],
            properties,
            system,
            ["json", None, None],
            [None, "m", None],
            [None, None, "c"],
        )
    )


def kept(batch: EventBatch, table: pa.Table) -> EventBatch:
    rows = rows_of(table, batch, TRANSFORM)
    assert rows is not None
    return rows


def numbers(*values: int) -> pa.Array:
    return pa.array(values, pa.int64())


def test_columns_of_the_table_replace_those_of_the_events_and_the_others_stay() -> None:
    table = pa.table({"sequence_number": numbers(10, 13), "body": ["masked", None], "content_type": ["text", "text"]})
    found = kept(events(), table)
    assert found.columns.schema == COLUMNS
    rows = found.rows()
    assert (rows.sequence_numbers, rows.offsets, rows.enqueued_ms) == ([10, 13], ["a", "c"], [1000, 3000])
    assert (rows.bodies, rows.content_types) == ([b"masked", None], ["text", "text"])
    assert (rows.partition_keys, rows.correlation_ids) == (["k", "k"], [None, "c"])
    assert [rows.properties.entries(row) for row in (0, 1)] == [{"source": "app", "version": "5"}, {"version": "6"}]
    assert found.sizes.tolist() == sizes_of(found.columns).to_pylist()


def test_properties_keep_their_kind_where_name_and_value_stay() -> None:
    """So integers stay integers in Avro files."""
    pairs = [[("version", "5"), ("source", "web")], [("version", "7")]]
    table = pa.table({"sequence_number": numbers(10, 13), "properties": pa.array(pairs, PAIRS)})
    found = kept(events(), table)
    assert found.columns.column("property_kinds").to_pylist() == [
        [PropertyKind.INTEGER, PropertyKind.TEXT],
        [PropertyKind.TEXT],
    ]
    same = kept(events(), pa.table({"sequence_number": numbers(10, 12, 13), "properties": events().columns[5]}))
    assert same.columns.equals(events().columns)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"sequence_number": [], "body": [], "properties": []}),
        pa.table({"sequence_number": numbers()}),
        pa.RecordBatch.from_arrays([numbers()], ["sequence_number"]),
    ],
)
def test_all_events_may_be_dropped_and_files_may_be_empty(table: pa.Table) -> None:
    found = kept(events(), table)
    assert (len(found), found.columns.schema) == (0, COLUMNS)
    for encode in (parquet.encode, avro.encode):
        assert b"".join(encode([], "0", {"first": "0"}))


@given(st.sets(st.integers(0, 60), min_size=1), st.data())
def test_any_part_of_a_batch_in_any_chunks_is_kept_and_nothing_larger_stays_in_memory(
    present: set[int], data: st.DataObject
) -> None:
    given_numbers = sorted(present)
    wanted = sorted(data.draw(st.sets(st.sampled_from(given_numbers))))
    source = batch_of((number, b"x") for number in [-5, *given_numbers, 99]).after(-5).head(len(given_numbers))
    whole = pa.table({"sequence_number": numbers(-1, *wanted), "body": [bytes(100_000), *[b"y%d" % n for n in wanted]]})
    cut = data.draw(st.integers(0, len(wanted)))
    table = pa.concat_tables([whole.slice(1, cut), whole.slice(1 + cut)])
    found = kept(source, table)
    assert found.numbers.tolist() == wanted
    assert found.rows().bodies == [b"y%d" % number for number in wanted]
    assert found.rows().offsets == [str(number * 10) for number in wanted]
    assert found.columns.get_total_buffer_size() < 50_000


@pytest.mark.parametrize(
    ("column", "values", "first"),
    [
        ("body", pa.array(["text", None], pa.large_string()), b"text"),
        ("body", pa.array([b"text", None], pa.large_binary()), b"text"),
        ("body", pa.array(["text", None], pa.string_view()), b"text"),
        ("message_id", pa.array(["text", None], pa.large_string()), "text"),
        ("message_id", pa.nulls(2), None),
    ],
)
def test_other_types_of_text_and_bytes_are_converted(column: str, values: pa.Array, first: object) -> None:
    found = kept(events(), pa.table({"sequence_number": numbers(10, 12), column: values}))
    assert found.columns.column(column).type == COLUMNS.field(column).type
    assert found.columns.column(column).to_pylist() == [first, None]


BROKEN = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xff")]
)


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        (None, "returned None, but processing.handlerMode is Transform: return a pyarrow.Table with the rows to keep"),
        ([10], "returned a list, but"),
        (pa.table({"body": [b"x"]}), "has no column sequence_number, which names the event of each row: add it"),
        (
            pa.table([numbers(10), [b"x"], [b"y"]], names=["sequence_number", "body", "body"]),
            "has column body 2 times: rename or remove one",
        ),
        (
            pa.table({"sequence_number": numbers(10), "offset": ["a"]}),
            "column offset of a row is always that of its event: remove it",
        ),
        (
            pa.table({"sequence_number": numbers(10), "email": ["a"]}),
            "files have no column email: remove it from the returned table, or put its values into body or properties",
        ),
        (
            pa.table({"sequence_number": ["10"]}),
            r"sequence_number must have the type int64, but has string: build it with pa.array\(numbers, pa.int64",
        ),
        (pa.table({"sequence_number": pa.array([10, None], pa.int64())}), "column sequence_number has a null"),
        (pa.table({"sequence_number": numbers(12, 10)}), "10 follows 12: return at most one row for each event"),
        (pa.table({"sequence_number": numbers(10, 10)}), "10 follows 10: return at most one row for each event"),
        (pa.table({"sequence_number": numbers(10, 11)}), "has 11, but no event of the batch has this number"),
        (pa.table({"sequence_number": numbers(10, 14)}), "has 14, but no event of the batch has this number"),
        (pa.table({"sequence_number": numbers(9)}), "has 9, but no event of the batch has this number"),
        (
            pa.table({"sequence_number": numbers(10), "body": [1]}),
            r"column body must have the type binary, but has int64: build it with pa.array\(values, pa.binary\(\)\)",
        ),
        (
            pa.table({"sequence_number": numbers(10), "properties": [{"a": "b"}]}),
            r"column properties must have the type map<string, string>, but has struct<a: string>: build it with",
        ),
        (
            pa.table({"sequence_number": numbers(10), "properties": pa.nulls(1, PAIRS)}),
            "column properties has a null: use an empty map",
        ),
        (
            pa.table({"sequence_number": numbers(10), "properties": pa.array([[("a", None)]], PAIRS)}),
            "column properties has a null: use an empty map",
        ),
        (
            pa.table({"sequence_number": numbers(10), "message_id": BROKEN}),
            "the returned table is not valid: .*UTF",
        ),
    ],
)
def test_what_cannot_go_to_a_file_is_refused_with_cause_and_remedy(result: Any, cause: str) -> None:
    with pytest.raises(InvalidRows, match=cause):
        rows_of(result, events(), TRANSFORM)


@pytest.mark.parametrize("mode", [HandlerMode.PASS_THROUGH, HandlerMode.REPLACE])
def test_rows_in_another_mode_are_refused_and_all_else_is_ignored(mode: HandlerMode) -> None:
    with pytest.raises(InvalidRows, match=f"processing.handlerMode is {mode}: set it to Transform, or return nothing"):
        rows_of(pa.table({"sequence_number": numbers(10)}), events(), mode)
    assert rows_of(None, events(), mode) is rows_of(3, events(), mode) is None
