"""A consumer whose batches are processed inside of the test process, as an attempt of a driver would."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from eventconsumer_api.spec.spark import SparkOutput
from eventconsumer_api.wire.batch import BatchJob, BatchManifest, manifest_name
from eventconsumer_api.wire.identity import BatchFolder
from eventconsumer_spark import Batch, WriteResult
from eventconsumer_spark.batch import folders
from eventconsumer_spark.input.reading import read_events
from eventconsumer_spark.job import write_batch
from eventconsumer_spark.storage.abfs import output_folder
from eventconsumer_storage.account import StorageAccount
from tests.integration.spark import live
from tests.integration.spark.drained import PREFIX, DrainedBatch
from tests.support.azurite import ACCOUNT, KEY, AzuriteProcess


class Consumer:
    """A consumer: `job` freezes a batch of what was drained, `run` is one attempt at it."""

    def __init__(self, spark: SparkSession, drained: DrainedBatch, azurite: AzuriteProcess) -> None:
        self.spark, self.drained, self.azurite = spark, drained, azurite

    def job(self, number: int = 1, **output: Any) -> BatchJob:
        """Freeze what was drained, as batch `number`; the next batch begins empty."""
        job = self.drained.freeze(number)
        self.drained.files.clear()
        return job.model_copy(update={"output": SparkOutput(**{"path": job.output.path, **output})})

    def batch(self, job: BatchJob) -> Batch:
        """The batch as a program gets it."""
        content = self.drained.container.download_blob(manifest_name(PREFIX, job.number)).readall()
        manifest = BatchManifest.model_validate_json(content)
        account = StorageAccount(self.azurite.url, ACCOUNT, key=KEY)
        where = folders(output_folder(job.output.path, account), BatchFolder.VISIBLE.of(job.number))
        source = live.folder(self.drained.container.container_name, self.azurite)
        events = read_events(self.spark, manifest, source)
        return Batch(self.spark, job, manifest, events, str(where.table), where.output, where.quarantine, job.chain)

    def run(self, job: BatchJob, program: Callable[[Batch], WriteResult] = write_batch) -> WriteResult:
        """One attempt."""
        return program(self.batch(job))

    def table(self, job: BatchJob) -> list[tuple[str, int]]:
        """What is in the Delta table: partition and sequence number of every row, in order."""
        rows = self.spark.read.format("delta").load(job.output.path).select("partition_id", "sequence_number").collect()
        return sorted((row[0], row[1]) for row in rows)
