"""Counts events in windows of event time, in one Delta table for all batches; late events correct earlier windows.

`spec.spark.application.mainFile: local:///app/examples/events_per_window.py` runs it. The time of an event is its
application property `time`, such as 2026-01-02T03:04:05Z; without one, the time at which it was enqueued. Argument:
the length of a window (default: 5 minutes).

A window is never closed: the batch with late events, by minutes or by days, adds them to the window's row. An addition
must not be repeated, so the merge uses the batch's transaction: an attempt that is repeated after a merge finds the
transaction, and adds nothing.
"""

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_spark import Batch, WriteResult, run_batch


def events_per_window(events: DataFrame, length: str = "5 minutes") -> DataFrame:
    """One row for each window and partition key in a batch."""
    time = F.coalesce(F.col("properties")["time"].try_cast("timestamp"), "enqueued_time")
    return events.groupBy(F.window(time, length)["start"].alias("window"), "partition_key").agg(
        F.count(F.lit(1)).alias("events"),
        F.sum(F.length("body")).alias("bytes"),
        F.max("enqueued_time").alias("last_enqueued"),
    )


def process(batch: Batch) -> WriteResult:
    """Add one batch's counts to the table."""
    return batch.merge_delta(
        events_per_window(batch.events, *sys.argv[1:2]),
        on="t.window = s.window AND t.partition_key <=> s.partition_key",
        update={
            "events": "t.events + s.events",
            "bytes": "t.bytes + s.bytes",
            "last_enqueued": "greatest(t.last_enqueued, s.last_enqueued)",
        },
    )


if __name__ == "__main__":
    run_batch(process)
