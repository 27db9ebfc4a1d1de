"""The record of columns: only added to, by many hosts at once; a name has one type for ever."""

import asyncio
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.column_types import DeltaType, parse_type
from eventconsumer_api.spec.json_columns import TimeForm
from eventconsumer_api.wire.columns_record import ColumnsOfFile, ColumnsRecord, columns_name
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES
from eventconsumer_host.body.record import _FULL, NO_COLUMNS, RefusedColumn, enter, merged, read
from eventconsumer_storage.errors import Damaged
from tests.support.fakes.blobs import FakeBlobStore

TYPES = ("string", "long", {"type": "array", "elementType": "long", "containsNull": True})
specs = st.lists(
    st.builds(
        BodyColumn,
        st.sampled_from("aAbcd"),
        st.sampled_from(TYPES),
        st.sampled_from((("a",), ("b", "c d"))),
        st.sampled_from(TimeForm),
    ),
    max_size=4,
)


def column(name: str, kind: str = "long") -> BodyColumn:
    return BodyColumn(name, kind, (name,))


@given(st.lists(specs, max_size=6))
def test_columns_are_only_added_and_keep_their_types(history: list[list[BodyColumn]]) -> None:
    record = ColumnsRecord(columns=[])
    files: list[tuple[ColumnsOfFile, list[tuple[str, DeltaType]]]] = []
    meanings: dict[str, tuple[object, ...]] = {}
    for spec in history:
        after, entered = merged(record, spec)
        assert after.columns[: len(record.columns)] == record.columns
        assert len(entered.columns) + len(entered.refused) == len(spec)
        assert merged(after, spec) == (after, entered)
        for each in entered.columns:
            assert meanings.setdefault(each.name, (each.type, each.path, each.form)) == (
                each.type,
                each.path,
                each.form,
            )
        if entered.of_file:
            files.append((entered.of_file, [(each.name, each.type) for each in entered.columns]))
        record = after
        names = [each.name.lower() for each in record.columns]
        assert len(set(names)) == len(names)
    for of_file, expected in files:
        read_again = ColumnsOfFile.parse(str(of_file))
        assert read_again == of_file
        assert [(each.name, parse_type(each.type)) for each in read_again.among(record) or ()] == expected


def test_a_name_that_is_taken_is_refused() -> None:
    record, _ = merged(ColumnsRecord(columns=[]), [column("cents"), column("order", "string")])
    _, entered = merged(record, [column("cents", "string"), column("Order", "string"), column("body"), column("new")])
    assert [each.name for each in entered.columns] == ["new"]
    assert entered.refused == (
        RefusedColumn(column("cents", "string"), "files have cents BIGINT"),
        RefusedColumn(column("Order", "string"), "files have order STRING"),
        RefusedColumn(column("body"), "each file has a column of this name"),
    )
    price = BodyColumn("cents", "long", ("price", "cents"))
    assert merged(record, [price])[1].refused == (RefusedColumn(price, "files have cents BIGINT"),)
    record, _ = merged(ColumnsRecord(columns=[]), [price, BodyColumn("at", "timestamp", ("at",), TimeForm.MILLIS)])
    assert [each.cause for each in merged(record, [column("cents"), column("at", "timestamp")])[1].refused] == [
        "files have cents BIGINT of $.price.cents",
        "files have at TIMESTAMP from EpochMillis",
    ]


def test_a_record_that_is_full_takes_no_column_more() -> None:
    long = [column(f"c{number}" + "x" * 120, "decimal(38,18)") for number in range(9_000)]
    record, entered = merged(ColumnsRecord(columns=[]), long)
    assert 5_000 < len(entered.columns) < 9_000 and {each.cause for each in entered.refused} == {_FULL}
    assert len(record.to_json().encode()) <= RECORD_MAX_BYTES


def test_a_file_of_another_record_is_recognised() -> None:
    record, entered = merged(ColumnsRecord(columns=[]), [column("a"), column("b")])
    assert entered.of_file is not None
    assert str(entered.of_file).startswith("0-1/")
    again, _ = merged(ColumnsRecord(columns=[]), [column("b"), column("a")])
    assert entered.of_file.among(again) is None
    assert entered.of_file.among(ColumnsRecord(columns=record.columns[:1])) is None


@pytest.mark.parametrize(
    "text", ["", "0", "0-1", "/0123456789abcdef", "1-0/0123456789abcdef", "0-99999/0123456789abcdef"]
)
def test_columns_of_a_file_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the columns"):
        ColumnsOfFile.parse(text)
    with pytest.raises(ValueError, match="too many"):
        ColumnsOfFile.parse(",".join(["0-9999"] * 500) + "/0123456789abcdef")


async def test_hosts_that_start_together_add_each_column_once() -> None:
    store = FakeBlobStore(lambda: 0.0)
    specs = [[column("a"), column(f"own{number}")] for number in range(8)]
    found = await asyncio.gather(*(enter(store, "p", spec) for spec in specs))
    record, _ = await read(store, "p")
    assert sorted(each.name for each in record.columns) == sorted({"a", *(f"own{number}" for number in range(8))})
    for spec, entered in zip(specs, found, strict=True):
        assert entered.of_file is not None
        assert [each.name for each in entered.of_file.among(record) or ()] == [each.name for each in spec]


async def test_a_host_without_columns_sends_no_request() -> None:
    store = FakeBlobStore(lambda: 0.0)
    assert await enter(store, "p", ()) is NO_COLUMNS
    assert not list(islice(store.blobs, 1))


async def test_a_record_that_cannot_be_read_is_a_fault() -> None:
    store = FakeBlobStore(lambda: 0.0)
    await store.put(columns_name("p"), b"{")
    with pytest.raises(Damaged, match=r"p/_columns\.json"):
        await enter(store, "p", [column("a")])
