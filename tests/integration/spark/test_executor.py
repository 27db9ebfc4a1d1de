"""The executor of Kubernetes as the image starts it, with the image's jars: it registers, and runs tasks."""

from pathlib import Path

from tests.integration.spark.drivers import until
from tests.support.sparkimage import SparkImage, hosts

PROGRAM = """
import os, time
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
options = context._conf.get("spark.executor.extraJavaOptions")
print("driver", context._conf.get("spark.driver.port"), context.applicationId, options, flush=True)
rows = spark.range(1000).repartition(4).groupBy((F.col("id") % 10).alias("key")).count()
pods = context.parallelize(range(4), 4).map(lambda _: os.environ["SPARK_EXECUTOR_POD_NAME"]).distinct().collect()
print("result", rows.count(), pods, flush=True)
"""


def test_an_executor_runs_the_tasks_of_a_driver(tmp_path: Path) -> None:
    image = SparkImage(tmp_path / "image")
    java = hosts(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # The cluster of this master has one core, so it cannot start an executor of its own.
    settings = {
        "spark.executor.cores": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java,
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with image.starting("submit", "--master", "local-cluster[1,1,1024]", *options, str(program)) as driver:
        said = until(driver, "driver ")
        _, port, application, *options = said.splitlines()[-1].split()
        env = {
            "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@127.0.0.1:{port}",
            "SPARK_APPLICATION_ID": application,
            "SPARK_EXECUTOR_ID": "7",
            "SPARK_EXECUTOR_CORES": "2",
            "SPARK_EXECUTOR_MEMORY": "512m",
            "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
            "SPARK_EXECUTOR_POD_NAME": "orders-b1-exec-7",
            "SPARK_RESOURCE_PROFILE_ID": "0",
            **{f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate([*options, java])},
        }
        with image.starting("executor", env=env):
            assert until(driver, "result ").splitlines()[-1] == "result 10 ['orders-b1-exec-7']"
