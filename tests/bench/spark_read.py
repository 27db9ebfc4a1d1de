"""Rows a second of the shipped Spark program, against Spark alone over the same files in the same run.

`python -m tests.bench.spark_read` prints a table for each storage, local files and an Azurite on this machine: a bare
count and a bare `read.parquet(…).write` of drained files, then the program, with its checks, for each kind of output.
The ways run in turn, so each round compares them under the same load of the machine; the ratio is the median over the
rounds. Azurite uses the cores of this machine, so the figures of local files are those of Spark.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from azure.storage.blob import BlobServiceClient
from pyspark.sql import SparkSession

from eventconsumer_api.batch import BatchFile, BatchJob, BatchManifest, Totals
from eventconsumer_api.host_config import BlobLocation, Credential, ResourceRef
from eventconsumer_api.spark import Output
from eventconsumer_processor.sink import parquet
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.rows import EventRows, FlatMap
from eventconsumer_spark import Batch
from eventconsumer_spark.input.reading import check_count, read_events
from eventconsumer_spark.job import write_batch
from eventconsumer_spark.output.folder import remove_folder
from eventconsumer_spark.storage.abfs import AbfsFolder
from tests.integration.spark import live
from tests.integration.spark.drivers import fetch_jars
from tests.support.azurite import AzuriteProcess

PREFIX = "bench/orders"
BODY_BYTES = 1024
RESOURCE = ResourceRef(namespace="bench", name="orders", uid="bench")
SCHEMA = "site STRING, sensor STRING, unit STRING, state STRING, id BIGINT, value DOUBLE, trace STRING"
START_MS = 1_767_323_045_000
BARE = "bare read, write Parquet"
"""The way to which the others are compared; with the zstd level that Parquet has without our settings."""
PARQUETS_LEVEL = ("parquet.compression.codec.zstd.level", 3)


@dataclass(frozen=True)
class LocalFolder(AbfsFolder):
    """A folder of this machine, `path`, in place of one in a storage account."""

    def child(self, path: str) -> str:
        """URI of a file in this folder."""
        return f"file://{self.path}/{path}"


@dataclass(frozen=True)
class Place:
    """A storage: its name, its root as Spark names it, and how to put a file there."""

    name: str
    root: AbfsFolder
    put: Callable[[str, bytes], Any]


def drained_file(put: Callable[[str, bytes], Any], partition: str, first: int, count: int) -> BatchFile:
    """Put one file, as a host encodes it, of events with a JSON body of 1 KB that compresses about as logs do."""
    rng = Random(first)
    numbers = range(first, first + count)
    stem = json.dumps({"site": "north", "sensor": partition, "unit": "kPa", "state": "running"})[:-1]
    bodies: list[bytes | None] = []
    for number in numbers:
        text = f'{stem}, "id": {number}, "value": {rng.random()}, "trace": "{rng.randbytes(300).hex()}"}}'
        bodies.append(text.ljust(BODY_BYTES).encode())
    ends, texts = list(range(1, count + 1)), [str(number) for number in numbers]
    none: list[str | None] = [None] * count
    rows = EventRows(
        list(numbers),
        [str(number * 1000) for number in numbers],
        [START_MS + number for number in numbers],
        [f"key-{number % 1000}" for number in numbers],
        bodies,
        FlatMap(ends, ["id"] * count, texts),
        FlatMap([0] * count),
        none,
        none,
        none,
    )
    content = b"".join(parquet.encode([EventBatch.of(rows)], partition, {}))
    path = f"{PREFIX}/inc=0/partition={partition}/from={first:020d}.parquet"
    put(path, content)
    last = first + count - 1
    return BatchFile(path=path, etag="", size=len(content), partition=partition, first=first, last=last, count=count)


def batch_of(spark: SparkSession, files: list[BatchFile], root: AbfsFolder, name: str, **output: Any) -> Batch:
    """The files as the first batch of a new output."""
    manifest = BatchManifest(
        number=1, chain="c", created_at=datetime.now(UTC), reason="Files", resource=RESOURCE, incarnation="0",
        files=files, ranges={}, next={}, totals=Totals(),
    )  # fmt: skip
    job = BatchJob(
        chain="c",
        resource=RESOURCE,
        application="bench",
        number=manifest.number,
        sink=BlobLocation(container="bench", prefix=PREFIX, credential=Credential(field="bench")),
        output=Output(path="abfs://bench@bench.localhost/out", **output),
    )
    events = read_events(spark, manifest, root)
    table = root.child(name)
    return Batch(spark, job, manifest, events, table, f"{table}/_batch=1", f"{table}_quarantine/_batch=1", "c")


def shipped(batch: Batch) -> int:
    """What a driver does between claim and commit."""
    rows = check_count(batch.events, batch.manifest)
    write_batch(batch)
    return rows


def ways(spark: SparkSession, files: list[BatchFile], root: AbfsFolder) -> dict[str, Callable[[str], Any]]:
    """What is compared; each takes the name of a new output."""
    paths = [root.child(file.path) for file in files]

    def program(**output: Any) -> Callable[[str], Any]:
        return lambda name: shipped(batch_of(spark, files, root, name, **output))

    return {
        "bare read, count": lambda _: spark.read.parquet(*paths).count(),
        BARE: lambda name: spark.read.parquet(*paths).write.option(*PARQUETS_LEVEL).parquet(root.child(name)),
        "the same, zstd level 1 as ours": lambda name: spark.read.parquet(*paths).write.parquet(root.child(name)),
        "program, Parquet": program(format="Parquet"),
        "program, Delta": program(),
        "program, Delta by date": program(partitionByDate=True),
        "program, Delta, JSON parsed": program(body={"type": "Json", "schema": SCHEMA}),
    }


def measure(spark: SparkSession, place: Place, options: argparse.Namespace) -> None:
    """Run each way over the same files, and print one line for it."""
    each = options.rows // options.files
    files = [drained_file(place.put, str(n % 4), n // 4 * each, each) for n in range(options.files)]
    size = sum(file.size for file in files)
    total = each * options.files
    cores = spark.sparkContext.defaultParallelism
    print(f"{place.name}: {total:,} events of {BODY_BYTES} bytes, {options.files} files, {size / 1024**2:.0f} MiB")
    found = ways(spark, files, place.root)
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for number in range(options.warm_up + options.rounds):
        for name, run in found.items():
            taken = timed(lambda run=run: run("out"))  # type: ignore[misc]
            if number >= options.warm_up:
                seconds[name].append(taken)
            for folder in ("out", "out_quarantine"):
                remove_folder(spark, place.root.child(folder))
    print(f"  median of {options.rounds} rounds, {cores} cores          seconds        rows/s   of bare   (range)")
    for name, times in seconds.items():
        ratios = sorted(bare / own for bare, own in zip(seconds[BARE], times, strict=True))
        middle, ratio = statistics.median(times), statistics.median(ratios)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"  {name:<32}{middle:14.2f}{total / middle:14,.0f}{ratio:10.2f}   ({spread})", flush=True)


def timed(run: Callable[[], Any]) -> float:
    """Seconds that `run` takes."""
    begin = time.monotonic()
    run()
    return time.monotonic() - begin


@contextmanager
def place_named(name: str, azurite: AzuriteProcess, scratch: Path) -> Iterator[Place]:
    """An empty storage: `local` or `azurite`."""
    if name == "azurite":
        with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
            container = service.create_container("bench")
            yield Place(name, live.folder("bench", azurite), container.upload_blob)
            container.delete_container()
        return
    folder = scratch / "bench"

    def put(path: str, content: bytes) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)

    yield Place(name, LocalFolder("file", "", "", str(folder)), put)
    shutil.rmtree(folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before these, in which the JVM compiles")
    parser.add_argument("--storage", nargs="+", choices=["local", "azurite"], default=["local", "azurite"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        azurite = AzuriteProcess(scratch / "azurite.log")
        azurite.start()
        try:
            spark = live.start(fetch_jars(), azurite, scratch / "hosts", compiler="")
            spark.sparkContext.setLogLevel("ERROR")
            try:
                for storage in options.storage:
                    with place_named(storage, azurite, scratch) as place:
                        measure(spark, place, options)
            finally:
                live.stop(spark)
        finally:
            azurite.close()


if __name__ == "__main__":
    main()
