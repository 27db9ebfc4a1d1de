"""The Spark session of a batch: safe settings, and access to the sink's storage account.

Invariant: the credential enters a session that already runs, in its Hadoop configuration only. So it is in no
argument, environment variable or Spark property; the executors get it with each task's configuration, over
connections that are encrypted on Kubernetes (entrypoint.sh turns that on).
"""

from collections.abc import Mapping

from pyspark import SparkConf
from pyspark.sql import SparkSession

SAFE = {
    # Applied to properties and Hadoop settings wherever Spark shows them.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|account[.]key|sas[.]",
    "spark.eventLog.enabled": "false",
}
"""Settings that no `--conf` changes; defaults that one may change are in conf/spark-defaults.conf."""


def start_session(application: str, hadoop: Mapping[str, str]) -> SparkSession:
    """Start the session and give it the storage settings.

    Args:
        application: Name of the Spark application.
        hadoop: Settings of abfs.hadoop_settings, the credential among them.
    """
    conf = SparkConf().setAppName(application).setAll(list(SAFE.items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    give_access(spark, hadoop)
    return spark


def give_access(spark: SparkSession, hadoop: Mapping[str, str]) -> None:
    """Give a running session the storage settings of abfs.hadoop_settings."""
    # Python has no public way to the live Hadoop configuration; `spark.hadoop.*` properties would show the key.
    live = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in hadoop.items():
        live.set(key, value)
