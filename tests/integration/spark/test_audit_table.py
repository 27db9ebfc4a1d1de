"""The audit, and retention, on a Delta table that Spark reads, optimizes, deletes from and checkpoints."""

import asyncio

import pytest
from azure.storage.blob.aio import BlobServiceClient
from pyspark.sql import SparkSession

from eventconsumer_api.v1alpha1 import Retention as Limits
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_audit.container import StoreContainer
from eventconsumer_audit.model import TableAudit
from eventconsumer_host.batch.log import BatchLog, BatchState
from eventconsumer_host.leader.retention import FileRetention
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from tests.integration.spark import live
from tests.support.azurite import AzuriteProcess
from tests.unit.audit.auditing import CHAIN, ERA, AuditedWorld
from tests.unit.audit.deltatables import Table
from tests.unit.host.stage import CONFIG


async def audited(made: Table, *, behind: int = 0) -> TableAudit:
    """The table of a consumer without a finding, also for the next commit by hand."""
    report = await made.world.audit(deep=True)
    assert (report.exit_code, report.counts.get("TableBehind", 0)) == (0, behind), report.findings
    assert report.table is not None and report.table.version is not None
    made.version = report.table.version
    return report.table


@pytest.mark.parametrize("policy", ["classic", pytest.param("v2", marks=pytest.mark.long)])
def test_a_table_that_spark_changes_is_clean_and_files_are_removed_from_it(
    spark: SparkSession, azurite: AzuriteProcess, policy: str
) -> None:
    name = azurite.container()
    table = f"delta.`{live.folder(name, azurite).child('p')}`"

    def rows(where: str = "true") -> list[int]:
        found = spark.sql(f"SELECT sequence_number FROM {table} WHERE {where} ORDER BY 1").collect()
        return [row[0] for row in found]

    async def go() -> None:
        service = BlobServiceClient.from_connection_string(azurite.connection_string, **client_options())
        store = AzureBlobStore(service, name, lambda _, __: None)
        await store.ensure_container()
        made = Table(AuditedWorld(files=store))
        await made.world.begin(p0=0)
        for start in range(0, 60, 10):
            await made.world.file("0", start, range(start, start + 10))
        await made.world.lease("0", 59)
        await made.begin()
        await made.register(0, 10, position=19)
        assert rows() == list(range(20))
        assert (await audited(made, behind=4)).rows == 20

        spark.sql(f"OPTIMIZE {table}")
        found = await audited(made, behind=4)
        assert (found.files, found.rows, found.removed) == (1, 20, 2)

        await made.register(20, 30, 40, position=49)
        assert rows() == list(range(50))
        assert rows("sequence_number = 35") == [35]
        properties = (
            f"'delta.enableDeletionVectors'='true', 'delta.checkpointInterval'='1', 'delta.checkpointPolicy'='{policy}'"
        )
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({properties})")
        spark.sql(f"DELETE FROM {table} WHERE sequence_number IN (5, 25)")
        spark.sql(f"DELETE FROM {table} WHERE sequence_number BETWEEN 26 AND 39")
        left = [number for number in range(50) if number not in {5, 25, *range(26, 40)}]
        assert rows() == left
        found = await audited(made, behind=1)
        assert (found.files, found.rows, found.removed) == (3, len(left), 3)
        blobs = [info.name async for info in StoreContainer(store).walk("p/_delta_log/")]
        assert any((".checkpoint.parquet" in blob) if policy == "classic" else ("_sidecars/" in blob) for blob in blobs)

        tail = Tail([Segment(ERA, lambda partition: Chain(store, "p", ERA, partition), utc_now)], utc_now)
        config = HostConfig.model_validate(CONFIG | {"table": {}})
        retention = FileRetention(
            store, config, Limits(bytes=1), CHAIN, tail, batches=BatchLog(store, "p"), metrics=Metrics(), now=utc_now
        )
        leases = {"0": Lease("0", checkpoint=Checkpoint("59", 59))}
        await retention.step(["0"], leases, BatchState())
        assert retention.report is not None and retention.report.files == 5
        assert rows() == [number for number in left if number < 20]
        found = await audited(made, behind=1)
        assert (found.files, found.rows, found.removed) == (1, 19, 5)
        newest = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()
        assert newest is not None and (newest["operation"], newest["engineInfo"]) == ("DELETE", "EventConsumer")

        await made.register(50, position=59)
        assert rows() == [*(number for number in left if number < 20), *range(50, 60)]
        spark.sql(f"DELETE FROM {table} WHERE sequence_number < 10")
        found = await audited(made)
        assert found.rows == 20 == len(rows())
        await store.close()

    asyncio.run(go())
