"""The audit and prune on a Delta table over drained files that Spark reads, optimizes, deletes from and checkpoints."""

import asyncio
from datetime import UTC, datetime

import pytest
from azure.storage.blob.aio import BlobServiceClient
from pyspark.sql import SparkSession

from eventconsumer_audit.container import StoreContainer
from eventconsumer_audit.model import TableAudit
from eventconsumer_audit.owners import LeaseSubject
from eventconsumer_audit.read import Subject
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_tools.prune import carry_out, plan
from tests.integration.spark import live
from tests.support.azurite import AzuriteProcess
from tests.unit.audit.auditing import World
from tests.unit.audit.deltatables import Table

NOW = datetime(2100, 1, 1, tzinfo=UTC)


async def audited(made: Table, *, behind: int = 0) -> TableAudit:
    """The table of a consumer without a finding, also for the next commit by hand."""
    report = await made.world.audit(deep=True)
    assert (report.exit_code, report.counts.get("TableBehind", 0)) == (0, behind), report.findings
    assert report.table is not None and report.table.version is not None
    made.version = report.table.version
    return report.table


@pytest.mark.parametrize("policy", ["classic", pytest.param("v2", marks=pytest.mark.long)])
def test_a_table_that_spark_changes_is_clean_and_can_be_pruned(
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
        made = Table(World(files=store))
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

        leases = LeaseSubject(StoreContainer(made.world.leases, "leases"), "", "$Default")
        planned = await plan(Subject(StoreContainer(store), "p", leases), NOW, batches=False)
        assert (len(planned.files), planned.in_table, planned.refusal) == (5, 2, "")
        assert (await carry_out(planned, store, NOW)).files == 5
        assert rows() == [number for number in left if number < 20]
        found = await audited(made, behind=1)
        assert (found.files, found.rows, found.removed) == (1, 19, 5)
        newest = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()
        assert newest is not None and (newest["operation"], newest["engineInfo"]) == ("DELETE", "eventconsumer-prune")

        await made.register(50, position=59)
        assert rows() == [*(number for number in left if number < 20), *range(50, 60)]
        spark.sql(f"DELETE FROM {table} WHERE sequence_number < 10")
        found = await audited(made)
        assert found.rows == 20 == len(rows())
        await store.close()

    asyncio.run(go())
