"""Driver processes as the image runs them, with `local[2]` instead of executor pods."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from eventconsumer_api.kube.labels import BATCH_JOB_ENV
from eventconsumer_api.wire.batch import BatchJob
from tests.support.azurite import ACCOUNT
from tests.support.sparkimage import spark_home

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "spark/examples/events_per_key.py"
ARCHIVE = Path(sys.prefix) / "classes/classes.jsa"


def fetch_jars() -> str:
    """Folder of the image's jars."""
    return str(spark_home() / "jars")


def start_options(jars: str) -> tuple[str, str]:
    """Class path before Spark's own jars, and the option for the archive of classes, which `make test` makes.

    Args:
        jars: Folder of the image's jars.
    """
    classpath = ARCHIVE.with_name("classpath")
    if not ARCHIVE.exists():
        return f"{jars}/*", ""
    return classpath.read_text(), f"-XX:SharedArchiveFile={ARCHIVE}"


def start_driver(
    jars: str,
    folder: Path,
    job: BatchJob,
    program: Path = EXAMPLE,
    *,
    conf: dict[str, str] | None = None,
    env: dict[str, str] | None = None,
    output: IO[str] | int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start a program as the driver of a job, in a process group of its own, as a container's is."""
    # Java alone must know the product-style name; Python goes to the address in the connection string.
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {ACCOUNT}.blob.localhost {socket.gethostname()}\n")
    classpath, archive = start_options(jars)
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraClassPath": classpath,
        # Half of a short run is the compiler's work.
        "spark.driver.extraJavaOptions": f"-Djdk.net.hosts.file={hosts} -XX:TieredStopAtLevel=1 {archive}",
        "spark.sql.shuffle.partitions": "2",
        **(conf or {}),
    }
    options = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    return subprocess.Popen(
        [Path(sys.executable).parent / "spark-submit", *options, program],
        env={
            **os.environ,
            "SPARK_HOME": str(Path(jars).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(ROOT / "spark/conf"),
            "PYSPARK_PYTHON": sys.executable,
            BATCH_JOB_ENV: job.to_json(),
            **(env or {}),
        },
        cwd=folder,
        # As in a pod's log: Spark passes the program's standard error on to standard output.
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def until(process: subprocess.Popen[str], word: str) -> str:
    """Read a driver's output until it says `word`."""
    assert process.stdout
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if line.startswith(word):
            return "".join(said)
    raise AssertionError(f"the driver ended before it said {word}: {''.join(said)}")


def kill(process: subprocess.Popen[str]) -> None:
    """End a driver at once, Java and Python, as the end of its container does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
