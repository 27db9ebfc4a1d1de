"""Delta: the table that hosts write over the drained files, and the table of the shipped Spark program.

daft 0.6 cannot use the pinned `deltalake`, which it reads tables with.
"""

from collections.abc import Callable

import datafusion
import polars as pl
import pytest
from deltalake import DeltaTable

from tests.outsiders.readers import ReadableContainer, duck, duck_rows, in_order, normal, place, texts
from tests.outsiders.stage import NO_TEXT, PREFIX, OutsiderStage, Row


def read_deltalake(place: ReadableContainer, path: str) -> list[Row]:
    found: list[Row] = DeltaTable(place.url(path), storage_options=place.options).to_pyarrow_table().to_pylist()
    return found


def read_pandas(place: ReadableContainer, path: str) -> list[Row]:
    frame = DeltaTable(place.url(path), storage_options=place.options).to_pandas()
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def read_polars(place: ReadableContainer, path: str) -> list[Row]:
    return pl.scan_delta(place.url(path), storage_options=place.options).collect().to_dicts()


def read_duckdb(place: ReadableContainer, path: str) -> list[Row]:
    with duck(place) as made:
        return duck_rows(made.sql(f"SELECT * FROM delta_scan('{place.url(path)}')"))


def read_datafusion(place: ReadableContainer, path: str) -> list[Row]:
    context = datafusion.SessionContext()
    context.register_table("orders", DeltaTable(place.url(path), storage_options=place.options))
    found: list[Row] = context.sql("SELECT * FROM orders").to_arrow_table().to_pylist()
    return found


ANYWHERE = (read_deltalake, read_pandas, read_polars, read_duckdb)
every_reader = pytest.mark.parametrize(
    ("reader", "where"),
    # DataFusion 55 does not find the storage of a table that delta-rs has opened.
    [(each, where) for each in ANYWHERE for where in ("local", "azure")] + [(read_datafusion, "local")],
)
Reader = Callable[[ReadableContainer, str], list[Row]]


@every_reader
def test_the_table_of_hosts_holds_each_event_once(stage: OutsiderStage, reader: Reader, where: str) -> None:
    found = in_order(reader(place(stage, stage.drained["Parquet"], where), PREFIX))
    assert [normal(row) for row in found] == [normal(row) for row in texts(stage.sent)]


@every_reader
def test_the_table_of_the_spark_program_holds_the_committed_batches(
    stage: OutsiderStage, reader: Reader, where: str
) -> None:
    found = in_order(reader(place(stage, stage.output, where), "delta_reprocess/again"))
    events = texts(stage.of_batches(1, 2))
    fitting = [row | {"body": row["body"].decode()} for row in events if row["body"] != NO_TEXT]
    assert [normal(row) for row in found] == [normal(row) for row in fitting]
