"""Counts the events of each batch by partition key: the pattern for your own programs.

`spec.spark.application.mainFile: local:///app/examples/events_per_key.py` runs it. The result has one row for each key
of a batch; add up the rows of batches for totals. Events carry an application property `id`: `ids` counts distinct
values, so `ids < events` would show that an event was delivered twice.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_spark import Batch, run_batch


def events_per_key(events: DataFrame) -> DataFrame:
    """One row for each partition key."""
    event_id = F.col("properties")["id"]
    return events.groupBy("partition_key").agg(
        F.count(F.lit(1)).alias("events"),
        F.count_distinct(event_id).alias("ids"),
        F.sum(event_id.try_cast("long")).alias("id_sum"),
        F.min("enqueued_time").alias("first_enqueued"),
        F.max("enqueued_time").alias("last_enqueued"),
    )


def process(batch: Batch) -> int:
    """Write the counts of one batch; a repeated run replaces them."""
    return batch.write_parquet(events_per_key(batch.events))


if __name__ == "__main__":
    run_batch(process)
