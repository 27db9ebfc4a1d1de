"""Keeps the latest event of each partition key in a Delta table: an upsert.

`spec.spark.application.mainFile: local:///app/examples/latest_by_key.py` runs it. The order of two events is given by
enqueued time, then by sequence number; a hub keeps all events of a key in one partition, where both rise together. An
event replaces a row only if it is later, so a repeated merge changes nothing, whatever was merged in between. The merge
also uses the batch's transaction, which avoids repeated work.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_spark import Batch, WriteResult, run_batch


def latest_by_key(events: DataFrame) -> DataFrame:
    """The latest event of each key in a batch; events without a key are ignored."""
    keyed = events.where("partition_key IS NOT NULL")
    latest = F.max_by(F.struct(*events.columns), F.struct("enqueued_time", "sequence_number"))
    return keyed.groupBy(F.col("partition_key").alias("key")).agg(latest.alias("latest")).select("latest.*")


def process(batch: Batch) -> WriteResult:
    """Merge this batch into the table."""
    return batch.merge_delta(
        latest_by_key(batch.events),
        on="t.partition_key = s.partition_key",
        update={name: f"s.{name}" for name in batch.events.columns},
        where="(s.enqueued_time, s.sequence_number) > (t.enqueued_time, t.sequence_number)",
    )


if __name__ == "__main__":
    run_batch(process)
