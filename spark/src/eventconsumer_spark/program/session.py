"""The Spark session of a batch: safe settings, and access to the sink's storage account.

Invariant: the credential is set in a running session, in its Hadoop configuration only. So it is in no argument,
environment variable or Spark property; executors receive it with each task's configuration, over connections that are
encrypted on Kubernetes (enabled by entrypoint.sh).
"""

import gc
from collections.abc import Mapping

from pyspark import SparkConf
from pyspark.sql import SparkSession

SAFE = {
    # For properties and Hadoop settings that Spark shows.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|account[.]key|sas[.]",
    "spark.eventLog.enabled": "false",
}
"""Settings that `--conf` cannot change; changeable defaults are in conf/spark-defaults.conf."""


def start_session(application: str, hadoop: Mapping[str, str]) -> SparkSession:
    """Start the session with the storage settings.

    Args:
        application: Name of the Spark application.
        hadoop: Settings of abfs.hadoop_settings, including the credential.
    """
    conf = SparkConf().setAppName(application).setAll(list(SAFE.items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    give_access(spark, hadoop)
    return spark


def reset(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Remove what a batch left in the session: cached data, temporary views and changed settings.

    Not a new session: `SparkSession.builder.getOrCreate()` and `SparkSession.active()` of PySpark return the first one.

    Args:
        spark: The session.
        settings: Its settings before the first batch.
    """
    spark.catalog.clearCache()
    for view in spark.catalog.listTables("global_temp"):  # lists the views of the session, too
        drop = spark.catalog.dropGlobalTempView if view.namespace else spark.catalog.dropTempView
        drop(view.name)
    present = spark.conf.getAll
    for key in present.keys() - settings.keys():
        spark.conf.unset(key)
    for key, value in settings.items():
        if present.get(key) != value:
            spark.conf.set(key, value)
    gc.collect()  # Java keeps an object while Python has a reference to it, also from a cycle.
    # Java collects its old generation only when the heap is full, and then never returns the memory. And Spark removes
    # shuffle files and broadcast data only of objects that were collected (`spark.cleaner.periodicGC.interval` in its
    # configuration page).
    spark._jvm.java.lang.System.gc()


def give_access(spark: SparkSession, hadoop: Mapping[str, str]) -> None:
    """Set the storage settings of abfs.hadoop_settings in a running session."""
    # Python has no public API for the live Hadoop configuration; `spark.hadoop.*` properties would show the key.
    live = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in hadoop.items():
        live.set(key, value)
