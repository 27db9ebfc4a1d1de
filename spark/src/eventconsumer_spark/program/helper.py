"""For programs with their own session: one call reads the batch, another one commits it.

    spark = SparkSession.builder.getOrCreate()
    batch = read_batch(spark)
    commit_batch(batch, rows_written=write_somewhere(batch.events))

Same parts and guarantees as `run_batch`: the batch is verified and claimed before it is returned, and a commit requires
the claim. A program that ends without a commit leaves the batch to the next attempt.
"""

import atexit
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession

from eventconsumer_api.wire.batch import BatchCommit, BatchJob
from eventconsumer_spark.attempt.attempt import Attempt, begin
from eventconsumer_spark.attempt.causes import lies_in_data
from eventconsumer_spark.attempt.shutdown import Ending, leave_message, leave_termination_message
from eventconsumer_spark.attempt.trials import Trials
from eventconsumer_spark.batch import Batch
from eventconsumer_spark.errors import ConfigurationError, SparkJobError
from eventconsumer_spark.input.reading import check_count
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.program.environment import hide_secrets_of_uncaught_errors, load_job, set_up_log
from eventconsumer_spark.program.process import jobs_of, totals_message
from eventconsumer_spark.program.session import give_access
from eventconsumer_spark.storage.paths import open_site

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClaimedBatch(Batch):
    """A batch for `commit_batch`.

    Attributes:
        attempt: This attempt at the batch.
        rows_read: Number of events.
    """

    attempt: Attempt = field(kw_only=True)
    rows_read: int = field(kw_only=True)


def read_batch(spark: SparkSession) -> ClaimedBatch:
    """The batch of this program; if it is already committed, the program ends with code 0.

    Configures the session for access to the sink's storage account.

    Raises:
        SparkJobError: The batch cannot be processed now; the message gives the cause.
    """
    for batch in read_batches(spark, several=False):
        return batch
    sys.exit(0)


def read_batches(spark: SparkSession, *, several: bool = True) -> Iterator[ClaimedBatch]:
    """As `read_batch`, for programs that can process several batches: each must be committed before the next.

    They are those of reprocessing, or with `spec.spark.idleTimeoutSeconds` those that are frozen while the driver
    stays: the iterator then waits for the next one. What a batch leaves in the session, the program removes.

    Args:
        spark: The program's session.
        several: False: reprocessing of more than one batch is refused, and the driver does not stay.

    Raises:
        SparkJobError: A batch cannot be processed now; the message gives the cause.
    """
    set_up_log()
    hide_secrets_of_uncaught_errors()
    with _last_words():
        ending = Ending()
        ending.install()
        job = load_job(os.environ)
        set_up_log(job)
        if job.reprocess and job.reprocess.first != job.reprocess.last and not several:
            raise ConfigurationError(
                "spec.spark.reprocess: this program reads one batch: reprocess one batch (equal from and to), or loop "
                "over read_batches(spark)"
            )
        if not several:
            job = job.model_copy(update={"resident": None})
        resources = ExitStack()
        site = resources.enter_context(open_site(job, os.environ))
        atexit.register(resources.close)
        give_access(spark, site.hadoop)
        for one in jobs_of(job, site):
            attempt = begin(one, site, ending)
            if isinstance(attempt, BatchCommit):
                _leave_totals(one, attempt)
                continue
            atexit.register(abandon := partial(_abandon, attempt, spark))
            batch = _open(attempt, spark)
            yield batch
            if not batch.attempt.released:
                raise ConfigurationError(
                    f"batch {one.number} is not committed: call commit_batch before the next batch"
                )
            atexit.unregister(abandon)


def commit_batch(batch: ClaimedBatch, rows_written: int, output_version: int | None = None) -> BatchCommit:
    """Commit a batch whose result is complete and not written any further.

    Args:
        batch: From `read_batch`.
        rows_written: Rows of the result.
        output_version: Version of the Delta table that contains them; None: not a Delta table.

    Returns:
        The valid commit, which may be another attempt's.

    Raises:
        ClaimLostError: Another attempt has taken over; nothing was committed.
        StorageError: Storage refused or did not respond.
    """
    with _last_words():
        committed = batch.attempt.commit(WriteResult(rows_written, output_version), batch.rows_read)
        batch.attempt.end()
        _leave_totals(batch.job, committed.record)
        return committed.record


def _open(attempt: Attempt, spark: SparkSession) -> ClaimedBatch:
    """Read a claimed batch; if the job permits it, without unreadable files."""

    batch = attempt.batch(spark)
    try:
        rows = check_count(batch.events, batch.manifest)
        if attempt.job.search_unprocessable:
            batch.events.write.format("noop").mode("overwrite").save()
    except Exception as error:
        if not attempt.job.search_unprocessable or not lies_in_data(error):
            raise
        attempt.leave_out(Trials(attempt, spark, None).left_out(error))
        batch = attempt.batch(spark)
        rows = check_count(batch.events, batch.manifest)
    return ClaimedBatch(**vars(batch), attempt=attempt, rows_read=rows)


def _abandon(attempt: Attempt, spark: SparkSession) -> None:
    # In this order: the next attempt must not begin while this one writes.
    if not attempt.released:
        spark.stop()
        attempt.end()


def _leave_totals(job: BatchJob, commit: BatchCommit) -> None:
    if job.reprocess and job.reprocess.last == commit.number:
        leave_message(totals_message(job.reprocess, commit))


@contextmanager
def _last_words() -> Iterator[None]:
    try:
        yield
    except SparkJobError as error:
        leave_termination_message(f"{type(error).__name__}: {error}")
        raise
