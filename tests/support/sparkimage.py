"""The programs of the Spark image as the image starts them, without the image: the real entrypoint, Spark and Java."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark

from tests.support.waiting import HANG_SECONDS

ROOT = Path(__file__).parents[2]
HOME = Path(sys.prefix) / "spark"
# tini is not on every machine: it passes on signals, which no test of this module sends.
TINI = """#!/bin/bash
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


def spark_home() -> Path:
    """Spark with the jars of the image, and no others; made once for an environment.

    Raises:
        CalledProcessError: A jar is missing, or cannot be fetched.
    """
    subprocess.run([ROOT / "spark/jars/home.sh", HOME, pyspark.__path__[0]], check=True)
    return HOME


class SparkImage:
    """The entrypoint with its configuration, in a folder instead of /opt/spark.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "programs"
        programs.mkdir(parents=True)
        (programs / "tini").write_text(TINI)
        (programs / "tini").chmod(0o755)
        text = (ROOT / "spark/entrypoint.sh").read_text()
        assert "/opt/spark/defaults" in text
        self.entrypoint = folder / "entrypoint.sh"
        self.entrypoint.write_text(text.replace("/opt/spark/", f"{folder}/"))
        self.entrypoint.chmod(0o755)
        shutil.copytree(ROOT / "spark/conf", folder / "defaults")
        # A home of its own: Spark's local cluster writes the logs of executors there.
        self.home = folder / "spark"
        self.home.mkdir()
        for part in spark_home().iterdir():
            (self.home / part.name).symlink_to(part)
        self.environment = {
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "SPARK_HOME": str(self.home),
            "PYSPARK_PYTHON": sys.executable,
        }

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a container of the image to its end; both streams are in its standard output.

        Args:
            arguments: Of the entrypoint. The first may be `submit` instead: Spark's own script, without the entrypoint.
            env: Variables of the container beside those of the image.
        """
        with self.starting(*arguments, env=env) as process:
            output, _ = process.communicate(timeout=HANG_SECONDS)
            return subprocess.CompletedProcess(process.args, process.returncode, output)

    @contextlib.contextmanager
    def starting(self, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """As `run`: a container that runs, and is ended with all its processes."""
        command, variables = [str(self.entrypoint), *arguments], self.environment | dict(env or {})
        if arguments[0] == "submit":
            command[:2] = [str(self.home / "bin/spark-submit")]
            variables["SPARK_CONF_DIR"] = str(self.folder / "defaults")
        process = subprocess.Popen(
            command,
            env=variables,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()


def hosts(folder: Path, *names: str) -> str:
    """The option by which Java finds names, and this machine's, at the loopback address."""
    file = folder / "hosts"
    file.write_text(f"127.0.0.1 localhost {socket.gethostname()} {' '.join(names)}\n")
    return f"-Djdk.net.hosts.file={file}"
