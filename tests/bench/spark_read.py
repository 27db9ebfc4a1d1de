"""Rows and CPU time of the shipped Spark program, against Spark alone over the same files in the same run.

`python -m tests.bench.spark_read` prints a table for each storage, local files and an Azurite on this machine: a bare
count, a bare `read.parquet(…).write` of drained files and the same with `from_json`, then the program, with its checks,
for each kind of output. Files that have columns of the bodies (`spec.sink.body`) are compared with Spark alone over the
same files, which writes the same columns. The ways run in turn, so each round compares them under the same load of the
machine; a ratio is the median over the rounds. CPU time is that of the driver, Java and Python; it depends less on
other load than seconds do. Azurite uses the cores of this machine, so the figures of local files are those of Spark.

With `--executors 2`, tasks run in two processes beside the driver, one task in each, and CPU time includes theirs. On a
machine with two cores, more executors than cores measure the machine, not Spark.

Growth: `--rows 1000000 4000000` measures each number of rows, and `--cores 1` one core instead of two.
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
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from azure.storage.blob import BlobServiceClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from eventconsumer_api.spec.body_columns import schema_columns
from eventconsumer_api.spec.spark import SparkOutput
from eventconsumer_api.wire.batch import BatchFile, BatchJob, BatchManifest, Totals
from eventconsumer_api.wire.file_columns import ERROR, of_bodies
from eventconsumer_api.wire.host_config import BlobLocation, BodyConfig, Credential, ResourceRef
from eventconsumer_host.sink import parquet
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.rows import EventRows, FlatMap
from eventconsumer_host.source.schema import arrow_schema
from eventconsumer_spark import Batch
from eventconsumer_spark.input.reading import check_count, read_events
from eventconsumer_spark.job import write_batch
from eventconsumer_spark.output.folder import remove_folder
from eventconsumer_spark.storage.abfs import AbfsFolder
from tests.bench.machine import cpu_seconds, with_children
from tests.integration.spark import live
from tests.integration.spark.drivers import fetch_jars
from tests.support.azurite import AzuriteProcess

PREFIX = "bench/orders"
BODY_BYTES = 1024
RESOURCE = ResourceRef(namespace="bench", name="orders", uid="bench")
SCHEMA = "site STRING, sensor STRING, unit STRING, state STRING, id BIGINT, value DOUBLE, trace STRING"
BODY = BodyConfig.of(schema_columns(SCHEMA))
"""The same as columns of files."""
START_MS = 1_767_323_045_000
BARE = "bare read, write Parquet"
"""The way to which the others are compared, with our zstd level, 1."""
TYPED = "bare, columns of files"
"""The way to which those are compared that read files with columns of bodies."""
PARQUETS_LEVEL = ("parquet.compression.codec.zstd.level", 3)
"""The level that Parquet has without our settings."""


@dataclass(frozen=True)
class LocalFolder(AbfsFolder):
    """A folder of this machine, `path`, in place of one in a storage account."""

    def child(self, path: str) -> str:
        """URI of a file in this folder."""
        return f"file://{self.path}/{path}"


@dataclass(frozen=True)
class StorageRoot:
    """A storage: its name, its root as Spark names it, and how to put a file there."""

    name: str
    root: AbfsFolder
    put: Callable[[str, bytes], Any]


def drained_file(
    put: Callable[[str, bytes], Any], prefix: str, partition: str, first: int, count: int, body: BodyConfig | None
) -> BatchFile:
    """Put one file, as a host encodes it, of events with a JSON body of 1 KB that compresses about as logs do.

    Args:
        put: Puts a file.
        prefix: The folder of all files.
        partition: Its partition.
        first: The first sequence number.
        count: The number of events.
        body: Columns of the bodies.
    """
    rng = Random(first)
    numbers = range(first, first + count)
    stem = {"site": "north", "sensor": partition, "unit": "kPa", "state": "running"}
    values = [stem | {"id": each, "value": rng.random(), "trace": rng.randbytes(300).hex()} for each in numbers]
    bodies: list[bytes | None] = [json.dumps(each).ljust(BODY_BYTES).encode() for each in values]
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
    columns = body.parsed() if body else ()
    typed = pa.RecordBatch.from_pylist(values, arrow_schema(of_bodies(columns))) if columns else None
    batch = EventBatch(EventBatch.of(rows).columns, typed=typed)
    content = b"".join(parquet.encode([batch], partition, {}, columns))
    path = f"{prefix}/segment=0/partition={partition}/from={first:020d}.parquet"
    put(path, content)
    last = first + count - 1
    return BatchFile(path=path, etag="", size=len(content), partition=partition, first=first, last=last, count=count)


def batch_of(
    spark: SparkSession, files: list[BatchFile], root: AbfsFolder, name: str, columns: BodyConfig | None, **output: Any
) -> Batch:
    """The files as the first batch of a new output."""
    manifest = BatchManifest(
        number=1,
        chain="c",
        created_at=datetime.now(UTC),
        reason="Files",
        resource=RESOURCE,
        segment_id="0",
        files=files,
        ranges={},
        next={},
        totals=Totals(),
    )
    job = BatchJob(
        chain="c",
        resource=RESOURCE,
        application="bench",
        number=manifest.number,
        sink=BlobLocation(container="bench", prefix=PREFIX, credential=Credential(field="bench")),
        output=SparkOutput(path="abfs://bench@bench.localhost/out", **output),
        body=columns,
    )
    events = read_events(spark, manifest, root, job.columns)
    table = root.child(name)
    return Batch(spark, job, manifest, events, table, f"{table}/batch=1", f"{table}_quarantine/batch=1", "c")


def shipped(batch: Batch) -> int:
    """What a driver does between claim and commit."""
    rows = check_count(batch.events, batch.manifest)
    write_batch(batch)
    return rows


def ways(
    spark: SparkSession, files: list[BatchFile], typed: list[BatchFile], root: AbfsFolder
) -> dict[str, Callable[[str], Any]]:
    """What is compared; each takes the name of a new output."""
    paths = [root.child(file.path) for file in files]
    parsed = F.from_json(F.col("body").cast("string"), SCHEMA)
    flat = {"columns": "FromSink"}

    def program(**output: Any) -> Callable[[str], Any]:
        return lambda name: shipped(batch_of(spark, files, root, name, None, **output))

    def of_columns(**output: Any) -> Callable[[str], Any]:
        return lambda name: shipped(batch_of(spark, typed, root, name, BODY, body=flat, **output))

    def bare_columns(name: str) -> None:
        events = spark.read.parquet(*(root.child(file.path) for file in typed))
        events.drop("body", ERROR.name).write.parquet(root.child(name))

    return {
        "bare read, count": lambda _: spark.read.parquet(*paths).count(),
        BARE: lambda name: spark.read.parquet(*paths).write.parquet(root.child(name)),
        "the same, Parquet's zstd level": lambda name: (
            spark.read.parquet(*paths).write.option(*PARQUETS_LEVEL).parquet(root.child(name))
        ),
        "the same with from_json": lambda name: (
            spark.read.parquet(*paths).withColumn("body", parsed).write.parquet(root.child(name))
        ),
        "program, Parquet": program(format="Parquet"),
        "program, Delta": program(),
        "program, Delta by date": program(partitionByDate=True),
        "program, Delta, JSON parsed": program(body={"type": "Json", "schema": SCHEMA}),
        TYPED: bare_columns,
        "program, Parquet, columns": of_columns(format="Parquet"),
        "program, Delta, columns": of_columns(),
    }


@dataclass(frozen=True)
class Taken:
    """What one run of a way takes: seconds, and CPU seconds of driver and executors."""

    seconds: float
    cpu: float


def measure(spark: SparkSession, place: StorageRoot, rows: int, options: argparse.Namespace) -> None:
    """Run each way over the same files, and print one line for it."""
    each = rows // options.files
    files, typed = (
        [drained_file(place.put, prefix, str(n % 4), n // 4 * each, each, body) for n in range(options.files)]
        for prefix, body in ((PREFIX, None), (f"{PREFIX}-typed", BODY))
    )
    size = sum(file.size for file in files)
    total = each * options.files
    cores = spark.sparkContext.defaultParallelism
    print(f"{place.name}: {total:,} events of {BODY_BYTES} bytes, {options.files} files, {size / 1024**2:.0f} MiB")
    made = ways(spark, files, typed, place.root)
    found = {name: run for name, run in made.items() if name in (options.only or [name])}
    bases = dict.fromkeys(list(made)[list(made).index(TYPED) + 1 :], TYPED)
    taken: dict[str, list[Taken]] = {name: [] for name in found}
    for number in range(options.warm_up + options.rounds):
        for name, run in found.items():
            one = timed(spark, lambda run=run: run("out"))  # type: ignore[misc]
            if number >= options.warm_up:
                taken[name].append(one)
            for folder in ("out", "out_quarantine"):
                remove_folder(spark, place.root.child(folder))
    heads = ("seconds", "rows/s", "of bare", "(range)", "CPU s", "of bare")
    print(f"  {f'median of {options.rounds} rounds, {cores} cores':<32}" + "".join(f"{head:>14}" for head in heads))
    for name, runs in taken.items():
        seconds, cpu = statistics.median(one.seconds for one in runs), statistics.median(one.cpu for one in runs)
        pairs = list(zip(taken[bases.get(name, BARE)], runs, strict=True))
        ratios = sorted(bare.seconds / own.seconds for bare, own in pairs)
        of_cpu = statistics.median(bare.cpu / own.cpu for bare, own in pairs)
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(
            f"  {name:<32}{seconds:14.2f}{total / seconds:14,.0f}{statistics.median(ratios):14.2f}{spread:>14}"
            f"{cpu:14.2f}{of_cpu:14.2f}",
            flush=True,
        )


def timed(spark: SparkSession, run: Callable[[], Any]) -> Taken:
    """What `run` takes."""

    def cpu() -> float:
        return sum(map(cpu_seconds, with_children(java))) + time.process_time()

    java = spark.sparkContext._gateway.proc.pid
    before, begin = cpu(), time.monotonic()
    run()
    return Taken(time.monotonic() - begin, cpu() - before)


@contextmanager
def place_named(name: str, azurite: AzuriteProcess, scratch: Path) -> Iterator[StorageRoot]:
    """An empty storage: `local` or `azurite`."""
    if name == "azurite":
        with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
            container = service.create_container("bench")
            yield StorageRoot(name, live.folder("bench", azurite), container.upload_blob)
            container.delete_container()
        return
    folder = scratch / "bench"

    def put(path: str, content: bytes) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)

    yield StorageRoot(name, LocalFolder("file", "", "", str(folder)), put)
    shutil.rmtree(folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[300_000])
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before these, in which the JVM compiles")
    parser.add_argument("--storage", nargs="+", choices=["local", "azurite"], default=["local", "azurite"])
    parser.add_argument("--cores", type=int, default=2, help="of Spark")
    parser.add_argument("--executors", type=int, default=0, help="instead of tasks in the driver")
    parser.add_argument("--only", nargs="+", metavar="WAY", help="these lines of the table, and the bare ones")
    options = parser.parse_args()
    options.only = options.only and [BARE, TYPED, *options.only]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        azurite = AzuriteProcess(scratch / "azurite.log")
        azurite.start()
        try:
            tasks = {"cores": options.cores, "executors": options.executors}
            spark = live.start(fetch_jars(), azurite, scratch / "hosts", compiler="", **tasks)
            spark.sparkContext.setLogLevel("ERROR")
            try:
                for storage, rows in product(options.storage, options.rows):
                    with place_named(storage, azurite, scratch) as place:
                        measure(spark, place, rows, options)
            finally:
                live.stop(spark)
        finally:
            azurite.close()


if __name__ == "__main__":
    main()
