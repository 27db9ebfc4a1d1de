"""Programs for drivers under test: the environment variable WAY says what they do."""

import os
import threading
import time
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_spark import Batch, WriteResult, run_batch


def numbers(events: DataFrame) -> DataFrame:
    """One row an event: what tells it apart."""
    return events.select("partition_id", "sequence_number", F.col("properties")["id"].alias("id"))


def fail_on_one(batch: Batch) -> int:
    """Fails while an event of partition 1 has the number 25."""
    bad = (F.col("partition_id") == "1") & (F.col("sequence_number") == 25)
    checked = F.when(bad, F.raise_error(F.lit("event 25 cannot be priced"))).otherwise(F.col("message_id"))
    return batch.write_parquet(numbers(batch.events.withColumn("message_id", checked).where("message_id is not null")))


def fail_always(batch: Batch) -> int:
    """Fails whatever the files are."""
    raise ValueError(f"nothing can be done with {len(batch.manifest.files)} files")


def slowly(batch: Batch) -> WriteResult:
    """Says when it has begun; then a task that takes its time."""
    print("BEGUN", flush=True)
    seconds = float(os.environ["SECONDS_AT_WORK"])
    batch.events.limit(1).foreach(lambda _: time.sleep(seconds))
    return WriteResult(batch.write_parquet(numbers(batch.events)))


def append(batch: Batch) -> WriteResult:
    """The events' numbers, in the table."""
    return batch.write_delta(numbers(batch.events))


def maintain(batch: Batch) -> WriteResult:
    """As `append`; its maintenance fails after batch 1, and does not end after batch 2."""
    return replace(append(batch), maintenance=partial(maintain_after, batch))


def maintain_after(batch: Batch) -> None:
    """The maintenance of `maintain`."""
    if batch.manifest.number == 1:
        raise ValueError("another program compacts this table")
    print("MAINTAINS", flush=True)
    batch.events.limit(1).foreach(lambda _: time.sleep(600))


def kill_at_two(batch: Batch) -> WriteResult:
    """As `append`; in batch 2 it then ends like a killed process, before the commit."""
    written = append(batch)
    if batch.manifest.number == 2:
        os.killpg(os.getpgrp(), 9)
    return written


def leave_traces(batch: Batch) -> int:
    """Refuses a session with anything of the batch before, leaves data, views and settings, and fails in batch 3."""
    spark = batch.spark
    if batch.manifest.number == 3:
        raise ValueError("batch 3 cannot be priced")
    assert SparkSession.builder.getOrCreate() is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("shop.batch", "none") == "none"
    assert not spark.catalog.listTables("global_temp")
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()
    assert sum(thread.name.startswith("claim-") for thread in threading.enumerate()) == 2
    kept = batch.events.cache()
    kept.createOrReplaceTempView("events")
    kept.createOrReplaceGlobalTempView("all_events")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    spark.conf.set("shop.batch", str(batch.manifest.number))
    return batch.write_parquet(numbers(spark.sql("SELECT * FROM events")))


def copy(batch: Batch) -> int:
    """The events' numbers, as they are."""
    return batch.write_parquet(numbers(batch.events))


if __name__ == "__main__":
    run_batch(globals()[os.environ["WAY"]])
