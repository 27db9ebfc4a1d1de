"""A Spark stream on the table over the files: across a weekend without it, and across retention."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob.aio import BlobServiceClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from eventconsumer_host.leader.table import Committer
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_host.table.log import TableLog
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.confined.reader import Reader
from tests.integration.spark import live
from tests.support.azurite import AzuriteProcess
from tests.unit.audit.auditing import ERA, AuditedWorld

pytestmark = pytest.mark.usefixtures("sockets")
EVENTS = 10
WEEKEND = timedelta(days=3)


class Orders:
    """A consumer's table whose clock the test moves, and a stream that reads it."""

    def __init__(self, spark: SparkSession, azurite: AzuriteProcess, folder: Path) -> None:
        self.spark, self.azurite, self.folder = spark, azurite, folder
        self.container = azurite.container()
        self.path = live.folder(self.container, azurite).child("p")
        self.now = datetime.now(UTC)
        self.files = 0
        self.seen: list[int] = []

    def drain(self, files: int, *, first: bool = False) -> None:
        """Write files and register each in a version of its own, with a checkpoint at every second one."""

        async def go(store: AzureBlobStore) -> None:
            world = AuditedWorld(files=store)
            if first:
                await store.ensure_container()
                await world.begin(p0=0)
            for _ in range(files):
                start = EVENTS * self.files
                await world.file("0", start, range(start, start + EVENTS))
                self.files += 1
                tail = Tail([Segment(ERA, lambda partition: Chain(store, "p", ERA, partition), utc_now)], utc_now)
                made = Committer(store, "p", "c", tail, now=lambda: self.now, confined=Reader(), checkpoint_versions=2)
                await made.advance(["0"])

        self._run(go)

    def retain(self, files: int, *, tombstones: bool = False) -> None:
        """Remove the first files from the table, as retention does first; then empty them, as it does next."""

        async def go(store: AzureBlobStore) -> None:
            paths = [f"segment={ERA}/partition=0/from={EVENTS * number:020d}.parquet" for number in range(files)]
            await TableLog(store, "p", Reader()).remove(paths, self.now, lambda: None)
            for path in paths if tombstones else []:
                await store.put(f"p/{path}", b"")

        self._run(go)

    def _run(self, go: Any) -> None:
        async def opened() -> None:
            access = self.azurite.connection_string
            async with BlobServiceClient.from_connection_string(access, **client_options()) as service:
                work: Coroutine[Any, Any, None] = go(AzureBlobStore(service, self.container, lambda _, __: None))
                await work

        asyncio.run(opened())

    def stream(self, **options: str) -> None:
        """Run the query until it has read all that is there; it continues at its checkpoint."""
        rows = self.spark.readStream.format("delta").options(**options).load(self.path)

        def take(batch: Any, _: int) -> None:
            self.seen += [row[0] for row in batch.select("sequence_number").collect()]

        writing = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(self.folder / "checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.long  # integration/spark/test_examples.py has the example of a stream
def test_a_stream_continues_after_a_weekend_and_after_retention_and_never_misses_rows_silently(
    session: SparkSession, azurite: AzuriteProcess, tmp_path: Path
) -> None:
    orders = Orders(session, azurite, tmp_path)
    orders.drain(3, first=True)
    orders.stream(skipChangeCommits="true")
    assert sorted(orders.seen) == list(range(3 * EVENTS))

    orders.now += WEEKEND
    orders.drain(4)
    orders.retain(2)
    orders.drain(1)
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE"):
        orders.stream()
    orders.seen = [number for number in orders.seen if number < 3 * EVENTS]
    orders.stream(skipChangeCommits="true")
    assert sorted(orders.seen) == list(range(8 * EVENTS)), "each event once"

    orders.drain(2)
    orders.retain(9, tombstones=True)
    with pytest.raises(StreamingQueryException, match="FAILED_READ_FILE"):
        orders.stream(skipChangeCommits="true")
