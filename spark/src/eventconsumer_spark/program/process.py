"""A job from start to end: its batch, or its batches one after the other, each processed and committed.

Reprocessing and a resident driver have several. After each the output is maintained, which may take long and may fail,
and the session is reset.

Invariant: a claim is released only when this driver no longer writes for its batch: after the commit, or after Spark
has stopped.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping

from pyspark.sql import SparkSession

from eventconsumer_api.wire.batch import BatchCommit, BatchJob, ReprocessOf
from eventconsumer_spark.attempt.attempt import Attempt, begin
from eventconsumer_spark.attempt.causes import lies_in_data, root_cause
from eventconsumer_spark.attempt.commit import find_commit
from eventconsumer_spark.attempt.shutdown import Ending
from eventconsumer_spark.attempt.trials import Trials
from eventconsumer_spark.batch import Batch, Program
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.input.reading import check_count
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.program.resident import jobs_while_alive
from eventconsumer_spark.program.session import reset, start_session
from eventconsumer_spark.storage.paths import Site, open_site

log = logging.getLogger("eventconsumer.spark")


def process(
    job: BatchJob, program: Program, environment: Mapping[str, str], ending: Ending | None = None
) -> BatchCommit:
    """Process and commit the batches of the job; return the commit of the last one.

    Raises:
        SparkJobError: A batch is not committed; the message gives the cause.
    """
    ending = ending or Ending()
    spark: SparkSession | None = None
    settings: Mapping[str, str] = {}
    with open_site(job, environment) as site:
        try:
            for one in jobs_of(job, site):
                attempt = begin(one, site, ending)
                if isinstance(attempt, BatchCommit):
                    standing = attempt
                    continue
                try:
                    if spark is None:
                        spark = start_session(job.application, site.hadoop)
                        settings = spark.conf.getAll
                    standing, maintenance = run(attempt, spark, program)
                except BaseException:
                    if spark:
                        spark.stop()
                    raise
                finally:
                    attempt.end()
                if maintenance:
                    maintain(standing, maintenance, ending)
                del maintenance  # may refer to data of the batch
                if one.resident or one.reprocess:
                    reset(spark, settings)
        finally:
            if spark:
                spark.stop()
    return standing


def jobs_of(job: BatchJob, site: Site) -> Iterator[BatchJob]:
    """One job for each batch, in order.

    Raises:
        ConfigurationError: Not all batches to reprocess are committed.
    """
    if not job.reprocess:
        yield from jobs_while_alive(job, job.resident, site) if job.resident else [job]
        return
    if find_commit(site.store, job.sink.prefix, job.reprocess.last) is None:
        raise ConfigurationError(
            f"spec.spark.reprocess.to: batch {job.reprocess.last} is not committed: reprocess batches up to the last "
            "committed one (status.spark.lastCommit.number)"
        )
    for number in range(job.reprocess.first, job.reprocess.last + 1):
        yield _reprocessed(job, number, site)


def run(attempt: Attempt, spark: SparkSession, program: Program) -> tuple[BatchCommit, Callable[[], object] | None]:
    """Process and commit a claimed batch; if it fails because of files, and the job permits it, without these files.

    Returns:
        The valid commit, and the maintenance of the output that follows; None: there is none.

    Raises:
        Exception: Any error of the program or of Spark.
    """
    try:
        rows, written = _run_once(attempt.batch(spark), program)
    except Exception as error:
        if not attempt.job.search_unprocessable or not lies_in_data(error):
            raise
        attempt.leave_out(Trials(attempt, spark, program).left_out(error))
        rows, written = _run_once(attempt.batch(spark), program)
    return attempt.commit(written, rows).record, written.maintenance


def maintain(commit: BatchCommit, maintenance: Callable[[], object], ending: Ending) -> None:
    """Maintain the output after a commit. An error is logged: no batch depends on the maintenance.

    It is done at once, also if the next batch waits: a driver that always has one would never do it.
    """
    try:
        maintenance()
    except Exception as error:
        ending.join()
        log.warning(
            "batch %d is committed, but its output %s was not maintained: %s: a later batch tries again; if that fails "
            "as well, remove the cause, or compact the table by another program",
            commit.number,
            commit.output,
            root_cause(error),
        )


def _run_once(batch: Batch, program: Program) -> tuple[int, WriteResult]:
    rows = check_count(batch.events, batch.manifest)
    log.info("batch %d: %d files, %d events", batch.manifest.number, len(batch.manifest.files), rows)
    result = program(batch)
    return rows, result if isinstance(result, WriteResult) else WriteResult(result)


def _reprocessed(job: BatchJob, number: int, site: Site) -> BatchJob:
    # A batch that was committed without some files must be repeatable without them.
    original = find_commit(site.store, job.sink.prefix, number)
    quarantine = original.quarantine if original else None
    left_files = quarantine is not None and quarantine.number == number and bool(quarantine.files)
    return job.model_copy(update={"number": number, "search_unprocessable": job.search_unprocessable or left_files})


def totals_message(reprocess: ReprocessOf, last: BatchCommit) -> str:
    """PURE: the result of reprocessing as JSON: batches committed and rows written."""
    return json.dumps({"batches": reprocess.last - reprocess.first + 1, "rows": last.totals.rows_written})
