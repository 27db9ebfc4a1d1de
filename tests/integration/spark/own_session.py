"""A program with a session of its own; with NO_COMMIT set it forgets the commit."""

import os

from pyspark.sql import SparkSession

from eventconsumer_spark import commit_batch, read_batches

spark = SparkSession.builder.appName("own").getOrCreate()
for batch in read_batches(spark):
    keys = batch.events.groupBy("partition_key").count()
    keys.write.mode("overwrite").parquet(batch.output)
    if "NO_COMMIT" in os.environ:
        break
    committed = commit_batch(batch, rows_written=keys.count())
    print(f"COMMITTED {committed.number}", flush=True)
