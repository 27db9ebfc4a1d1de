"""`python -m tests.bench.chain_size`: what long chains cost, in requests and CPU seconds: for a new leader, for the
next leader, for a step of retention and for an audit.

The storage is synthetic: it makes up the listing of N slots in 32 partitions from their numbers, and has no content.
Nine in ten slots are tombstones, as after a long retention. The consumer has no Spark. The first leader finds neither
totals nor a cursor, as after an update from an old version, so it lists all slots. The next one starts with those that
the first one wrote. With `--azurite`, the same blobs are in Azurite; above 20,000, give it a `--database`.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from azure.storage.blob.aio import BlobServiceClient, ContainerClient

from eventconsumer_api.v1alpha1 import Retention as Limits
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_audit.container import AzureContainer, Container, StoreContainer
from eventconsumer_audit.read import Subject, audit
from eventconsumer_host.batch.log import BatchLog, BatchState
from eventconsumer_host.leader.lag import Measure
from eventconsumer_host.leader.retention import FileRetention
from eventconsumer_host.leader.stage import Stage
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.leader.task import View
from eventconsumer_host.leader.watermark import WatermarkFile
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.sink.slots import Chain
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.blobs import Blob, BlobInfo
from eventconsumer_storage.confined.reader import Reader
from tests.bench.machine import peak_mib
from tests.support.azurite import azurite_with_client
from tests.support.fakes.hub import FakeHub
from tests.unit.audit.auditing import CHAIN, CHAIN_RECORD, ERA, WHEN, segment
from tests.unit.host.stage import CONFIG

PARTITIONS = 32
EVENTS = 1000  # of a file
SIZE = 1_000_000  # bytes of a file
WRITERS = 64  # at a time
PAGE = 5000  # names in one response of storage
SIZES = (10_000, 100_000, 1_000_000)
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class LongChains:
    """`BlobStore` of N slots, as far as the measured programs ask; counts requests, a listing by its pages."""

    files: int
    requests: Counter[str] = field(default_factory=Counter)
    written: dict[str, bytes] = field(default_factory=dict)
    account = "account"
    url = "https://account.blob.core.windows.net/files"

    def __post_init__(self) -> None:
        self.written["p/_chain.json"] = json.dumps(CHAIN_RECORD).encode()
        self.written[f"p/_segments/{1:010d}.json"] = json.dumps(segment()).encode()
        for number in range(PARTITIONS):
            self.written[f"p/_genesis/{ERA}/{number}.json"] = b'{"start": 0}'

    def _slot(self, partition: str, number: int) -> BlobInfo:
        """The slot with a number, of a partition."""
        first, last = number * EVENTS, number * EVENTS + EVENTS - 1
        tombstone = number < self.files // PARTITIONS * 9 // 10
        facts = {
            "first": str(first),
            "last": str(last),
            "count": str(EVENTS),
            "epoch": "1",
            "writer": "host-a",
            "nonce": "n",
            "last_offset": str(last),
            "last_enqueued_time": WHEN,
            "chain": CHAIN,
            "sha256": "0" * 64,
        } | ({"tombstone": WHEN, "size": str(SIZE)} if tombstone else {})
        name = f"p/segment={ERA}/partition={partition}/from={first:020d}.parquet"
        return BlobInfo(name, '"1"', 0 if tombstone else SIZE, WRITTEN, facts)

    def partition(self, partition: str) -> Iterator[BlobInfo]:
        """All slots of a partition."""
        return (self._slot(partition, number) for number in range(self.files // PARTITIONS))

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """All blobs below a prefix, in name order."""
        named = sorted(self.written)
        partitions = sorted(map(str, range(PARTITIONS)))
        folders = [f"p/segment={ERA}/partition={partition}/" for partition in partitions]
        count = 0
        for name in named[bisect_left(named, prefix) :]:
            if not name.startswith(prefix):
                break
            count += 1
            yield BlobInfo(name, '"1"', len(self.written[name]), WRITTEN)
        for partition, folder in zip(partitions, folders, strict=True):
            if folder.startswith(prefix) or prefix.startswith(folder):
                for info in self.partition(partition):
                    if info.name.startswith(prefix):
                        count += 1
                        yield info
        self.requests["list"] += 1 + max(0, count - 1) // PAGE

    async def list(self, prefix: str, *, metadata: bool = False, limit: int | None = None) -> list[BlobInfo]:
        """See `BlobStore`."""
        return [info async for info in self.walk(prefix)][:limit]

    async def list_page(self, prefix: str, token: str = "", *, limit: int = 5000) -> tuple[Sequence[BlobInfo], str]:
        """See `BlobStore`. A token is the number of the first slot of the page."""
        self.requests["list"] += 1
        partition, first = prefix.partition("partition=")[2].partition("/")[0], int(token or 0)
        end = min(first + limit, self.files // PARTITIONS)
        infos = [self._slot(partition, number) for number in range(first, end)]
        return infos, str(end) if end < self.files // PARTITIONS else ""

    async def head(self, name: str) -> BlobInfo | None:
        """See `BlobStore`."""
        self.requests["head"] += 1
        folder, found, start = name.partition("/from=")
        if not found:
            return None
        number = int(start[:20]) // EVENTS
        return self._slot(folder.rpartition("=")[2], number) if number < self.files // PARTITIONS else None

    async def read(self, name: str, limit: int) -> Blob | None:
        """See `BlobStore`."""
        self.requests["read"] += 1
        data = self.written.get(name)
        return None if data is None else Blob(BlobInfo(name, '"1"', len(data), WRITTEN), data)

    async def put(self, name: str, data: bytes, **_: Any) -> str:
        """See `BlobStore`."""
        self.requests["put"] += 1
        self.written[name] = data
        return '"1"'


class Walked(StoreContainer):
    """The auditor's container, with a listing page by page."""

    def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """See `Container`."""
        found: AsyncIterator[BlobInfo] = self.store.walk(prefix)  # type: ignore[attr-defined]
        return found


def tail_of(store: Any) -> Tail:
    """The files, as a new leader follows them."""
    return Tail([Segment(ERA, lambda partition: Chain(store, "p", ERA, partition), lambda: WRITTEN)], lambda: WRITTEN)


def leader(store: Any) -> FileRetention:
    """A leader, that removes nothing: all files are within the limit."""
    return FileRetention(
        store,
        HostConfig.model_validate(CONFIG),
        Limits(bytes=10**18),
        CHAIN,
        tail_of(store),
        batches=BatchLog(store, "p", 10**9),
        metrics=Metrics(),
        now=lambda: WRITTEN,
    )


async def measure(
    files: int, store: Any, requests: Counter[str], container: Container, client: ContainerClient | None = None
) -> None:
    """Print each task with its requests, time, CPU seconds, and the most resident memory of the process, MiB.

    With a client of the container, the same listing through the models of Azure's client is the last task.
    """
    partitions = [str(number) for number in range(PARTITIONS)]
    info = HubInfo("shop.example", "Orders", WRITTEN, tuple(partitions))

    async def task(name: str, work: Any) -> None:
        requests.clear()
        began, cpu = time.monotonic(), time.process_time()
        await work
        numbers = " | ".join(str(requests[kind]) for kind in ("list", "head", "read", "put"))
        took, seconds, memory = time.monotonic() - began, time.process_time() - cpu, peak_mib(os.getpid())
        print(f"| {files:,} | {name} | {numbers} | {took:.1f} | {seconds:.1f} | {memory:.0f} |", flush=True)

    async def counted() -> None:
        stage = Stage(
            HostConfig.model_validate(CONFIG),
            FakeHub(PARTITIONS),
            info,
            CHAIN,
            store,
            BatchLog(store, "p", 10**9),
            tail_of(store),
            Metrics(),
            Reader(),
            lambda: WRITTEN,
            time.monotonic,
            Random(1),
        )
        measured = Measure(stage, saved=WatermarkFile(store, "p", CHAIN, lambda: WRITTEN).saved)
        await measured.follow(View(partitions))
        assert measured.report(View(partitions)).files == files // PARTITIONS * PARTITIONS
        measured.complete = WRITTEN
        await WatermarkFile(store, "p", CHAIN, lambda: WRITTEN).publish(measured.completeness())

    async def audited() -> None:
        report = await audit(Subject(container, "p"))
        assert sum(each.files for each in report.partitions) == files // PARTITIONS * PARTITIONS
        assert report.exit_code == 0, report.findings

    first, second = leader(store), leader(store)
    await task("new leader: files, no totals", counted())
    await task("next leader: files", counted())
    await task("new leader: retention, no cursor", first.step(partitions, {}, BatchState()))
    await task("next leader: retention", second.step(partitions, {}, BatchState()))
    await task("later step: retention", second.step(partitions, {}, BatchState()))
    await task("audit", audited())
    if client:

        async def listed() -> None:
            found = 0
            async for _ in container.walk("p/segment="):
                found += 1
            assert found == files // PARTITIONS * PARTITIONS

        async def listed_by_models() -> None:
            found = 0
            async for _ in client.list_blobs("p/segment=", include=["metadata"], results_per_page=PAGE):
                found += 1
            assert found == files // PARTITIONS * PARTITIONS

        await task("listing", listed())
        await task("listing, by the models of Azure's client", listed_by_models())


async def in_azurite(files: int, database: str) -> None:
    """Measure with blobs in Azurite."""
    requests: Counter[str] = Counter()
    made = LongChains(files)
    with TemporaryDirectory() as folder, azurite_with_client(Path(folder), database) as (azurite, _):
        async with BlobServiceClient.from_connection_string(azurite.connection_string, **client_options()) as service:
            store = AzureBlobStore(service, "drained", lambda operation, _: requests.update([operation]))
            await store.ensure_container()
            for name, data in made.written.items():
                await store.put(name, data)
            slots = enumerate(slot for number in range(PARTITIONS) for slot in made.partition(str(number)))

            async def writer() -> None:
                for number, slot in slots:
                    await store.put(slot.name, b"" if slot.size == 0 else b"x", metadata=slot.metadata)
                    if number % 5000 == 0:
                        print(f"{number:,} of {files:,} blobs written", file=sys.stderr, flush=True)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(WRITERS):
                    tasks.create_task(writer())
            await measure(
                files, store, requests, AzureContainer(service, "drained"), service.get_container_client("drained")
            )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.chain_size", description=__doc__)
    parser.add_argument("--slots", type=int, nargs="*", default=SIZES, help="numbers of slots")
    parser.add_argument("--azurite", type=int, metavar="SLOTS", help="with so many blobs in Azurite, and nothing else")
    parser.add_argument("--database", default="", metavar="URL", help="of an empty MySQL database for Azurite's names")
    options = parser.parse_args()
    print(
        "| slots | task | list | head | read | put | s | CPU, s | memory, MiB |\n|---|---|---|---|---|---|---|---|---|"
    )
    if options.azurite:
        asyncio.run(in_azurite(options.azurite, options.database))
        return
    for files in options.slots:
        store: Any = LongChains(files)
        asyncio.run(measure(files, store, store.requests, Walked(store)))


if __name__ == "__main__":
    main()
