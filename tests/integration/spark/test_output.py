"""The shipped program on a real session and real storage: each output format, repeated, with bodies that do not fit."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from azure.storage.blob import BlobServiceClient
from py4j.protocol import Py4JJavaError

from eventconsumer_api.spec.spark import OutputFormat, SparkOutput
from eventconsumer_spark import WriteResult
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.job import write_batch
from eventconsumer_spark.output.bodies import NO_DOCUMENT, NO_UTF8
from eventconsumer_spark.output.delta_table import compact
from eventconsumer_spark.output.folder import list_files
from tests.integration.spark.consumer import Consumer


def test_a_delta_table_has_each_batch_once_however_often_it_is_tried(consumer: Consumer) -> None:
    consumer.drained.slot("0", 0, 40)
    consumer.drained.slot("1", 7, 20)
    first = consumer.job(1)
    assert consumer.run(first) == WriteResult(60, 0)
    assert consumer.run(first) == WriteResult(60, 0)
    consumer.drained.slot("0", 40, 30)
    second = consumer.job(2)
    assert consumer.run(second) == WriteResult(30, 1)
    assert consumer.table(second) == [("0", n) for n in range(70)] + [("1", n) for n in range(7, 27)]
    table = consumer.spark.read.format("delta").load(second.output.path)
    assert table.columns == consumer.batch(second).events.columns
    assert table.where("sequence_number = 45 and partition_id = '0'").first()["body"] == b"body 45"
    # Reprocessing has a table and a transaction of its own.
    again = replace(consumer.batch(first), table=f"{first.output.path}_reprocess/x", transaction=f"{first.chain}/x")
    assert write_batch(again) == WriteResult(60, 0)
    assert len(consumer.table(second)) == 90


def test_events_whose_body_does_not_fit_are_beside_the_table_and_not_in_it(consumer: Consumer) -> None:
    good = consumer.drained.slot("0", 0, 5, body=lambda n: b'{"id": %d}' % n)
    bad = consumer.drained.slot("1", 0, 4, body=lambda n: [b'{"id": 1}', b"{", b'{"id": "x"}', b'{"id": 2}'][n])
    job = consumer.job(1, body={"type": "Json", "schema": "id BIGINT"}, partitionByDate=True)
    written = consumer.run(job)
    folder = f"{job.output.path}_quarantine/batch=1"
    assert written == WriteResult(7, 0, 2, folder, f"{NO_DOCUMENT}: sequence number 1 of partition 1")
    rows = consumer.spark.read.parquet(folder).orderBy("sequence_number").collect()
    assert [(row.partition_id, row.sequence_number, row.body, row.cause) for row in rows] == [
        ("1", 1, b"{", NO_DOCUMENT),
        ("1", 2, b'{"id": "x"}', "column id: bigint has no exact value for this string"),
    ]
    assert all(row.file.endswith(bad.path) and good.path not in row.file for row in rows)
    table = consumer.spark.read.format("delta").load(job.output.path)
    assert {row.id for row in table.select("body.id").collect()} == {0, 1, 2, 3, 4}
    assert {str(row.date) for row in table.select("date").distinct().collect()} == {"2026-01-02"}
    # The resource was edited before the next attempt: the batch stays as it was written, and nothing is lost.
    edited = job.model_copy(update={"output": SparkOutput(path=job.output.path, partition_by_date=True)})
    assert consumer.run(edited) == written
    assert table.count() == 7
    assert consumer.spark.read.parquet(folder).count() == 2
    # The next batch has other columns: a new field is added, another type is refused with the remedy.
    consumer.drained.slot("0", 5, 1, body=lambda _: b'{"id": 9, "name": "x"}')
    wider = consumer.job(2, partitionByDate=True, body={"type": "Json", "schema": "id BIGINT, name STRING"})
    assert consumer.run(wider) == WriteResult(1, 1)
    consumer.drained.slot("0", 6, 1)
    with pytest.raises(ConfigurationError, match=r"refuses this batch.*another spec\.spark\.output\.path"):
        consumer.run(consumer.job(3, partitionByDate=True))


def test_parquet_is_a_folder_a_batch_and_a_retry_replaces_it_with_its_quarantine(consumer: Consumer) -> None:
    consumer.drained.slot("0", 0, 10, body=lambda n: b"\xff" if n == 3 else b"text")
    job = consumer.job(1, format="Parquet", body={"type": "Text"}, partitionByDate=True)
    folder = f"{job.output.path}_quarantine/batch=1"
    expected = WriteResult(9, None, 1, folder, f"{NO_UTF8}: sequence number 3 of partition 0")
    assert consumer.run(job) == expected
    assert consumer.run(job) == expected
    output = consumer.spark.read.parquet(job.output.path)
    assert output.count() == 9
    assert set(output.columns) >= {"batch", "date", "body"}
    assert output.select("body").distinct().collect() == [("text",)]
    # As bytes all of them fit: nothing is left of the quarantine.
    edited = job.model_copy(update={"output": SparkOutput(path=job.output.path, format=OutputFormat.PARQUET)})
    assert consumer.run(edited) == WriteResult(10)
    assert not list(list_files(consumer.spark, folder))


@pytest.mark.parametrize("trial", [False, True], ids=["Parquet", "trial of Delta"])
def test_a_batch_without_a_body_that_fits_is_all_quarantine(consumer: Consumer, trial: bool) -> None:
    consumer.drained.slot("0", 0, 3, body=lambda _: b"\xff")
    form = OutputFormat.DELTA if trial else OutputFormat.PARQUET
    batch = consumer.batch(consumer.job(1, format=form, body={"type": "Json"}, partitionByDate=True))
    done = write_batch(replace(batch, trial=trial))
    assert (done.rows, done.quarantined_rows) == (0, 3)


def test_small_files_are_compacted_when_there_are_enough_and_rows_stay(
    consumer: Consumer, service: BlobServiceClient
) -> None:
    consumer.drained.slot("0", 0, 70)
    job = consumer.job(1)
    consumer.run(job)
    table, target = job.output.path, 24 * 1024

    def files() -> int:
        return int(consumer.spark.sql(f"DESCRIBE DETAIL delta.`{table}`").first()["numFiles"])

    rows = consumer.spark.read.format("delta").load(table)
    rows.repartition(6).write.format("delta").mode("append").save(table)
    before = consumer.table(job)
    assert compact(consumer.spark, table, target) == 0, "seven files are not enough"
    rows.limit(10).write.format("delta").mode("append").save(table)
    assert files() == 8
    assert compact(consumer.spark, table, target) == 1
    assert files() < 8
    assert len(consumer.table(job)) == len(before) + 10
    assert compact(consumer.spark, table, target) == 0
    # The append of the batch is still found, behind what came later.
    assert consumer.run(job) == WriteResult(70, 0)

    # The program leaves the compaction for after the commit of every fourth batch.
    rows.repartition(32).write.format("delta").mode("append").save(table)
    written = []
    for number in (2, 3, 4):
        consumer.drained.slot("0", 100 * number, 5)
        written.append(consumer.run(consumer.job(number)).maintenance)
    before, many = consumer.table(job), files()
    assert written[:2] == [None, None]
    assert written[2] is not None
    written[2]()
    assert (files(), many > 32) == (1, True)
    assert consumer.table(job) == before

    # Two drivers at once: Delta refuses what it could only do twice, and no row is lost or doubled.
    rows.repartition(32).write.format("delta").mode("append").save(table)
    before = consumer.table(job)
    with ThreadPoolExecutor(2) as pool:
        sessions = [consumer.spark, consumer.spark.newSession()]
        attempts = [pool.submit(compact, session, table, target) for session in sessions]
        errors = [error for attempt in attempts if (error := attempt.exception())]
    assert len(errors) < 2
    assert all("DELTA_CONCURRENT_DELETE" in str(error) for error in errors)
    assert files() < 32
    assert consumer.table(job) == before

    # A table that cannot be read cannot be compacted.
    rows.repartition(8).write.format("delta").mode("append").save(table)
    container = service.get_container_client(f"{consumer.drained.container.container_name}-out")
    for name in [blob.name for blob in container.list_blobs() if blob.name.endswith(".parquet")]:
        container.delete_blob(name)
    with pytest.raises(Py4JJavaError, match="FAILED_READ_FILE"):
        compact(consumer.spark, table, target)
