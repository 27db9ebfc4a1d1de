"""Counts events in windows of event time, in one Delta table for all batches; late events correct earlier windows.

`spec.spark.application.mainFile: local:///app/examples/events_per_window.py` runs it. The time of an event is its
application property `time`, such as 2026-01-02T03:04:05Z; without one in this form, the time at which it was enqueued.
Argument: the length of a window (default: 5 minutes). An event without a body, such as a tombstone, has 0 bytes.

A window is never closed: the batch with late events, by minutes or by days, adds them to the window's row. An addition
must not be repeated, so the merge uses the batch's transaction: an attempt that is repeated after a merge finds the
transaction, and adds nothing.
"""

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_spark import Batch, WriteResult, run_batch

TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"
"""A date, a time and an offset (RFC 3339)."""


def events_per_window(events: DataFrame, length: str = "5 minutes") -> DataFrame:
    """One row for each window and partition key in a batch."""
    given = F.col("properties")["time"]
    # Spark completes other times, such as 03:04, by the date of the run.
    time = F.coalesce(F.when(given.rlike(TIME), given.try_cast("timestamp")), "enqueued_time")
    return events.groupBy(F.window(time, length)["start"].alias("window"), "partition_key").agg(
        F.count(F.lit(1)).alias("events"),
        F.sum(F.coalesce(F.length("body"), F.lit(0))).alias("bytes"),
        F.max("enqueued_time").alias("last_enqueued"),
    )


def process(batch: Batch) -> WriteResult:
    """Add one batch's counts to the table."""
    return batch.merge_delta(
        events_per_window(batch.events, *sys.argv[1:2]),
        on="t.window = s.window AND t.partition_key <=> s.partition_key",
        update={
            "events": "t.events + s.events",
            "bytes": "coalesce(t.bytes, 0) + s.bytes",  # rows of an older version may have none
            "last_enqueued": "greatest(t.last_enqueued, s.last_enqueued)",
        },
    )


if __name__ == "__main__":
    run_batch(process)
