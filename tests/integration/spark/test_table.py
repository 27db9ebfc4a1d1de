"""The table over the files: hosts register files while Spark reads it, optimizes it and deletes from it."""

import asyncio
import contextlib
from collections import Counter
from datetime import UTC, datetime

import pytest
from azure.storage.blob.aio import BlobServiceClient
from delta.exceptions import ConcurrentAppendException
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from eventconsumer_host.leader.table import Committer
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.sink.slots import Chain
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.confined.reader import Reader
from tests.integration.spark import live
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess
from tests.unit.audit.auditing import ERA, AuditedWorld

FILES, EVENTS = 24, 10


@pytest.mark.long  # test_audit_table.py has one change of each kind, simulation ("optimize", "tidy table") their races
def test_spark_optimizes_and_vacuums_while_hosts_register(spark: SparkSession, azurite: AzuriteProcess) -> None:
    name = azurite.container()
    table = f"delta.`{live.folder(name, azurite).child('p')}`"

    def maintain() -> None:
        """Conflicts of OPTIMIZE are found by Spark, too, which then tries again at the next version."""
        for _ in range(3):
            spark.sql(f"OPTIMIZE {table}")
        while True:  # Delta lets its user repeat a DELETE that meets an append; FILES appends follow, and no more
            with contextlib.suppress(ConcurrentAppendException):
                spark.sql(f"DELETE FROM {table} WHERE sequence_number = 5")
                break
        spark.sql(f"VACUUM {table}")

    async def go() -> None:
        service = BlobServiceClient.from_connection_string(azurite.connection_string, **client_options())
        store = AzureBlobStore(service, name, lambda _, __: None)
        await store.ensure_container()
        world = AuditedWorld(files=store)
        await world.begin(p0=0)

        def committer() -> Committer:
            now = lambda: datetime.now(UTC)  # noqa: E731
            tail = Tail([Segment(ERA, lambda partition: Chain(store, "p", ERA, partition), now)], now)
            return Committer(store, "p", "chain", tail, now=now, confined=Reader(), checkpoint_versions=5)

        async def register() -> None:
            for number in range(FILES):
                start = number * EVENTS
                await world.file("0", start, range(start, start + EVENTS))
                await committer().advance(["0"])  # a new leader each time

        await committer().advance(["0"])
        await asyncio.gather(register(), asyncio.to_thread(maintain))
        assert len(await store.list(f"p/segment={ERA}/")) == FILES, "VACUUM removed no file of the chain"
        await store.close()

    asyncio.run(go())
    wanted = Counter(number for number in range(FILES * EVENTS) if number != 5)
    found = Counter(row[0] for row in spark.sql(f"SELECT sequence_number FROM {table}").collect())
    assert found == wanted or found == wanted + Counter([5]), "each event once; the DELETE may precede its file"
    options = {"allow_http": "true", "azure_endpoint": azurite.url, "account_name": ACCOUNT, "account_key": KEY}
    read = DeltaTable(f"az://{name}/p", storage_options=options).to_pyarrow_table(columns=["sequence_number"])
    assert Counter(read["sequence_number"].to_pylist()) == found
