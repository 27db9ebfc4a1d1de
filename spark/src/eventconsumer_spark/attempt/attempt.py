"""One attempt at one batch: claim, read, commit, release. Independent of the program.

Invariant: the commit is the last effect, after all checks passed; if the batch is already committed, there is no
attempt. Checks that need no Spark (manifest, files, totals, claim) are done before Spark starts.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from eventconsumer_api.wire.batch import BatchCommit, BatchFile, BatchJob, BatchManifest, attempt_name
from eventconsumer_api.wire.identity import BatchFolder
from eventconsumer_spark.attempt.claim import Claim, Decided, new_claim, take
from eventconsumer_spark.attempt.commit import (
    Committed,
    LeftOut,
    commit,
    find_commit,
    previous_commit,
    publish,
    quarantine_of,
)
from eventconsumer_spark.attempt.shutdown import Ending
from eventconsumer_spark.batch import Batch, Folders, folders, trial_folders
from eventconsumer_spark.errors import ManifestError
from eventconsumer_spark.input.columns import check_columns
from eventconsumer_spark.input.manifest import check_files, load_manifest
from eventconsumer_spark.input.reading import read_events
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.storage.paths import Site
from eventconsumer_storage.errors import StorageError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Attempt:
    """A batch that this driver has claimed."""

    job: BatchJob
    site: Site
    manifest: BatchManifest
    previous: BatchCommit | None
    claim: Claim
    ending: Ending
    began: float
    folder: BatchFolder
    """The name of batches' folders in the output, by its record."""

    @property
    def number(self) -> int:
        """Number of the batch."""
        return self.manifest.number

    @property
    def parallel(self) -> bool:
        """Whether batches before it may be open. Reprocessing keeps the order of the batches."""
        return self.manifest.parallel and not self.job.reprocess

    @property
    def folders(self) -> Folders:
        """Location of its result."""
        name = self.job.reprocess.name if self.job.reprocess else ""
        return folders(self.site.output, self.folder.of(self.number), name)

    @property
    def left_out(self) -> LeftOut:
        """Files that this attempt or an earlier one found to be unprocessable."""
        return LeftOut(tuple(self.claim.record.left_out), self.claim.record.cause)

    @property
    def files(self) -> list[BatchFile]:
        """The files to process."""
        left_out = {file.path for file in self.claim.record.left_out}
        return [file for file in self.manifest.files if file.path not in left_out]

    def leave_out(self, more: LeftOut) -> None:
        """Exclude these files, in this attempt and in later ones.

        Raises:
            ClaimLostError: Another attempt has taken over.
            StorageError: Storage refused or did not respond.
        """
        before = self.left_out
        self.claim.leave_out((*before.files, *more.files), before.cause or more.cause)

    def batch(self, spark: SparkSession, files: Sequence[BatchFile] | None = None, *, trial: bool = False) -> Batch:
        """The batch for programs; if `files` is given, only with these files."""
        manifest = self.manifest.model_copy(update={"files": list(self.files if files is None else files)})
        where = trial_folders(self.folders, self.number) if trial else self.folders
        return Batch(
            spark=spark,
            job=self.job,
            manifest=manifest,
            events=read_events(spark, manifest, self.site.input, self.job.columns),
            table=str(where.table),
            output=where.output,
            quarantine_path=where.quarantine,
            transaction=f"{manifest.chain}/{self.job.reprocess.name}" if self.job.reprocess else manifest.transaction,
            trial=trial,
        )

    def commit(self, written: WriteResult, rows_read: int) -> Committed:
        """Commit the batch.

        Raises:
            ClaimLostError: Another attempt has taken over.
            StorageError: Storage refused or did not respond.
        """
        manifest, left_out = self.manifest, self.left_out
        record = BatchCommit(
            number=self.number,
            chain=manifest.chain,
            committed_at=datetime.now(UTC),
            application=self.job.application,
            attempt=self.claim.record.attempt,
            output=self.folders.output if written.output_version is None else str(self.folders.table),
            output_version=written.output_version,
            files=len(manifest.files),
            bytes=sum(file.size for file in manifest.files),
            rows_read=rows_read,
            rows_written=written.rows,
            ranges=manifest.ranges,
            seconds=round(time.monotonic() - self.began, 3),
            quarantine=quarantine_of(manifest, written, left_out),
        )
        if not self.parallel:
            record = record.after(self.previous)
        committed = commit(self.site.store, self.site.commits, self.claim, record, parallel=self.parallel)
        self.ending.committed(self.job)
        if committed.ours:
            log.info(
                "batch %d: committed %d rows in %s after %.1f s",
                self.number,
                written.rows,
                record.output,
                record.seconds,
            )
        else:
            log.warning("batch %d: %s committed it first", self.number, committed.record.application)
        return committed

    @property
    def released(self) -> bool:
        """Whether this attempt has ended."""
        return self.claim.released

    def end(self) -> None:
        """Allow the next attempt to begin at once. Call it only when this attempt no longer writes."""
        self.ending.let_go()
        try:
            self.claim.release()
        except StorageError as error:
            log.warning("batch %d: the next attempt must wait until the claim's lease expires: %s", self.number, error)


def begin(job: BatchJob, site: Site, ending: Ending) -> Attempt | BatchCommit:
    """Check and claim the job's batch, or find its commit.

    Raises:
        SparkJobError: It cannot be processed now; the message says why.
    """
    began = time.monotonic()
    store, number = site.store, job.number
    if earlier := find_commit(store, site.commits, number):
        return _nothing_to_do(job, earlier, ending)
    manifest = load_manifest(store, job)
    if manifest.parallel != job.parallel and not job.reprocess:
        raise ManifestError(
            f"the manifest of batch {number} and this job differ in whether the batch is parallel: operator and hosts "
            "must have the same version"
        )
    check_files(store, manifest)
    check_columns(store, job, manifest)
    previous = None
    if not job.parallel:
        previous = previous_commit(store, site.commits, number, first=job.reprocess.first if job.reprocess else 1)
    taken = take(store, attempt_name(site.commits, number), new_claim(job), ending.lost)
    if isinstance(taken, Decided):
        standing = taken.record if job.parallel else publish(store, site.commits, number, taken.content)
        return _nothing_to_do(job, standing, ending)
    ending.hold(taken)
    taken.keeper.start()
    attempt = Attempt(job, site, manifest, previous, taken, ending, began, BatchFolder.VISIBLE)
    try:
        # Checked again: a commit is older than the claim only if a user deleted a claim.
        if earlier := find_commit(store, site.commits, number):
            attempt.end()
            return _nothing_to_do(job, earlier, ending)
        site.ensure_output()
        attempt = replace(attempt, folder=site.claim_output(job).batch_folder)
    except BaseException:
        attempt.end()
        raise
    log.info(
        "batch %d: attempt %d: %d files unchanged since they were frozen, claimed",
        number,
        job.attempt,
        len(manifest.files),
    )
    for file in attempt.left_out.files:
        log.warning("batch %d: excludes %s, as an earlier attempt did", number, file.path)
    return attempt


def _nothing_to_do(job: BatchJob, earlier: BatchCommit, ending: Ending) -> BatchCommit:
    ending.committed(job)
    log.info(
        "batch %d was committed by %s at %s: no work left", earlier.number, earlier.application, earlier.committed_at
    )
    return earlier
