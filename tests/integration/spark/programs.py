"""Programs for drivers under test: the environment variable WAY says what they do."""

import os
import time

from pyspark.sql import DataFrame
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


def copy(batch: Batch) -> int:
    """The events' numbers, as they are."""
    return batch.write_parquet(numbers(batch.events))


if __name__ == "__main__":
    run_batch(globals()[os.environ["WAY"]])
