"""Spark Structured Streaming reads hubs into Delta tables: the client of `spark_streaming`, which starts it.

It runs in an installation of Spark 3.5 of its own: the connector has no version for Spark 4.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import count, count_distinct

BEGINNING = json.dumps({"offset": "-1", "seqNo": -1, "enqueuedTime": None, "isInclusive": True})


def main() -> None:
    """Read each hub of the settings to its end, and print a line of JSON for it."""
    settings: dict[str, Any] = json.loads(os.environ["SPARK_STREAMING"])
    trust = f"-Djavax.net.ssl.trustStore={settings['trust']} -Djavax.net.ssl.trustStorePassword=changeit"
    spark = (
        SparkSession.builder.master("local[4]")
        .config("spark.jars", ",".join(settings["jars"]))
        .config("spark.driver.extraJavaOptions", trust)
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    java: Any = spark._jvm  # noqa: SLF001 - as the connector's documentation does
    process = int(java.java.lang.ProcessHandle.current().pid())
    for hub, size in settings["hubs"]:
        connection = java.org.apache.spark.eventhubs.EventHubsUtils.encrypt(f"{settings['endpoint']};EntityPath={hub}")
        options = {
            "eventhubs.connectionString": connection,
            "eventhubs.startingPosition": BEGINNING,
            "eventhubs.maxEventsPerTrigger": str(size),
            "eventhubs.prefetchCount": "3000",
        }
        table = f"{settings['folder']}/{hub}"
        cpu, began = _cpu_seconds(process), time.monotonic()
        events = spark.readStream.format("eventhubs").options(**options).load()
        writer = events.writeStream.format("delta").option("checkpointLocation", f"{table}-checkpoint")
        writer.trigger(once=True).start(table).awaitTermination()
        found = {"cpu": _cpu_seconds(process) - cpu, "seconds": time.monotonic() - began}
        events_of = count_distinct("partition", "sequenceNumber").alias("events")
        rows = spark.read.format("delta").load(table).agg(count("*").alias("rows"), events_of).first()
        assert rows is not None
        if (rows["rows"], rows["events"]) != (size, size):
            sys.exit(f"{hub} has {size} events, and the table {rows}")
        print(json.dumps(found | {"hub": hub, "total_cpu": _cpu_seconds(process)}), flush=True)
    spark.stop()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
