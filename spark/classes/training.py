"""The work of a small batch, so that Java loads the classes of it: see `archive.py`. It uses no network.

spark-submit training.py FOLDER
"""

import contextlib
import sys

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.avro.functions import from_avro

HOST = "none.blob.invalid"  # RFC 6761: no name server knows it
AVRO = '{"type": "record", "name": "Event", "fields": [{"name": "id", "type": "long"}]}'


def train(spark: SparkSession, folder: str) -> None:
    """Read files, decode bodies, write Parquet files and a Delta table, and read the table's history."""
    files, table = f"{folder}/files", f"{folder}/table"
    numbers = spark.range(100).select(
        F.col("id").alias("sequence_number"),
        F.timestamp_micros(F.col("id")).alias("enqueued_time"),
        F.lit("0").alias("partition_id"),
        F.col("id").cast("string").alias("partition_key"),
        F.to_json(F.struct("id")).cast("binary").alias("body"),
        F.create_map(F.lit("id"), F.col("id").cast("string")).alias("properties"),
    )
    numbers.write.parquet(files)
    events = spark.read.schema(numbers.schema).parquet(files)
    events.select("sequence_number").count()
    parsed = F.from_json(F.col("body").cast("string"), "id BIGINT", {"mode": "PERMISSIVE"})
    decoded = events.select("*", parsed.alias("parsed"), F.col("_metadata.file_path")).observe(
        "read", F.count(F.lit(1))
    )
    fitting = decoded.where("parsed IS NOT NULL").coalesce(1)
    for number in (1, 2):
        writer = fitting.write.format("delta").mode("append").option("mergeSchema", "true")
        writer.option("txnAppId", "training").option("txnVersion", number).option("userMetadata", "{}").save(table)
    spark.read.format("delta").load(table).groupBy("partition_id").count().collect()
    spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()
    spark.sql(f"OPTIMIZE delta.`{table}`").collect()
    fitting.write.partitionBy("partition_id").parquet(f"{folder}/output")
    events.select(from_avro("body", AVRO, {"mode": "PERMISSIVE"})).limit(1).collect()
    spark.createDataFrame([(1, "a")], "id INT, name STRING").collect()


def train_storage(spark: SparkSession) -> None:
    """Begin to read a storage account, up to its name, which does not exist."""
    settings = {
        "fs.azure.fns.account.service.type": "BLOB",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.io.retry.max.retries": "0",
        f"fs.azure.account.auth.type.{HOST}": "SharedKey",
        f"fs.azure.account.key.{HOST}": "bm9uZQ==",
    }
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in settings.items():
        hadoop.set(name, value)
    with contextlib.suppress(Py4JJavaError):
        spark.read.parquet(f"abfs://none@{HOST}/none")


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    train(session, sys.argv[1])
    train_storage(session)
    session.stop()
