"""`python -m tests.bench.table_size`: what a leading host takes for a table of many files, in seconds and memory.

The log has one checkpoint with all files, 1,000,000 by default. A process of its own reads it as a new leading host,
registers 32 new files, and writes the next checkpoint. Memory is the most that the process has during a step, less what
it had before; its allocators are configured as those of a host.
"""

import argparse
import asyncio
import io
import json
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_host.host.allocator import return_freed_memory
from eventconsumer_host.leader.table import Committer
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_host.table import checkpoint, checkpoint_file, delta
from eventconsumer_host.table.log import TableLog
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.confined.reader import Reader
from tests.bench.machine import peak_mib, resident_mib
from tests.support.azurite import AzuriteProcess
from tests.unit.audit.auditing import ERA, AuditedWorld

PARTITIONS = 32
PREFIX, CHAIN = "p", "chain"


def content(files: int) -> tuple[bytes, list[int]]:
    """A checkpoint of version 0 with so many files, as hosts register them; and the end of each partition."""
    rng, sink, ends = Random(1), io.BytesIO(), [0] * PARTITIONS
    with pq.ParquetWriter(sink, checkpoint_file.SCHEMA, compression="zstd") as writer:
        for start in range(0, files, checkpoint_file.ROWS):
            adds = [_add(number, ends, rng) for number in range(start, min(start + checkpoint_file.ROWS, files))]
            writer.write_batch(checkpoint_file._batch(adds))
        version = [json.loads(line) for line in delta.new_table("id", datetime.now(UTC)).splitlines()]
        positions = {f"eventconsumer/{CHAIN}/{ERA}/{number}": end - 1 for number, end in enumerate(ends)}
        totals = {f"eventconsumer/{CHAIN}/files": files, f"eventconsumer/{CHAIN}/events": sum(ends)}
        version += [{"txn": {"appId": name, "version": last}} for name, last in (totals | positions).items()]
        writer.write_batch(checkpoint_file._batch([action for action in version if "commitInfo" not in action]))
    return sink.getvalue(), ends


def _add(number: int, ends: list[int], rng: Random) -> dict[str, Any]:
    partition, count, second = number % PARTITIONS, rng.randrange(500, 1500), 1.7e9 + number
    first, ends[partition] = ends[partition], ends[partition] + count
    least, greatest = (
        {"sequence_number": sequence, "partition_id": str(partition), "enqueued_time": _moment(second + rng.random())}
        for sequence in (first, first + count - 1)
    )
    stats = {"numRecords": count, "minValues": least, "maxValues": greatest, "nullCount": dict.fromkeys(least, 0)}
    return {
        "add": {
            "path": f"segment={ERA}/partition={partition}/from={first:020d}.parquet",
            "partitionValues": {},
            "size": count * 400 + rng.randrange(10_000),
            "modificationTime": int(1000 * (second + rng.random())),
            "dataChange": False,
            "stats": json.dumps(stats, separators=(",", ":")),
        }
    }


def _moment(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _prepare(connection: str, container: str, files: int) -> None:
    """Write the checkpoint, the starts of the chains and a new file in each partition."""
    store = _store(connection, container)
    await store.ensure_container()
    data, ends = content(files)
    await store.put(f"{PREFIX}/_delta_log/{delta.checkpoint_name(0)}", data)
    print(f"{files:,} files: the checkpoint has {len(data) / 1e6:.1f} MB")
    world = AuditedWorld(files=store)
    await world.begin(**{f"p{number}": 0 for number in range(PARTITIONS)})
    for number, end in enumerate(ends):
        await world.file(str(number), end, range(end, end + 2))
    await store.close()


async def _lead(connection: str, container: str) -> None:
    """Lead, and print what each step takes."""
    store = _store(connection, container)

    async def measured(what: str, action: Awaitable[object]) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins again: proc(5)
        before, cpu, began = _resident(), time.process_time(), time.monotonic()
        await action
        seconds, used, peak = time.monotonic() - began, time.process_time() - cpu, peak_mib(os.getpid()) - before
        print(f"{what}: {seconds:.1f} s, {used:.1f} s of CPU, {peak:.0f} MiB more at most")

    tail = Tail([Segment(ERA, lambda partition: Chain(store, PREFIX, ERA, partition), utc_now)], utc_now)
    committer = Committer(store, PREFIX, CHAIN, tail, now=utc_now, confined=Reader())
    await measured("the log is read", committer.advance(()))
    await measured("a commit of 32 files", committer.advance([str(number) for number in range(PARTITIONS)]))
    await measured("the next checkpoint", checkpoint.write(TableLog(store, PREFIX, Reader()), 1))
    assert committer.report is not None and committer.report.version == 1, committer.report
    await store.close()


def _store(connection: str, container: str) -> AzureBlobStore:
    service = BlobServiceClient.from_connection_string(connection, **client_options())
    return AzureBlobStore(service, container, lambda _, __: None)


def _resident() -> float:
    pa.default_memory_pool().release_unused()
    return resident_mib(os.getpid())


def _run(work: Callable[..., Any], *arguments: Any) -> None:
    """Run in a process of its own."""

    process = multiprocessing.get_context("spawn").Process(target=_in_loop, args=(work, *arguments))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"it ended with {process.exitcode}")


def _in_loop(work: Callable[..., Any], *arguments: Any) -> None:
    return_freed_memory()
    asyncio.run(work(*arguments))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.table_size", description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        azurite = AzuriteProcess(Path(name) / "azurite.log")
        azurite.start()
        try:
            for work, arguments in ((_prepare, (options.files,)), (_lead, ())):
                _run(work, azurite.connection_string, "table", *arguments)
        finally:
            azurite.close()


if __name__ == "__main__":
    main()
