"""A Spark session inside of the test process, with the settings of the image and a way to the test's storage."""

import os
import socket
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from eventconsumer_spark.storage.abfs import AbfsFolder, hadoop_settings
from eventconsumer_storage.account import StorageAccount
from tests.integration.spark.drained import host_name
from tests.integration.spark.drivers import start_options
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess

ROOT = Path(__file__).parents[3]
FAST = "-XX:TieredStopAtLevel=1"
"""Half of a short run is the compiler's work."""


def start(
    jars: str, azurite: AzuriteProcess, hosts: Path, *, compiler: str = FAST, cores: int = 2, executors: int = 0
) -> SparkSession:
    """Start it, with the account's key in its Hadoop configuration as a driver has it.

    Args:
        jars: Folder of the image's jars.
        azurite: The storage.
        hosts: File to write, by which Java finds the storage.
        compiler: Options of each JVM.
        cores: Parallel tasks in the driver.
        executors: Tasks run in so many processes beside the driver instead, one in each.
    """
    # Java alone must know the product-style name; Python goes to the address in the connection string.
    hosts.write_text(f"127.0.0.1 localhost {ACCOUNT}.blob.localhost {socket.gethostname()}\n")
    classpath, archive = start_options(jars)
    options = f"-Djdk.net.hosts.file={hosts} {compiler} {archive}"
    os.environ |= {
        "SPARK_HOME": str(Path(jars).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(ROOT / "spark/conf"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-class-path '{classpath}' --driver-java-options '{options}' pyspark-shell",
    }
    master = f"local-cluster[{executors},1,1024]" if executors else f"local[{cores}]"
    builder = SparkSession.builder.master(master).appName("tests").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.executor.extraClassPath", classpath)
    builder = builder.config("spark.executor.extraJavaOptions", options)
    spark = (
        builder.config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .getOrCreate()
    )
    live = spark.sparkContext._jsc.hadoopConfiguration()
    host = host_name(azurite.port)
    for key, value in hadoop_settings(StorageAccount(azurite.url, ACCOUNT, key=KEY), host, {}).items():
        live.set(key, value)
    return spark


def stop(spark: SparkSession) -> None:
    """Stop the session and end its JVM. Folders of tests that run in one process share it: the first one ends it."""
    if SparkContext._gateway is None:
        return
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


def folder(container: str, azurite: AzuriteProcess) -> AbfsFolder:
    """A container as Spark names it."""
    return AbfsFolder("abfs", container, host_name(azurite.port), "")
