"""Columns of bodies: every reader has each value as the body has it, in files and in the table of hosts.

Files are written by the host's own parser, encoder, chain and table, without a hub: the first has most columns; the
second has some more; the third has lost one, as has the configuration of its host; the fourth has the encodings of
many values.
"""

import asyncio
import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastparquet
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from eventconsumer_api.spec.body_columns import schema_columns
from tests.outsiders.readers import LOCAL, ReadableContainer, duck_rows, duck_with
from tests.outsiders.stage import Row, utc
from tests.outsiders.test_delta import read_datafusion, read_deltalake, read_duckdb, read_polars
from tests.support.azurite import AzuriteProcess
from tests.unit.host.leader.test_table import Table, dumped

FIRST = (
    "text STRING, flag BOOLEAN, number BIGINT, ratio DOUBLE, wide DECIMAL(38, 18), price DECIMAL(10, 2), "
    "tax DECIMAL(4, 1), day DATE, at TIMESTAMP, items ARRAY<STRUCT<sku: STRING, qty: BIGINT>>, "
    "place STRUCT<city: STRING, zip: BIGINT>, marks MAP<STRING, BIGINT>"
)
ADDED = f"{FIRST}, late BIGINT, tree MAP<STRING, ARRAY<STRUCT<at: TIMESTAMP, paid: DECIMAL(38, 0)>>>"
REMOVED = ADDED.replace("flag BOOLEAN, ", "")
NAMES = [each.name for each in schema_columns(ADDED)]
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)

GOOD: list[dict[str, Any]] = [
    {},
    {"text": "", "flag": False, "number": -(2**63), "ratio": -0.0, "wide": Decimal("-0." + "0" * 17 + "1")},
    {"text": "ä\0\n😀\uffff", "flag": True, "number": 2**63 - 1, "ratio": 5e-324, "wide": Decimal("9" * 20 + ".1")},
    {"number": 2**53 + 1, "ratio": 1.7976931348623157e308, "wide": Decimal("9" * 20 + "." + "9" * 18)},
    {"ratio": -1.7976931348623157e308, "price": Decimal("99999999.99"), "tax": Decimal("999.9")},
    {"tax": Decimal("-999.9"), "day": date(1, 1, 1)},
    {"price": Decimal("-99999999.99"), "day": date(9999, 12, 31), "at": datetime(1, 1, 1, 0, 0, 0, 1, UTC)},
    {"price": Decimal("0.10"), "day": date(1969, 12, 31), "at": LAST, "items": [], "marks": {}},
    {"at": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), "items": [{"sku": "", "qty": -1}, None, {"sku": None}]},
    {"day": date(1582, 10, 10), "at": datetime(1582, 10, 10, 1, 2, 3, 4, UTC), "place": {"city": None, "zip": None}},
    {"place": {"city": "Łódź", "zip": 2**63 - 1}, "marks": {"": 1, "ä b": None, "x": -(2**63)}},
    {"items": [{"sku": "a", "qty": 2**53 + 1}] * 3, "place": {"zip": 0}, "marks": {"k" * 300: 0}},
]
LATE: list[dict[str, Any]] = [
    {"late": -1, "tree": {"a": [{"at": LAST, "paid": Decimal("9" * 38)}, None], "b": [], "c": None}},
    {"flag": True, "text": "x" * 5_000},
]
MANY: list[dict[str, Any]] = [
    {
        "text": f"ord-{number}",
        "number": number % 3,
        "ratio": number / 7,
        "wide": Decimal(number) / 8,
        "price": Decimal(number * number) / 100,
        "tax": Decimal(number) / 10,
        "day": date(2026, 1, 1 + number % 4),
        "at": datetime(2026, 1, 1, 0, 0, number % 60, number, UTC),
        "items": [{"sku": f"{number}-{each}", "qty": each} for each in range(number % 5)],
        "place": {"city": f"city of {number % 9}", "zip": number**3} if number % 7 else None,
        "marks": {f"k{number}": -number},
        "late": number % 2,
        "tree": {"a": [{"at": LAST, "paid": Decimal(number)}] * (number % 3)},
    }
    for number in range(300)
]
BAD = {
    b'{"number": 1.5, "text": "kept"}': "column number: BIGINT has no exact value for this number",
    b'{"ratio": 1e400, "flag": 1, "text": "kept"}': "column flag: BOOLEAN has no exact value for this number; "
    "column ratio: DOUBLE has no exact value for this number",
    b'{"price": 0.001, "text": "kept"}': "column price: DECIMAL(10,2) has no exact value for this number",
    b'{"day": "10000-01-01", "text": "kept"}': "column day: DATE has no exact value for this string",
    b'{"items": [{"qty": "1"}], "text": "kept"}': "",
    b"\xff": "the body is not UTF-8",
}
"""Body -> its error; empty: some error."""


def _json(row: dict[str, Any]) -> bytes:
    """A body with these values. Decimals are strings, as Python's `json` cannot write them as numbers."""

    def other(value: Any) -> str:
        return f"{value:f}" if isinstance(value, Decimal) else str(value.isoformat())

    return json.dumps(row, default=other, ensure_ascii=False).encode()


FILES = [(FIRST, [*map(_json, GOOD), *BAD]), (ADDED, list(map(_json, LATE))), (REMOVED, list(map(_json, LATE)))]
FILES.append((ADDED, list(map(_json, MANY))))


def _bits(value: Any) -> Any:
    """A value as it is compared: -0.0 is not 0.0; times are UTC; a struct has all of its fields, a map is a dict."""
    match value:
        case float():
            return "NaN" if value != value else struct.pack("<d", value)
        case datetime():
            return utc(value)
        case dict():
            return {key: _bits(each) for key, each in value.items()}
        case list():
            return [_bits(each) for each in value]
    return value


def _struct(value: Row | None, *names: str) -> Row | None:
    return None if value is None else {name: value.get(name) for name in names}


def _whole(row: Row) -> Row:
    """All columns of a row, with all fields of structs."""
    row = {name: row.get(name) for name in NAMES}
    if row["ratio"] is not None:
        row["ratio"] += 0.0  # -0 is 0
    row["place"] = _struct(row["place"], "city", "zip")
    if row["items"] is not None:
        row["items"] = [_struct(each, "sku", "qty") for each in row["items"]]
    return {name: _bits(value) for name, value in row.items()}


def _map(value: Any) -> Any:
    """A map, which some readers have as a list of its entries."""
    if isinstance(value, list):
        return dict((each["key"], each["value"]) if isinstance(each, dict) else tuple(each) for each in value)
    return value


def values(rows: list[Row]) -> list[Row]:
    """The columns of bodies in a reader's rows, in order of their numbers."""
    found = []
    for row in sorted(rows, key=lambda each: each["sequence_number"]):
        plain = {name: _plain(row.get(name)) for name in NAMES}
        plain |= {"marks": _map(plain["marks"]), "tree": _map(plain["tree"])}
        found.append({name: _bits(value) for name, value in plain.items()})
    return found


def _plain(value: Any) -> Any:
    """Values of pandas as Python's."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    return value.as_py() if hasattr(value, "as_py") else value


def expected(*numbers: int) -> list[Row]:
    """What files have, by their numbers."""
    rows = []
    for number in numbers:
        good = (GOOD, LATE, LATE, MANY)[number]
        gone = {"flag"} if number == 2 else set()
        rows += [{name: value for name, value in row.items() if name not in gone} for row in good]
        rows += [{} if body == b"\xff" else {"text": "kept"} for body in (BAD if number == 0 else ())]
    return [_whole(row) for row in rows]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The table in the folder `p`, and each file alone in the folders 0 to 3."""
    root = tmp_path_factory.mktemp("typed")

    async def write() -> None:
        table = Table()
        for columns, bodies in FILES:
            await table.write_typed("0", schema_columns(columns), bodies)
            await table.committer().advance(["0"])
        dumped(table.store, root)

    asyncio.run(write())
    found = sorted((root / "p").rglob("*.parquet"), key=lambda file: pq.read_table(file)["sequence_number"][0].as_py())
    assert len(found) == len(FILES)
    for number, file in enumerate(found):
        (root / str(number)).mkdir()
        (root / str(number) / file.name).write_bytes(file.read_bytes())
    yield root


def test_errors_are_in_their_rows(typed: Path) -> None:
    rows = pq.read_table(typed / "0").sort_by("sequence_number").to_pylist()
    found = [row["_error"] for row in rows]
    assert found[: len(GOOD)] == [None] * len(GOOD)
    for error, wanted in zip(found[len(GOOD) :], BAD.values(), strict=True):
        assert error and (wanted in {"", error})


def test_columns_of_bodies_have_the_encodings_that_each_reader_knows(typed: Path) -> None:
    (file,) = (typed / "3").glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    found = {(each := group.column(index)).path_in_schema: each.encodings for index in range(group.num_columns)}
    of_bodies = {path: encodings for path, encodings in found.items() if path.partition(".")[0] in {*NAMES, "_error"}}
    assert {each for encodings in of_bodies.values() for each in encodings} == {"PLAIN", "RLE", "RLE_DICTIONARY"}
    assert "RLE_DICTIONARY" in found["place.city"] and "RLE_DICTIONARY" not in found["items.list.element.sku"]


def read_pandas(place: ReadableContainer, path: str) -> list[Row]:
    """With Arrow's types, as docs/concepts/columns.md says."""
    frame = pd.read_parquet(place.url(path), dtype_backend="pyarrow")
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


FILE_READERS = {name: LOCAL[name] for name in ("pyarrow", "polars", "duckdb", "datafusion", "daft")} | {
    "pandas": read_pandas
}


@pytest.mark.parametrize("number", [0, 1, 2, 3])
@pytest.mark.parametrize("reader", FILE_READERS)
def test_each_file_has_the_values_of_its_bodies(typed: Path, azurite: AzuriteProcess, reader: str, number: int) -> None:
    assert values(FILE_READERS[reader](ReadableContainer(typed.name, typed.parent, azurite), str(number))) == expected(
        number
    )


def union_pyarrow(root: str, spark: SparkSession) -> list[Row]:
    files = [str(file) for file in Path(root).rglob("*.parquet")]
    fields = pa.unify_schemas([pq.read_schema(file) for file in files])
    found: list[Row] = ds.dataset(files, fields).to_table().to_pylist()
    return found


def union_polars(root: str, spark: SparkSession) -> list[Row]:
    files = [pl.scan_parquet(file) for file in Path(root).rglob("*.parquet")]
    return pl.concat(files, how="diagonal").collect().to_dicts()


def union_duckdb(root: str, spark: SparkSession) -> list[Row]:
    with duck_with() as made:
        return duck_rows(made.read_parquet(f"{root}/**/*.parquet", union_by_name=True))


def union_spark(root: str, spark: SparkSession) -> list[Row]:
    return spark_rows(spark.read.option("mergeSchema", "true").parquet(root))


def spark_rows(found: DataFrame) -> list[Row]:
    rows: list[Row] = found.toArrow().to_pylist()
    return rows


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("read", [union_pyarrow, union_polars, union_duckdb, union_spark])
def test_files_of_several_specs_are_read_together(
    typed: Path, session: SparkSession, read: Callable[[str, SparkSession], list[Row]]
) -> None:
    assert values(read(str(typed / "p"), session)) == expected(0, 1, 2, 3)


def table_pandas(place: ReadableContainer, path: str) -> list[Row]:
    frame = DeltaTable(place.url(path)).to_pandas(types_mapper=pd.ArrowDtype)
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


@pytest.mark.parametrize("read", [read_deltalake, read_polars, read_duckdb, read_datafusion, table_pandas])
def test_the_table_has_the_values_of_all_files(
    typed: Path, azurite: AzuriteProcess, read: Callable[[ReadableContainer, str], list[Row]]
) -> None:
    assert values(read(ReadableContainer(typed.name, typed.parent, azurite), "p")) == expected(0, 1, 2, 3)


@pytest.mark.usefixtures("sockets")
def test_spark_reads_the_table(typed: Path, session: SparkSession) -> None:
    found = session.read.format("delta").load(str(typed / "p"))
    assert values(spark_rows(found)) == expected(0, 1, 2, 3)
    assert found.where("_error IS NOT NULL").count() == len(BAD)


def test_where_readers_show_something_else(typed: Path) -> None:
    """What docs/concepts/columns.md says of them; a reader that is better now fails here."""
    frame = pd.read_parquet(typed / "0").sort_values("sequence_number")
    assert frame["number"].dtype == "float64" and frame["number"].max() == 2.0**63
    assert LOCAL["pyiceberg"](ReadableContainer(typed.name, typed.parent, None), "0")[0]["items"] == []  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [0, 3])
def test_fastparquet_reads_columns_of_one_value(typed: Path, number: int) -> None:
    """It shows a DECIMAL as a binary number, and a DATE as a time of 64 bits in nanoseconds."""
    (file,) = (typed / str(number)).glob("*.parquet")
    names = ["text", "flag", "number", "at"]
    with file.open("rb") as content:
        frame = fastparquet.ParquetFile(content).to_pandas(columns=["sequence_number", *names])
    rows = frame.astype(object).sort_values("sequence_number").to_dict("records")
    found = [{name: _time(_plain(row[name])) for name in names} for row in rows]
    assert found == [{name: row[name] for name in names} for row in expected(number)]


def _time(value: Any) -> Any:
    return _bits(value.to_pydatetime().replace(tzinfo=UTC) if isinstance(value, pd.Timestamp) else value)
