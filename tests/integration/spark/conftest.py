"""A driver process as the image runs it, with `local[2]` instead of executor pods, against a real Azurite."""

import contextlib
import gc
import subprocess
import warnings
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from azure.storage.blob import BlobServiceClient
from pyspark.sql import SparkSession

from eventconsumer_api.wire.batch import BatchJob
from tests.integration.spark import live
from tests.integration.spark.consumer import Consumer
from tests.integration.spark.drained import DrainedBatch, host_name
from tests.integration.spark.drivers import EXAMPLE, fetch_jars, kill, start_driver
from tests.support.azurite import AzuriteProcess
from tests.support.waiting import HANG_SECONDS

Driver = Callable[..., subprocess.CompletedProcess[str]]
Launch = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="session")
def jars() -> str:
    """Folder of the image's jars."""
    return fetch_jars()


@pytest.fixture
def service(azurite: AzuriteProcess) -> Iterator[BlobServiceClient]:
    with BlobServiceClient.from_connection_string(azurite.connection_string) as client:
        yield client


@pytest.fixture
def drained(azurite: AzuriteProcess, service: BlobServiceClient, tmp_path: Path) -> DrainedBatch:
    """An empty container, and the mounted Secret that opens it."""
    secret = tmp_path / "connectionString"
    secret.write_text(azurite.connection_string)
    return DrainedBatch(service.create_container(azurite.container()), host_name(azurite.port), str(secret))


@pytest.fixture
def launch(jars: str, tmp_path: Path) -> Iterator[Launch]:
    """Start a program as the driver of a job; ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(job: BatchJob, program: Path = EXAMPLE, **options: Any) -> subprocess.Popen[str]:
        started.append(start_driver(jars, tmp_path, job, program, **options))
        return started[-1]

    yield start
    for process in started:
        kill(process)
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def driver(launch: Launch) -> Driver:
    """Run a program as the driver of a job and return the finished process."""

    def run(job: BatchJob, program: Path = EXAMPLE, **options: Any) -> subprocess.CompletedProcess[str]:
        process = launch(job, program, **options)
        output, _ = process.communicate(timeout=HANG_SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    return run


@pytest.fixture
def result(service: BlobServiceClient) -> Callable[[BatchJob], list[dict[str, Any]]]:
    """Rows of a job's output, read without Spark."""

    def read(job: BatchJob) -> list[dict[str, Any]]:
        container = service.get_container_client(f"{job.sink.container}-out")
        rows: list[dict[str, Any]] = []
        for blob in container.list_blobs(name_starts_with=f"results/batch={job.number}/"):
            if blob.name.endswith(".parquet"):
                rows += pq.read_table(BytesIO(container.download_blob(blob.name).readall())).to_pylist()
        return rows

    return read


@pytest.fixture(scope="session")
def session(jars: str, azurite: AzuriteProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark session for the tests of what runs inside of a driver; take `spark`."""
    spark = live.start(jars, azurite, tmp_path_factory.mktemp("spark") / "hosts")
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    with unclosed_sockets():
        live.stop(spark)


@pytest.fixture
def spark(session: SparkSession) -> Iterator[SparkSession]:
    """The Spark session."""
    with unclosed_sockets():
        yield session


@pytest.fixture
def consumer(
    spark: SparkSession, drained: DrainedBatch, azurite: AzuriteProcess, service: BlobServiceClient
) -> Iterator[Consumer]:
    container = service.create_container(f"{drained.container.container_name}-out")
    yield Consumer(spark, drained, azurite)
    container.delete_container()


@contextlib.contextmanager
def unclosed_sockets() -> Iterator[None]:
    """Py4J leaves its connections to the garbage collector, which is let run here and nowhere else."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket.socket", ResourceWarning)
        yield
        gc.collect()
