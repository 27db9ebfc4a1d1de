"""An output belongs to one chain: its record, the chains that are refused, and tables that are read beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient, ContainerClient
from deltalake import DeltaTable

from eventconsumer_api.spec.spark import OutputFormat, SparkOutput
from eventconsumer_api.wire.batch import BatchJob, ReprocessOf
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_api.wire.identity import BatchFolder, OutputRecord
from eventconsumer_spark import Batch, WriteResult
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.storage.paths import open_site
from eventconsumer_storage.errors import StorageError
from tests.integration.spark.consumer import Consumer
from tests.integration.spark.drained import CHAIN, MOVED, PREFIX, RESOURCE, DrainedBatch
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess

RECORD = "results/_eventconsumer.json"
BILLING = ResourceRef(namespace="shop", name="billing", uid="uid-of-billing")
OTHER = "00000000000000c2"
PROGRAMS = Path(__file__).with_name("programs.py")
Result = Callable[[BatchJob], list[dict[str, Any]]]


def claim(job: BatchJob) -> OutputRecord:
    """Claim the output of a job, as each driver does before it writes."""
    with open_site(job, {}) as site:
        site.ensure_output()
        return site.claim_output(job)


def never(_: Batch) -> int:
    """A program that must not be reached."""
    raise AssertionError("the program ran")


@pytest.fixture
def billing(azurite: AzuriteProcess, service: BlobServiceClient, drained: DrainedBatch) -> DrainedBatch:
    """The files of another consumer in the same account."""
    return DrainedBatch(service.create_container(azurite.container()), drained.host, drained.secret_file)


def billing_job(billing: DrainedBatch, output: SparkOutput) -> BatchJob:
    """A batch of the other consumer, to be written to `output`."""
    job = billing.freeze(chain=OTHER)
    return job.model_copy(update={"chain": OTHER, "resource": BILLING, "application": "billing", "output": output})


def content(container: ContainerClient) -> dict[str, bytes]:
    """All blobs of a container."""
    return {blob.name: bytes(container.download_blob(blob.name).readall()) for blob in container.list_blobs()}


def test_an_output_belongs_to_the_chain_that_claimed_it_first(
    drained: DrainedBatch, billing: DrainedBatch, service: BlobServiceClient
) -> None:
    drained.slot("0", 0, 10)
    billing.slot("0", 0, 10)
    job = drained.freeze()
    claim(job)
    container = service.get_container_client(f"{job.sink.container}-out")
    before = content(container)
    record = OutputRecord.model_validate_json(before[RECORD])
    sink = f"{ACCOUNT}/{job.sink.container}/{PREFIX}"
    assert (record.chain, record.sink, record.resource) == (CHAIN, sink, RESOURCE.path)
    assert claim(job) == record and record.batch_folder is BatchFolder.VISIBLE

    # The same chain: after the resource was applied again elsewhere, and in reprocessing.
    claim(job.model_copy(update={"resource": MOVED}))
    reprocess = ReprocessOf(name="again", first=1, last=1)
    claim(job.model_copy(update={"reprocess": reprocess}))

    other = billing_job(billing, job.output.model_copy(update={"path": f"{job.output.path}/"}))
    for refused in (other, other.model_copy(update={"reprocess": reprocess})):
        with pytest.raises(ConfigurationError) as raised:
            claim(refused)
        message = str(raised.value)
        assert message.startswith(
            f"spec.spark.output.path: {job.output.path} is the output of EventConsumer shop/orders"
        )
        for part in (CHAIN, OTHER, "shop/billing", sink, f"{other.sink.container}/{PREFIX}", "set another path"):
            assert part in message
    assert content(container) == before

    older = record.model_dump_json(by_alias=True, exclude={"batch_folder"})
    container.upload_blob(RECORD, older, overwrite=True)
    assert claim(job).batch_folder is BatchFolder.HIDDEN

    container.upload_blob(RECORD, b"{}", overwrite=True)
    with pytest.raises(StorageError, match=r"cannot parse the record results/_eventconsumer\.json .*: restore it"):
        claim(job)


@pytest.mark.long
def test_the_record_is_in_no_table_and_vacuum_leaves_it(
    consumer: Consumer, azurite: AzuriteProcess, service: BlobServiceClient
) -> None:
    consumer.drained.slot("0", 0, 40)
    job = consumer.job(1)
    claim(job)
    assert consumer.run(job) == WriteResult(40, 0)
    consumer.drained.slot("0", 40, 20)
    assert consumer.run(consumer.job(2)) == WriteResult(20, 1)
    container = service.get_container_client(f"{consumer.drained.container.container_name}-out")
    record = container.download_blob(RECORD).readall()
    container.upload_blob("results/stray.parquet", b"no file of the table")

    spark, check = consumer.spark, "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check, "false")
    try:
        spark.sql(f"VACUUM delta.`{job.output.path}` RETAIN 0 HOURS")
    finally:
        spark.conf.unset(check)
    names = {blob.name for blob in container.list_blobs()}
    assert "results/stray.parquet" not in names, "VACUUM removed what is not of the table"
    assert container.download_blob(RECORD).readall() == record
    assert consumer.table(job) == [("0", number) for number in range(60)]
    # The same by delta-rs, which many readers are built on.
    options = {"allow_http": "true", "azure_endpoint": azurite.url, "account_name": ACCOUNT, "account_key": KEY}
    table = DeltaTable(f"az://{container.container_name}/results", storage_options=options)
    assert table.to_pyarrow_table().num_rows == 60

    folders = job.model_copy(update={"output": SparkOutput(path=f"{job.output.path}-2", format=OutputFormat.PARQUET)})
    claim(folders)
    assert consumer.run(folders) == WriteResult(40)
    output = spark.read.parquet(folders.output.path)
    assert output.count() == 40
    assert {row["batch"] for row in output.select("batch").distinct().collect()} == {1}
    assert container.get_blob_client("results-2/_eventconsumer.json").exists()
