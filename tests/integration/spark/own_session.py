"""A program with a session of its own."""

from pyspark.sql import SparkSession

from eventconsumer_spark import commit_batch, read_batches

spark = SparkSession.builder.appName("own").getOrCreate()
for batch in read_batches(spark):
    keys = batch.events.groupBy("partition_key").count()
    keys.write.mode("overwrite").parquet(batch.output)
    committed = commit_batch(batch, rows_written=keys.count())
    print(f"COMMITTED {committed.number}", flush=True)
