"""The verifier of a campaign finds what is missing, there twice, or was never sent."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.chaos import orders
from tests.chaos.verifier import Events, File, Verdict, compare, read_delta, read_file

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def rows(*ids: int) -> pa.Table:
    """Events with these ids, which arrived a second after the other."""
    times = [NOON + timedelta(seconds=number) for number, _ in enumerate(ids)]
    found = {
        "body": pa.array(map(orders.body, ids), pa.binary()),
        "enqueued_time": pa.array(times, pa.timestamp("us", "UTC")),
    }
    columns = zip(*map(orders.values, ids), strict=True) if ids else [[] for _ in orders.NAMES]
    kinds = [pa.int64(), pa.decimal128(12, 2), pa.timestamp("us", "UTC"), pa.list_(pa.string()), pa.string()]
    for name, values, kind in zip(orders.NAMES, columns, kinds, strict=True):
        typed = ["wrong" if value else None for value in values] if name == "_error" else [*values]
        found[name] = pa.array(typed, kind)
    return pa.table(found)


def here(*ids: int) -> Events:
    """The events of these ids, without a wrong value."""
    return Events([*map(orders.body, ids)], [])


def file(*ids: int) -> File:
    """A drained file, created a minute after the first event."""
    content = io.BytesIO()
    pq.write_table(rows(*ids), content)
    return File("a/segment=0/partition=0/from=0.parquet", NOON + timedelta(minutes=1), content.getvalue())


def test_each_difference_is_counted() -> None:
    sent, uncertain = {1, 2, 3}, {7, 8}
    assert compare("x", here(3, 1, 2), sent, uncertain).is_clean
    assert compare("x", here(3, 1, 2, 8), sent, uncertain).is_clean
    for events, expected in (
        (here(1, 2), Verdict("x", 2, missing=1, twice=0, unknown=0, examples="missing: 3")),
        (here(1, 2, 3, 3), Verdict("x", 4, missing=0, twice=1, unknown=0, examples="twice: 3")),
        (here(1, 2, 3, 8, 8), Verdict("x", 5, missing=0, twice=1, unknown=0, examples="twice: 8")),
        (here(1, 2, 3, 9), Verdict("x", 4, missing=0, twice=0, unknown=1, examples="never sent: 9")),
        (here(1, 1, 9), Verdict("x", 3, 2, 1, 1, examples="missing: 2, 3; twice: 1; never sent: 9")),
    ):
        found = compare("x", events, sent, uncertain)
        assert found == expected and not found.is_clean


def test_the_first_ids_are_named() -> None:
    assert compare("x", here(), {*range(12)}, set()).examples == "missing: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 …"


def test_files_are_read_with_the_age_of_their_oldest_event() -> None:
    filed = [read_file(file(0, 1, 2)), read_file(file(2, 4, 5))]
    assert [each.seconds for each in filed] == [60, 60]
    found = compare("files", filed[0].events + filed[1].events, {*range(6)}, set())
    assert found == Verdict("files", 6, missing=1, twice=1, unknown=0, examples="missing: 3; twice: 2")


def test_a_file_without_events_is_read() -> None:
    assert read_file(file(), typed=True).events == here()


def test_a_table_is_read_as_it_is_now(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(9))
    write_deltalake(tmp_path, rows(0, 1, 2), mode="overwrite")
    write_deltalake(tmp_path, rows(2, 4), mode="append")
    found = compare("table", read_delta(str(tmp_path), {}, typed=True), {*range(5)}, set())
    assert found == Verdict("table", 5, missing=1, twice=1, unknown=0, examples="missing: 3; twice: 2")


def test_a_wrong_value_is_counted() -> None:
    numbers = range(orders.PERIOD)
    assert read_file(file(*numbers), typed=True).events.wrong == []
    for at, name in enumerate(orders.NAMES):
        table = rows(*numbers)
        column = table.schema.field(name)
        values = table[name].to_pylist()
        table = table.set_column(2 + at, column, pa.array(values[-1:] + values[:-1], column.type))
        content = io.BytesIO()
        pq.write_table(table, content)
        events = read_file(File("a", NOON, content.getvalue()), typed=True).events
        assert events.wrong, name
        found = compare("files", events, {*numbers}, set())
        assert not found.is_clean and found.wrong == len(events.wrong), at


def test_a_file_without_the_columns_is_an_error() -> None:
    content = io.BytesIO()
    pq.write_table(rows(1).drop_columns(["amount"]), content)
    with pytest.raises(pa.ArrowInvalid, match="amount"):
        read_file(File("a", NOON, content.getvalue()), typed=True)
