"""The Spark session of a batch: safe settings, and access to the sink's storage account.

Invariant: the credential is set in a running session, in its Hadoop configuration only. So it is in no argument,
environment variable or Spark property; executors receive it with each task's configuration, over connections that are
encrypted on Kubernetes (enabled by entrypoint.sh).
"""

import gc
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from eventconsumer_spark.attempt.causes import root_cause
from eventconsumer_spark.errors import ConfigurationError

SAFE = {
    # For properties and Hadoop settings that Spark shows.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|account[.]key|sas[.]",
    "spark.eventLog.enabled": "false",
}
"""Settings that `--conf` cannot change; changeable defaults are in conf/spark-defaults.conf."""
_READ_BY_QUERIES = ("spark.sql.", "spark.databricks.delta.")


def start_session(application: str, hadoop: Mapping[str, str]) -> SparkSession:
    """Start the session with the storage settings.

    Args:
        application: Name of the Spark application.
        hadoop: Settings of abfs.hadoop_settings, including the credential.

    Raises:
        ConfigurationError: A property of Spark SQL has a wrong value.
    """
    SparkContext._ensure_initialized()  # connects to Java, before a session
    _check_properties(SparkContext._jvm)
    conf = SparkConf().setAppName(application).setAll(list(SAFE.items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    give_access(spark, hadoop)
    return spark


def _check_properties(jvm: Any) -> None:
    """Read the properties of Spark SQL, before a session exists.

    With a session, Spark 4.1.1 never ends reading a wrong value at the first query: its error asks for the properties
    of the session.
    """
    read = jvm.org.apache.spark.sql.internal.SQLConf()
    for name, value in SparkConf().getAll():
        if not name.startswith(_READ_BY_QUERIES):
            continue
        try:
            read.setConfString(name, value)
        except Exception as error:  # the class depends on the property
            raise ConfigurationError(
                f"Spark property {name}: {root_cause(error)}; correct spec.spark.application.conf or the image"
            ) from error


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
