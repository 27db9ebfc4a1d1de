"""What a batch takes in a driver of its own and in a resident driver: seconds, CPU, and memory over many batches.

    python -m tests.bench.spark_resident [--batches 20] [--alone 2] [--java=OPTIONS]

Both run the shipped program on this machine against an Azurite, with the files of a batch already drained: first
`--alone` batches, each in a driver of its own, with and without the archive of Java's classes (`make classes`); then
`--batches` in one resident driver. Seconds are from the moment at which the manifest is written to the commit; CPU
seconds are those of Java and Python, including start and end. Live heap is measured after a full collection, which is
only done for a printed row. A batch is frozen a second after the commit before it, so it waits for a compaction that
takes longer; at the end, the compactions have a line of their own.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from random import Random

from azure.storage.blob import BlobServiceClient

from eventconsumer_api.wire.batch import BatchJob, ResidentLimits
from eventconsumer_operator.spark.native import QUICK_START
from tests.bench.machine import cpu_seconds, resident_mib
from tests.integration.spark.drained import DrainedBatch, host_name
from tests.integration.spark.drivers import ROOT, fetch_jars, kill, start_driver, start_options
from tests.support.azurite import AzuriteProcess, azurite_with_client
from tests.support.waiting import wait_until

JOB = ROOT / "spark/src/eventconsumer_spark/job.py"
JAVAS_ARCHIVE = Path(shutil.which("java") or "java").resolve().parents[1] / "lib/server/classes.jsa"
SETTLE_SECONDS = 1.0
"""Time after a commit for what a driver does before it waits again."""


@dataclass(frozen=True)
class Taken:
    """What one batch took."""

    seconds: float
    cpu: float


class Driver:
    """The processes of a driver: Java, and the Python program that it started."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.java = process.pid  # spark-submit becomes Java
        self.python = wait_until(self._child, "the program's process")

    def _child(self) -> int | None:
        # A thread of Java starts it, in the same group. spark-submit runs other programs of Python and Java before.
        pids = [path.name for path in Path("/proc").iterdir() if path.name.isdigit() and self._owns(path.name)]
        named = (int(pid) for pid in pids if self._arguments(pid)[:2] == [sys.executable, str(JOB)])
        return next(named, None)

    def _owns(self, pid: str) -> bool:
        with contextlib.suppress(ProcessLookupError):
            return os.getpgid(int(pid)) == self.java
        return False

    def _arguments(self, pid: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return []

    @property
    def cpu(self) -> float:
        """CPU time so far, seconds."""
        return cpu_seconds(self.java) + cpu_seconds(self.python)

    @property
    def threads(self) -> int:
        """Threads of both."""
        return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in (self.java, self.python))

    def live_heap(self) -> float:
        """Size of the objects that a full collection of Java leaves, MiB."""
        shown = subprocess.run(
            ["jcmd", str(self.java), "GC.class_histogram"], capture_output=True, text=True, check=True
        )
        return int(shown.stdout.splitlines()[-1].split()[2]) / 1024**2


class Bench:
    """A consumer whose files are drained and frozen here."""

    def __init__(self, azurite: AzuriteProcess, service: BlobServiceClient, folder: Path, options: argparse.Namespace):
        secret = folder / "connectionString"
        secret.write_text(azurite.connection_string)
        self.drained = DrainedBatch(service.create_container(azurite.container()), host_name(azurite.port), str(secret))
        self.jars, self.folder, self.options = fetch_jars(), folder, options
        self.log = folder / "driver.log"
        self.number = 0
        self._random = Random(1)

    def freeze(self) -> BatchJob:
        """Drain the files of the next batch and freeze it."""
        self.number += 1
        self.drained.files, self.drained.events = [], []
        each = self.options.events // self.options.files
        for file in range(self.options.files):
            self.drained.slot(str(file), (self.number - 1) * each, each, self._body)
        return self.drained.freeze(self.number)

    def start(self, job: BatchJob, *, archive: bool = True) -> subprocess.Popen[str]:
        """Start the driver of a job, with the archive of classes or with Java's own, which has no class of Spark."""
        option = start_options(self.jars)[1] if archive else f"-XX:SharedArchiveFile={JAVAS_ARCHIVE}"
        options = f"-Djdk.net.hosts.file={self.folder / 'hosts'} {self.options.java} {option}"
        conf = {"spark.driver.extraJavaOptions": options, "spark.driver.memory": self.options.memory}
        # Without the sizes that tests set: as the operator starts it, in the environment of the image.
        conf |= {"spark.sql.shuffle.partitions": "8"}
        # A file: nobody reads while the driver runs, and a pipe would be full after about a hundred batches.
        with self.log.open("w") as output:
            env = {"MALLOC_ARENA_MAX": "2"}
            return start_driver(self.jars, self.folder, job, JOB, conf=conf, env=env, output=output)

    def committed(self, process: subprocess.Popen[str]) -> None:
        """Wait until the newest batch is committed.

        Raises:
            RuntimeError: The driver ended before.
        """

        def look() -> bool:
            done = self.drained.commit(self.number) is not None
            if not done and process.poll() is not None:
                raise RuntimeError(f"the driver ended: {self.log.read_text()[-5000:]}")
            return done

        wait_until(look, f"commit {self.number}", pause=0.02)

    def compactions(self) -> list[float]:
        """How long each compaction of the last driver took, seconds after the commit before it."""
        times, committed = [], None
        for line in self.log.read_text().splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            message = entry.get("message", "")
            if ": committed " in message:
                committed = datetime.fromisoformat(entry["timestamp"])
            elif ": compacted " in message and committed:
                times.append((datetime.fromisoformat(entry["timestamp"]) - committed).total_seconds())
        return times

    def _body(self, number: int) -> bytes:
        return b'{"id": %d, "state": "running", "trace": "%s"}' % (number, self._random.randbytes(100).hex().encode())


def alone(bench: Bench, *, archive: bool) -> Taken:
    """One batch in a driver of its own."""
    job = bench.freeze()
    began = time.monotonic()
    before = os.times()
    process = bench.start(job, archive=archive)
    bench.committed(process)
    seconds = time.monotonic() - began
    process.communicate()
    after = os.times()
    # Children that have ended and were waited for: spark-submit, which waits for its own.
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Taken(seconds, cpu)


def resident(bench: Bench, count: int, show: Callable[[int, Taken, Driver], None]) -> None:
    """Batches in one driver; `show` gets each, with the processes of the driver."""
    limits = ResidentLimits(seconds=600, max_batches=count, max_bytes=2**40)
    job = bench.freeze()
    began = time.monotonic()
    process = bench.start(job.model_copy(update={"resident": limits}))
    try:
        driver, cpu = Driver(process), 0.0
        for number in range(1, count + 1):
            if number > 1:
                job = bench.freeze()
                began = time.monotonic()
            bench.committed(process)
            seconds = time.monotonic() - began
            if number < count:
                time.sleep(SETTLE_SECONDS)
                now = driver.cpu
                show(number, Taken(seconds, now - cpu), driver)
                cpu = driver.cpu
        process.communicate()
        if process.returncode:
            raise RuntimeError(f"the driver ended with {process.returncode}")
    finally:
        kill(process)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=20, help="in the resident driver")
    parser.add_argument("--alone", type=int, default=2, help="batches with a driver each")
    parser.add_argument("--events", type=int, default=20_000, help="in a batch")
    parser.add_argument("--files", type=int, default=8, help="in a batch")
    parser.add_argument("--every", type=int, help="print every so many batches; default: 50, or 1 for up to 50 batches")
    parser.add_argument("--java", default=QUICK_START, help="options of the JVM; default: %(default)s")
    parser.add_argument("--memory", default="1g", help="maximum heap of the JVM")
    options = parser.parse_args()
    every = options.every or (1 if options.batches <= 50 else 50)
    print(f"{options.events:,} events in {options.files} files; JVM options: {options.java or 'none'}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with azurite_with_client(folder) as (azurite, service):
            bench = Bench(azurite, service, folder, options)
            for number, archive in product(range(options.alone), (True, False)):
                taken, way = alone(bench, archive=archive), "with" if archive else "without"
                print(
                    f"own driver {way} the archive of classes, batch {number + 1}: {taken.seconds:.1f} s, "
                    f"{taken.cpu:.1f} CPU s",
                    flush=True,
                )
            run_resident(bench, options.batches, every)
    return 0


def run_resident(bench: Bench, batches: int, every: int) -> None:
    """Print a row for every so many batches: means of their seconds, and the memory after them."""
    recent: list[Taken] = []
    print("resident  seconds  (worst)  CPU s   RSS MiB: Java  Python   live heap MiB   threads")

    def show(number: int, taken: Taken, driver: Driver) -> None:
        recent.append(taken)
        if number != 1 and number % every:
            return
        mean, worst = sum(one.seconds for one in recent) / len(recent), max(one.seconds for one in recent)
        cpu = sum(one.cpu for one in recent) / len(recent)
        print(
            f"{number:>8}{mean:>9.2f}{worst:>9.2f}{cpu:>7.2f}{resident_mib(driver.java):>16.0f}"
            f"{resident_mib(driver.python):>8.0f}{driver.live_heap():>16.1f}{driver.threads:>10}",
            flush=True,
        )
        recent.clear()

    resident(bench, batches, show)
    if times := bench.compactions():
        mean = sum(times) / len(times)
        print(f"{len(times)} compactions after a commit: mean {mean:.1f} s, longest {max(times):.1f} s")


if __name__ == "__main__":
    sys.exit(main())
