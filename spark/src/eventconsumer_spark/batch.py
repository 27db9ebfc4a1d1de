"""A batch as a Spark program sees it: events in, a folder for the result, and one commit at the end.

Invariant: the commit is the last effect, and it comes only after every check passed; where it stands already, nothing
is done. What can fail without Spark (credential, manifest, files) is tried before Spark is started.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from eventconsumer_api.batch import BatchCommit, BatchJob, BatchManifest
from eventconsumer_spark.abfs import AbfsFolder, hadoop_settings, input_folder, output_folder
from eventconsumer_spark.account import describe, resolve_account
from eventconsumer_spark.commit import commit_batch, find_commit
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.manifest import check_files, load_manifest
from eventconsumer_spark.reading import check_count, read_batch
from eventconsumer_spark.session import start_session
from eventconsumer_spark.store import AzureBlobStore

log = logging.getLogger("eventconsumer.spark")


@dataclass(frozen=True)
class Batch:
    """One batch, verified and ready to be processed."""

    spark: SparkSession
    manifest: BatchManifest
    events: DataFrame
    """One row an event; columns as in `EVENT_SCHEMA`."""
    output: str
    """Folder of this batch's result; owned by this batch, so it is overwritten."""

    def write_parquet(self, result: DataFrame) -> int:
        """Write `result` to the batch's folder, replacing what an earlier attempt left; return the number of rows."""
        written = Observation("written")
        result.observe(written, F.count(F.lit(1)).alias("rows")).write.mode("overwrite").parquet(self.output)
        return int(written.get["rows"])


Program = Callable[[Batch], int]
"""Processes a batch and returns the number of rows it wrote. It may run again for the same batch: it must overwrite."""


def batch_output(output: AbfsFolder, number: int) -> str:
    """Folder of a batch's result: Spark reads `_batch` as a column of the whole output."""
    return output.child(f"_batch={number}")


def process(job: BatchJob, program: Program, environment: Mapping[str, str]) -> None:
    """Process and commit one batch.

    Raises:
        SparkJobError: The batch is not committed; the message says why.
    """
    begin = time.monotonic()
    account = resolve_account(job.sink, _connection_string(job))
    output = output_folder(job.output.path, account)
    settings = hadoop_settings(account, output.host, environment)
    with AzureBlobStore(account, job.sink.container) as store:
        if earlier := find_commit(store, job):
            log.info(
                "batch %d was committed by %s at %s: nothing to do",
                job.number,
                earlier.application,
                earlier.committed_at,
            )
            return
        manifest = load_manifest(store, job)
        check_files(store, manifest)
        with AzureBlobStore(account, output.container) as results:
            results.ensure_container()
        log.info("batch %d: %d files as they were frozen, starting Spark", job.number, len(manifest.files))
        spark = start_session(job.application, settings)
        try:
            events = read_batch(spark, manifest, input_folder(job.sink.container, output))
            rows = check_count(events, manifest)
            log.info("batch %d: %d files, %d events, as the manifest says", job.number, len(manifest.files), rows)
            batch = Batch(spark, manifest, events, batch_output(output, job.number))
            written = program(batch)
            record = BatchCommit(
                number=job.number,
                committed_at=datetime.now(UTC),
                application=job.application,
                attempt=uuid.uuid4().hex,
                output=batch.output,
                files=len(manifest.files),
                rows_read=rows,
                rows_written=written,
                seconds=round(time.monotonic() - begin, 3),
            )
            committed = commit_batch(store, job, record)
        finally:
            spark.stop()
    if committed.ours:
        log.info("batch %d: committed %d rows in %s after %.1f s", job.number, written, batch.output, record.seconds)
    else:
        log.warning("batch %d: %s committed it first", job.number, committed.record.application)


def _connection_string(job: BatchJob) -> str | None:
    credential = job.sink.credential
    if credential.connection_string_file is None:
        return None
    try:
        return Path(credential.connection_string_file).read_text()
    except OSError as error:
        raise ConfigurationError(
            f"{describe(credential)} cannot be read: {error.strerror}: create the Secret and the key"
        ) from None
