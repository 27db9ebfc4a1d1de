"""Columns that hosts made of bodies: read beside files without them, and written flat by the shipped program."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_api.spec.body_columns import schema_columns
from eventconsumer_api.spec.spark import OutputFormat, SparkOutput
from eventconsumer_api.wire.batch import BatchCommit, BatchJob
from eventconsumer_api.wire.file_columns import of_bodies
from eventconsumer_api.wire.host_config import BodyConfig
from eventconsumer_host.sink import parquet
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.columns import to_batch
from eventconsumer_host.source.schema import arrow_schema
from eventconsumer_spark import EVENT_SCHEMA, WriteResult, streaming
from eventconsumer_spark import job as job_program
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.job import write_batch
from tests.integration.spark.conftest import Driver
from tests.integration.spark.consumer import Consumer
from tests.integration.spark.drained import PREFIX, DrainedBatch
from tests.integration.spark.test_formats import message

FROM_SINK = {"columns": "FromSink"}
ENVELOPE = EVENT_SCHEMA.names
FLAT = [name for name in ENVELOPE if name != "body"]
ERROR = "column cents: BIGINT has no exact value for this string"
ALL = (
    "flag BOOLEAN, cents BIGINT, ratio DOUBLE, price DECIMAL(20, 2), day DATE, at TIMESTAMP, name STRING, "
    "items ARRAY<STRUCT<sku: STRING, `@type`: BIGINT>>, more STRUCT<`a.b`: BOOLEAN>, tags MAP<STRING, DOUBLE>"
)
TYPES = (
    "boolean bigint double decimal(20,2) date timestamp string array<struct<sku:string,@type:bigint>> "
    "struct<a.b:boolean> map<string,double>"
)
VALUES: dict[str, Any] = {
    "flag": True,
    "cents": 2**63 - 1,
    "ratio": 5e-324,
    "price": Decimal("-123456789012345678.25"),
    "day": date(1, 1, 1),
    "at": datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    "name": "ä",
    "items": [{"sku": "s", "@type": 5}, None],
    "more": {"a.b": False},
    "tags": [("k", None), ("l", 0.5)],
}


def with_columns(job: BatchJob, columns: str, *bounded: str) -> BatchJob:
    """A job of a resource with these columns, in the short form."""
    made = (replace(each, statistics=each.name in bounded) for each in schema_columns(columns))
    return job.model_copy(update={"body": BodyConfig.of(made)})


def table(consumer: Consumer, job: BatchJob) -> DataFrame:
    return consumer.spark.read.format("delta").load(job.output.path)


def cents(frame: DataFrame) -> dict[int, int | None]:
    """By sequence number."""
    return {row["sequence_number"]: row["cents"] for row in frame.collect()}


def test_each_type_is_read_and_null_where_a_file_lacks_the_column(consumer: Consumer) -> None:
    consumer.drained.slot("0", 0, 2)
    consumer.drained.slot("0", 2, 1, columns="cents BIGINT", values=lambda _: {"cents": 5})
    consumer.drained.slot("0", 3, 1, columns=ALL, values=lambda _: VALUES | {"_error": "e"})
    consumer.drained.slot("0", 4, 1, columns=f"gone DATE, {ALL}")
    batch = consumer.batch(with_columns(consumer.job(format="Parquet"), ALL))
    assert batch.events.columns == batch.schema.names == [*ENVELOPE, *VALUES, "_error"]
    assert [field.dataType.simpleString() for field in batch.schema][len(ENVELOPE) :] == [*TYPES.split(), "string"]
    times = batch.events.withColumn("at", F.unix_micros("at")).orderBy("sequence_number")
    rows = [row.asDict(recursive=True) for row in times.select(*VALUES, "_error").collect()]
    none = dict.fromkeys((*VALUES, "_error"))
    whole = VALUES | {"tags": dict(VALUES["tags"]), "at": 253_402_300_799_999_999, "_error": "e"}
    assert rows == [none, none, none | {"cents": 5}, whole, none]
    assert write_batch(batch) == WriteResult(5)
    written = consumer.spark.read.parquet(batch.output)
    assert (written.columns, written.where("body is not null").count()) == (ENVELOPE, 5), "nobody asked for the columns"


def test_files_are_read_as_hosts_encode_them(consumer: Consumer) -> None:
    columns, none = schema_columns(ALL), {"_error": "e"}
    values = [none if n % 3 == 0 else VALUES | {"cents": n * n, "name": f"n{n}"} for n in range(3000)]
    typed = pa.RecordBatch.from_pylist(values, arrow_schema(of_bodies(columns)))
    batch = EventBatch(to_batch([message(n, b"x") for n in range(3000)]).columns, typed=typed)
    consumer.drained.put("7", 0, 3000, b"".join(parquet.encode([batch], "7", {}, columns)))
    job = with_columns(consumer.job(body=FROM_SINK), ALL)
    assert consumer.run(job).quarantined_rows == 1000
    found = table(consumer, job).withColumn("at", F.unix_micros("at")).orderBy("sequence_number")
    rows = [row.asDict(recursive=True) for row in found.select(*VALUES).collect()]
    same = {"tags": dict(VALUES["tags"]), "at": 253_402_300_799_999_999}
    assert rows == [VALUES | same | {"cents": n * n, "name": f"n{n}"} for n in range(3000) if n % 3]


def test_columns_are_flat_in_the_table_and_rows_with_an_error_only_beside_it(consumer: Consumer) -> None:
    old, typed = "cents BIGINT, name STRING", "cents BIGINT, name STRING, price DECIMAL(20, 2)"
    consumer.drained.slot("0", 0, 3)  # of a host before the columns
    bad = consumer.drained.slot(
        "1", 0, 5, columns=old, values=lambda n: {"cents": None, "_error": ERROR} if n in (1, 3) else {"cents": n}
    )
    job = with_columns(consumer.job(1, body=FROM_SINK, partitionByDate=True), old, "cents")
    folder = f"{job.output.path}_quarantine/batch=1"
    written = WriteResult(6, 0, 2, folder, f"{ERROR}: sequence number 1 of partition 1")
    assert consumer.run(job) == written
    assert consumer.run(job) == written
    found = table(consumer, job)
    assert found.columns == [*FLAT, "cents", "name", "date"]
    assert cents(found.where("partition_id = '1'")) == {0: 0, 2: 2, 4: 4}
    assert cents(found.where("partition_id = '0'")) == dict.fromkeys(range(3))
    kept = consumer.spark.read.parquet(folder).orderBy("sequence_number")
    assert kept.select("partition_id", "sequence_number", "body", "cause").collect() == [
        Row("1", 1, b"body 1000001", ERROR),
        Row("1", 3, b"body 1000003", ERROR),
    ]
    assert all(row.file.endswith(bad.path) for row in kept.collect())
    details = consumer.spark.sql(f"DESCRIBE DETAIL delta.`{job.output.path}`").first()["properties"]
    assert details["delta.dataSkippingStatsColumns"].endswith(",partition_id,partition_key,cents")

    # A column is added between two attempts, and the way of the output changed: the batch stays as it was written.
    edited = with_columns(job, typed).model_copy(
        update={"output": SparkOutput(path=job.output.path, partitionByDate=True)}
    )
    assert consumer.run(edited) == written
    assert table(consumer, job).columns == found.columns
    # Without the columns, the second attempt cannot tell which events the first one left out.
    with pytest.raises(ConfigurationError, match=r"columns: FromSink needs columns in the files: set spec\.sink\.body"):
        consumer.run(edited.model_copy(update={"body": None}))

    # In the next batch there are files with and without the new column.
    consumer.drained.slot("1", 5, 1, columns=old, values=lambda _: {"cents": 50})
    consumer.drained.slot("1", 6, 1, columns=typed, values=lambda _: {"cents": 60, "price": Decimal("0.10")})
    second = with_columns(consumer.job(2, body=FROM_SINK, partitionByDate=True), typed)
    assert consumer.run(second) == WriteResult(2, 1)
    found = table(consumer, second)
    assert found.columns == [*FLAT, "cents", "name", "date", "price"]
    assert cents(found.where("partition_id = '1'")) == {0: 0, 2: 2, 4: 4, 5: 50, 6: 60}
    prices = found.where("price is not null").select("sequence_number", "price").collect()
    assert prices == [Row(6, Decimal("0.10"))]
    # A column that was removed stays, and is null.
    consumer.drained.slot("1", 7, 1, columns=typed, values=lambda _: {"cents": 70, "price": Decimal(1), "name": "n"})
    third = with_columns(consumer.job(3, body=FROM_SINK, partitionByDate=True), "cents BIGINT, price DECIMAL(20, 2)")
    assert consumer.run(third) == WriteResult(1, 2)
    last = table(consumer, third).where("sequence_number = 7").select("cents", "name", "price").collect()
    assert last == [Row(70, None, Decimal("1.00"))]

    # Reprocessing has a table of its own.
    again = replace(consumer.batch(job), table=f"{job.output.path}_reprocess/x", transaction=f"{job.chain}/x")
    assert write_batch(again) == written
    other = consumer.spark.read.format("delta").load(f"{job.output.path}_reprocess/x")
    assert (other.count(), table(consumer, job).count()) == (6, 9)


def test_parquet_has_the_columns_too_and_a_batch_can_be_all_errors(consumer: Consumer) -> None:
    consumer.drained.slot("0", 0, 3, columns="cents BIGINT", values=lambda n: {"cents": n or None, "_error": None})
    consumer.drained.slot("0", 3, 1, columns="cents BIGINT", values=lambda _: {"_error": ERROR})
    job = with_columns(consumer.job(1, format="Parquet", body=FROM_SINK), "cents BIGINT")
    assert (consumer.run(job).rows, consumer.run(job).quarantined_rows) == (3, 1)
    written = consumer.spark.read.parquet(f"{job.output.path}/batch=1")
    assert (written.columns, cents(written)) == ([*FLAT, "cents"], {0: None, 1: 1, 2: 2})
    consumer.drained.slot("0", 4, 2, columns="cents BIGINT", values=lambda _: {"_error": ERROR})
    for trial in (False, True):
        output = {"format": OutputFormat.PARQUET} if not trial else {}
        second = job.model_copy(
            update={"output": SparkOutput(path=job.output.path, body=FROM_SINK, **output), "number": 2}
        )
        if not trial:
            consumer.job(2)
        done = write_batch(replace(consumer.batch(second), trial=trial))
        assert (done.rows, done.quarantined_rows) == (0, 2)


def test_a_column_whose_name_the_output_has_is_refused(consumer: Consumer) -> None:
    columns = "Date DATE, FILE STRING, batch BIGINT"
    consumer.drained.slot("0", 0, 1, columns=columns)
    job = with_columns(consumer.job(1, body=FROM_SINK, partitionByDate=True), columns)
    with pytest.raises(ConfigurationError, match=r"has a column date, which the output adds: use another name"):
        consumer.run(job)
    with pytest.raises(ConfigurationError, match=r"has a column file, which the output adds: use another name"):
        consumer.run(job, streaming.drain)
    folders = SparkOutput(path=job.output.path, format=OutputFormat.PARQUET, body=FROM_SINK)
    with pytest.raises(ConfigurationError, match=r"has a column batch, which the output adds: use another name"):
        consumer.run(job.model_copy(update={"output": folders}))


def test_a_stream_has_the_columns_beside_the_body(consumer: Consumer) -> None:
    consumer.drained.slot("0", 0, 2)
    plain = consumer.job(1)
    assert consumer.run(plain, streaming.drain).rows == 2

    def value(number: int) -> dict[str, object]:
        return {"cents": number} if number % 2 else {"_error": "e"}

    consumer.drained.slot("0", 2, 2, columns="cents BIGINT", values=value)
    unchanged = with_columns(consumer.job(2), "cents BIGINT")
    assert consumer.run(unchanged, streaming.drain).rows == 2
    assert table(consumer, plain).columns == [*ENVELOPE, "file"]
    consumer.drained.slot("0", 4, 1)
    consumer.drained.slot("0", 5, 2, columns="cents BIGINT", values=value)
    flat = with_columns(consumer.job(3, body=FROM_SINK), "cents BIGINT")
    assert consumer.run(flat, streaming.drain).rows == 3
    found = table(consumer, flat)
    assert sorted(found.columns) == sorted([*ENVELOPE, "file", "cents", "_error"])
    rows = found.where("sequence_number > 3").orderBy("sequence_number").select("body", "cents", "_error").collect()
    assert rows == [Row(b"body 4", None, None), Row(b"body 5", 5, None), Row(b"body 6", None, "e")]
    assert found.where("cents is null").count() == 6


Read = Callable[[str, dict[str, Any], str], Any]


@pytest.fixture
def read(consumer: Consumer) -> Read:
    """Read the column `c` of a file that has it with one type as another type."""
    places = iter(range(100))

    def run(columns: str, values: dict[str, Any], wanted: str) -> Any:
        consumer.drained.slot("0", next(places), 1, columns=columns, values=lambda _: values)
        batch = consumer.batch(with_columns(consumer.job(next(places) + 1), wanted))
        return batch.events.select("c").first()[0]

    return run


@pytest.mark.parametrize(
    ("columns", "value", "wanted", "found"),
    [
        ("c DATE", date(1970, 1, 6), "c BIGINT", 5),
        ("c DATE", date(1970, 1, 6), "c DOUBLE", 5.0),
        ("c TIMESTAMP", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "c BIGINT", 1_000_000),
        ("c STRUCT<a: BIGINT>", {"a": 5}, "c STRUCT<b: STRING>", Row(b=None)),
    ],
)
def test_spark_reads_some_types_as_another_one_so_the_record_decides(
    columns: str, value: Any, wanted: str, found: Any, read: Read
) -> None:
    """If this fails, Spark's reader has become strict: see input/columns.py."""
    assert read(columns, {"c": value}, wanted) == found


@pytest.mark.parametrize(
    ("columns", "value", "wanted"),
    [
        ("c BIGINT", 5, "c STRING"),
        ("c STRING", "5", "c BIGINT"),
        ("c BIGINT", 5, "c DOUBLE"),
        ("c DOUBLE", 0.5, "c DECIMAL(10, 2)"),
        ("c DECIMAL(10, 2)", Decimal("0.25"), "c DECIMAL(10, 1)"),
        ("c BIGINT", 5, "c TIMESTAMP"),
        ("c BIGINT", 5, "c DATE"),
        ("c ARRAY<BIGINT>", [5], "c ARRAY<STRING>"),
        ("c STRUCT<a: BIGINT>", {"a": 5}, "c MAP<STRING, BIGINT>"),
        ("c STRING", "5", "c STRUCT<a: BIGINT>"),
    ],
)
def test_spark_refuses_other_types_by_itself(columns: str, value: Any, wanted: str, read: Read) -> None:
    with pytest.raises((Py4JJavaError, AnalysisException)):
        read(columns, {"c": value}, wanted)


def test_a_driver_writes_columns_and_refuses_those_of_another_type_before_spark_starts(
    drained: DrainedBatch, driver: Driver
) -> None:
    record = '{"columns": [{"name": "cents", "type": "BIGINT"}, {"name": "at", "type": "DATE"}]}'
    drained.container.upload_blob(f"{PREFIX}/_columns.json", record)
    drained.slot("0", 0, 2, columns="cents BIGINT, at DATE", values=lambda n: {"cents": n, "at": date(2026, 1, 2)})
    job = drained.freeze()
    job = job.model_copy(update={"output": SparkOutput(path=job.output.path, body=FROM_SINK)})
    ended = driver(with_columns(job, "cents BIGINT, at BIGINT"))
    assert ended.returncode == 1
    assert "column at BIGINT: files have at DATE: use another name" in ended.stdout
    assert drained.commit() is None
    ended = driver(with_columns(job, "cents BIGINT, at DATE, later STRING"), Path(job_program.__file__))
    assert ended.returncode == 0, ended.stdout
    assert BatchCommit.model_validate_json(drained.commit() or b"").rows_written == 2
