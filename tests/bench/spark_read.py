"""Rows a second of the shipped Spark program, against Spark alone over the same files in the same run.

`python -m tests.bench.spark_read` prints one table: a bare count and a bare `read.parquet(…).write` of the drained
files, then the program with Delta and with Parquet as its output, each with its checks; bodies as bytes, and as JSON
with a schema. Storage is an Azurite on this machine, so the ratios say more than the figures.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.blob import BlobServiceClient, ContainerClient
from pyspark.sql import SparkSession

from eventconsumer_api.batch import BatchFile, BatchJob, BatchManifest, Totals
from eventconsumer_api.host_config import BlobLocation, Credential, ResourceRef
from eventconsumer_api.spark import Output
from eventconsumer_spark import Batch
from eventconsumer_spark.batch import folders
from eventconsumer_spark.input.reading import check_count, read_events
from eventconsumer_spark.job import write_batch
from eventconsumer_spark.storage.abfs import AbfsFolder
from tests.integration.spark import live
from tests.integration.spark.drained import SCHEMA
from tests.integration.spark.drivers import fetch_jars
from tests.support.azurite import AzuriteProcess

PREFIX = "bench/orders"
BODY_BYTES = 1024
RESOURCE = ResourceRef(namespace="bench", name="orders", uid="bench")


def drained_file(container: ContainerClient, partition: str, first: int, count: int) -> BatchFile:
    """Put one file of events with a JSON body of 1 KB that compresses about as logs do."""
    rng = Random(first)
    numbers = range(first, first + count)
    stem = json.dumps({"site": "north", "sensor": partition, "unit": "kPa", "state": "running"})[:-1]
    bodies = []
    for number in numbers:
        text = f'{stem}, "id": {number}, "value": {rng.random()}, "trace": "{rng.randbytes(300).hex()}"}}'
        bodies.append(text.ljust(BODY_BYTES).encode())
    now = datetime(2026, 1, 2, tzinfo=UTC)
    columns: list[Any] = [list(numbers), [str(number * 1000) for number in numbers], [now] * count]
    columns += [[f"key-{number % 1000}" for number in numbers], [partition] * count, bodies]
    columns += [
        [[("id", str(number))] for number in numbers],
        [[]] * count,
        [None] * count,
        [None] * count,
        [None] * count,
    ]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), buffer, compression="zstd", compression_level=1)
    content = buffer.getvalue().to_pybytes()
    path = f"{PREFIX}/inc=0/partition={partition}/from={first:020d}.parquet"
    container.upload_blob(path, content)
    last = first + count - 1
    return BatchFile(path=path, etag="", size=len(content), partition=partition, first=first, last=last, count=count)


def batch_of(spark: SparkSession, files: list[BatchFile], root: AbfsFolder, number: int, **output: Any) -> Batch:
    """The files as batch `number`, with an output of its own."""
    manifest = BatchManifest(
        number=number, chain="c", created_at=datetime.now(UTC), reason="Files", resource=RESOURCE, incarnation="0",
        files=files, ranges={}, next={}, totals=Totals(),
    )  # fmt: skip
    folder = AbfsFolder(root.scheme, root.container, root.host, f"out-{number}")
    sink = BlobLocation(container=root.container, prefix=PREFIX, credential=Credential(field="bench"))
    job = BatchJob(
        chain="c",
        resource=RESOURCE,
        application="bench",
        number=number,
        sink=sink,
        output=Output(path=str(folder), **output),
    )
    where = folders(folder, number)
    events = read_events(spark, manifest, root)
    return Batch(spark, job, manifest, events, str(where.table), where.output, where.quarantine, "c")


def shipped(batch: Batch) -> int:
    """What a driver does between claim and commit."""
    rows = check_count(batch.events, batch.manifest)
    write_batch(batch)
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many and one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        azurite = AzuriteProcess(Path(scratch) / "azurite.log")
        azurite.start()
        try:
            spark = live.start(fetch_jars(), azurite, Path(scratch) / "hosts", compiler="")
            try:
                measure(spark, azurite, options.events, options.files, options.rounds)
            finally:
                live.stop(spark)
        finally:
            azurite.close()


def measure(spark: SparkSession, azurite: AzuriteProcess, events: int, count: int, rounds: int) -> None:
    """Run each way over the same files, and print one line for it."""
    spark.sparkContext.setLogLevel("ERROR")
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        container = service.create_container("bench")
        each = events // count
        files = [drained_file(container, str(n % 4), n // 4 * each, each) for n in range(count)]
    root = live.folder("bench", azurite)
    size = sum(file.size for file in files)
    print(f"{each * count:,} events of {BODY_BYTES} bytes, {count} files, {size / 1024**2:.0f} MiB; local[2]")
    paths = [root.child(file.path) for file in files]
    numbers = iter(range(1, 1000))
    schema = "site STRING, sensor STRING, unit STRING, state STRING, id BIGINT, value DOUBLE, trace STRING"
    body = {"type": "Json", "schema": schema}
    bare = root.child("bare")

    def program(**output: Any) -> Callable[[], Any]:
        return lambda: shipped(batch_of(spark, files, root, next(numbers), **output))

    ways: dict[str, Callable[[], Any]] = {
        "bare read, count": lambda: spark.read.parquet(*paths).count(),
        "bare read, write Parquet": lambda: spark.read.parquet(*paths).write.mode("overwrite").parquet(bare),
        "program, Parquet": program(format="Parquet"),
        "program, Delta": program(),
        "program, Delta by date": program(partitionByDate=True),
        "program, Delta, JSON parsed": program(body=body),
    }
    for name, run in ways.items():
        seconds = min(timed(run) for _ in range(rounds + 1))
        print(f"{name:<30}{seconds:8.2f} s{each * count / seconds:14,.0f} rows/s", flush=True)


def timed(run: Callable[[], Any]) -> float:
    """Seconds that `run` takes."""
    begin = time.monotonic()
    run()
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
