"""A driver process as the image runs it, with `local[2]` instead of executor pods, against a real Azurite."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from azure.storage.blob import BlobServiceClient

from eventconsumer_api.batch import BatchJob
from eventconsumer_api.labels import BATCH_JOB_ENV
from tests.azurite import ACCOUNT, AzuriteProcess
from tests.integration.spark.drained import DrainedBatch, host_name

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "spark/examples/events_per_key.py"

Driver = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def jars() -> str:
    """Folder of the ABFS connector and what it needs; fetched once for a user."""
    fetched = subprocess.run([ROOT / "spark/jars/fetch.sh"], capture_output=True, text=True, check=False)
    assert fetched.returncode == 0, fetched.stderr
    return fetched.stdout.strip()


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
def driver(jars: str, tmp_path: Path) -> Driver:
    """Run a program as the driver of a job and return the finished process."""
    # Java alone must know the product-style name; Python goes to the address in the connection string.
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {ACCOUNT}.blob.localhost {socket.gethostname()}\n")

    def run(job: BatchJob, program: Path = EXAMPLE, conf: dict[str, str] | None = None) -> Any:
        settings = {
            "spark.master": "local[2]",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraClassPath": f"{jars}/*",
            # Half of a short run is the compiler's work.
            "spark.driver.extraJavaOptions": f"-Djdk.net.hosts.file={hosts} -XX:TieredStopAtLevel=1",
            "spark.sql.shuffle.partitions": "2",
            **(conf or {}),
        }
        options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        return subprocess.run(
            [Path(sys.executable).parent / "spark-submit", *options, program],
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_CONF_DIR": str(ROOT / "spark/conf"),
                "PYSPARK_PYTHON": sys.executable,
                BATCH_JOB_ENV: job.model_dump_json(by_alias=True),
            },
            cwd=tmp_path,
            # As in a pod's log: Spark passes the program's standard error on to standard output.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=110,
            check=False,
        )

    return run


@pytest.fixture
def result(service: BlobServiceClient) -> Callable[[BatchJob], list[dict[str, Any]]]:
    """Rows of a job's output, read without Spark."""

    def read(job: BatchJob) -> list[dict[str, Any]]:
        container = service.get_container_client(f"{job.sink.container}-out")
        rows: list[dict[str, Any]] = []
        for blob in container.list_blobs(name_starts_with=f"results/_batch={job.number}/"):
            if blob.name.endswith(".parquet"):
                rows += pq.read_table(BytesIO(container.download_blob(blob.name).readall())).to_pylist()
        return rows

    return read
