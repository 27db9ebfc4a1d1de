"""Batches: the records by which Spark processes each drained file exactly once.

A batch is frozen as `<prefix>/_batches/<n>.json` and finished by `<prefix>/_commits/<n>.json`; both are written
put-if-absent and never change. Numbers start at 1 and batch n+1 is frozen only after n is committed, or with
`spark.batch.inFlight` above 1, after n+1-inFlight is. Commits are published in order. In each partition the ranges of
successive batches are contiguous: `ranges[p].first` is the previous manifest's `ranges[p].last` + 1 (S8).

Several attempts may work on a batch, one after the other. Each claims `<prefix>/_attempts/<n>.json` by overwriting it.
An attempt commits by replacing its claim with the commit record. Storage refuses this if the claim is not the newest,
so a superseded attempt cannot commit. The record is never overwritten. `_commits/<n>.json` is a copy of that record,
written by the attempt itself or, if it ended in between, by the next one. Reprocessing of batches has the same blobs in
`<prefix>/_reprocess/<name>/`, without manifests.

A parallel batch is decided by its attempt in the same way, in any order. The leading host publishes the records of
parallel batches in the order of their numbers, and adds what continues from the batch before (`BatchCommit.after`).
"""

from datetime import datetime
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AwareDatetime, ConfigDict, FailFast, Field, ValidationError

from eventconsumer_api.shared.model import Model, Report
from eventconsumer_api.spec.endpoints import AZURE_STORAGE_SUFFIXES
from eventconsumer_api.spec.spark import IN_FLIGHT_MAX, Registry, SparkOutput
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.host_config import BlobLocation, Credential, ResourceRef


class BatchFile(Report):
    """One drained file."""

    path: str = Field(description="Blob name inside the container.")
    etag: str
    size: int = Field(description="Bytes.")
    partition: str
    first: int = Field(description="Expected first sequence number (the slot's name).")
    last: int = Field(description="Last sequence number in the file.")
    count: int = Field(description="Number of events.")


# An error for each of a million wrong items takes gigabytes: the first one ends the validation.
_Files = Annotated[list[BatchFile], FailFast()]


class Range(Report):
    """Sequence numbers of one partition, inclusive."""

    first: int
    last: int


class Totals(Report):
    """Running totals of files, over all files up to some end of each partition."""

    files: int = 0
    events: int = 0
    bytes: int = 0
    gap_events: int = Field(default=0, description="Events that retention removed before they were read.")


class BatchManifest(WireDocument):
    """The files that a Spark application must process, and no others."""

    number: int = Field(ge=1)
    created_at: AwareDatetime
    reason: str = Field(description="Which trigger fired: Files, Bytes, Age, Schedule or Window.")
    chain: str = Field(description="Identity of the chain of the files.")
    resource: ResourceRef = Field(description="The EventConsumer that froze it, for messages.")
    segment_id: str = Field(description="Segment of the chain from which the files come.")
    format: FileFormat = Field(default=FileFormat.PARQUET, description="Format of the files.")
    files: _Files
    ranges: dict[str, Range] = Field(description="Partition id -> sequence numbers in this batch.")
    next: dict[str, int] = Field(description="Partition id -> start of the next batch, for every known partition.")
    totals: Totals
    watermark: AwareDatetime | None = Field(
        default=None,
        description="All events that were enqueued before this time are in this batch or in one before it; absent: "
        "unknown.",
    )
    parallel: bool = Field(
        default=False,
        description="Batches before this one may be open while it is processed: the leading host publishes its commit, "
        "and its transactions are those of its number modulo 16.",
    )

    @property
    def transaction(self) -> str:
        """The application of the batch's transactions in a Delta table.

        It contains the chain, not the resource: a resource that is applied again must not add an open batch twice.
        Delta ignores a transaction whose version is not above the last one of its application
        (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#transaction-identifiers). The version is the batch's
        number, and parallel batches may be committed in any order, so those of one application must not be parallel.
        """
        return f"{self.chain}/{self.number % IN_FLIGHT_MAX}" if self.parallel else self.chain


class BatchClaim(WireDocument):
    """The attempt that processes a batch: content of `_attempts/<n>.json` until this attempt or a later one commits."""

    number: int = Field(ge=1)
    chain: str = Field(default="", description="Identity of the chain.")
    claimed_at: datetime
    application: str = Field(description="Name of the Spark application.")
    attempt: str = Field(description="Unique id of the attempt.")
    left_out: _Files = Field(
        default=[], description="Files that this attempt or an earlier one found to be unprocessable."
    )
    cause: str = Field(default="", description="Cause for the first of them.")


class Quarantine(Report):
    """Files and events that a batch excluded because they cannot be processed; they are kept."""

    number: int = Field(ge=1, description="The batch.")
    files: _Files = Field(default=[], description="Files that no attempt could process.")
    rows: int = Field(default=0, description="Events in other files whose body does not match spark.output.body.")
    rows_path: str = Field(default="", description="Folder of those events, with file, sequence number and cause.")
    message: str = Field(default="", description="Cause for the first of them.")


class CommitTotals(Report):
    """Running totals over this batch and all before it."""

    rows_read: int = 0
    rows_written: int = 0
    quarantined_files: int = 0
    quarantined_rows: int = 0


class BatchCommit(WireDocument):
    """Proof that a batch's output is complete."""

    number: int = Field(ge=1)
    chain: str = Field(default="", description="Identity of the chain.")
    committed_at: AwareDatetime
    application: str = Field(description="Name of the Spark application that wrote the output.")
    attempt: str = Field(description="Unique id of the writing attempt.")
    output: str = Field(description="Location of the output of this batch.")
    output_version: int | None = Field(default=None, description="Version of the Delta table; absent: no Delta table.")
    files: int
    bytes: int = Field(default=0, description="Size of the files.")
    rows_read: int
    rows_written: int
    ranges: dict[str, Range] = Field(default={}, description="Partition id -> sequence numbers, as in the manifest.")
    seconds: float
    quarantine: Quarantine | None = Field(
        default=None, description="Quarantine of this batch, otherwise of the last earlier batch with one."
    )
    totals: CommitTotals = CommitTotals()

    def after(self, previous: Self | None) -> Self:
        """The record of this batch alone, continued from the published commit of the batch before.

        Args:
            previous: That commit; None: this is the first batch.
        """
        before, own = previous.totals if previous else CommitTotals(), self.quarantine
        totals = CommitTotals(
            rows_read=before.rows_read + self.rows_read,
            rows_written=before.rows_written + self.rows_written,
            quarantined_files=before.quarantined_files + (len(own.files) if own else 0),
            quarantined_rows=before.quarantined_rows + (own.rows if own else 0),
        )
        left = own or (previous.quarantine if previous else None)
        return self.model_copy(update={"totals": totals, "quarantine": left})


def decided(content: bytes) -> BatchCommit | None:
    """The commit record in a claim's blob; None: the blob has a claim, or nothing yet."""
    try:
        return BatchCommit.model_validate_json(content)
    except ValidationError:
        return None


class ReprocessOf(Model):
    """Batches to process again, one after the other."""

    name: str
    first: int = Field(ge=1)
    last: int = Field(ge=1)


class ResidentLimits(Model):
    """Limits of a resident driver: one that stays after a commit and processes the next batches, too."""

    seconds: int = Field(ge=1, description="Time without a batch after which the driver ends, seconds.")
    max_batches: int = Field(default=500, ge=1, description="Number of batches after which it ends.")
    max_age_seconds: int = Field(
        default=21_600, ge=1, description="Age after which it takes no further batch, seconds."
    )
    max_bytes: int | None = Field(
        default=None, ge=0, description="Size of the files of a later batch that it may process, bytes. Absent: any."
    )
    search_unprocessable: bool = Field(
        default=False,
        description="`search_unprocessable` of the first attempt at later batches: spark.retry.attempts is 1.",
    )


class BatchJob(WireDocument):
    """The request to a Spark driver, as JSON in the variable EVENTCONSUMER_BATCH_JOB. Contains no secret.

    A driver refuses a field that it does not know, because it may change the output.
    """

    model_config = ConfigDict(extra="forbid")

    chain: str = Field(min_length=1, description="Identity of the chain, which the manifest must name.")
    resource: ResourceRef = Field(description="The EventConsumer, for messages.")
    application: str = Field(description="Name of the Job or SparkApplication.")
    number: int = Field(ge=1, description="Number of the batch; in reprocessing, of the first.")
    attempt: int = Field(default=1, ge=1, description="Number of starts of the batch, including this one.")
    sink: BlobLocation
    output: SparkOutput
    registry: Credential | None = Field(
        default=None,
        description="Credential of the driver at output.body.registry; absent: none.",
    )
    search_unprocessable: bool = Field(
        default=False, description="If the batch fails, search the files that make it fail, and exclude them."
    )
    allow_insecure_endpoints: bool = Field(
        default=False,
        description="Plain HTTP to any host allowed: set by the administrator for emulators only.",
    )
    storage_suffixes: tuple[str, ...] = Field(
        default=AZURE_STORAGE_SUFFIXES,
        description="Otherwise, the allowed suffixes of storage accounts.",
    )
    parallel: bool = Field(
        default=False,
        description="The batch is parallel, as its manifest says.",
    )
    resident: ResidentLimits | None = Field(
        default=None,
        description="Stay for the next batches. Absent: end after this one.",
    )
    reprocess: ReprocessOf | None = Field(
        default=None, description="Process these batches again, instead of the open one."
    )


class RegistryCheck(WireDocument):
    """The request of `kubectl eventconsumer doctor` to the Spark image: can drivers read from their schema registry?

    An image refuses a field that it does not know: a check of a part would mislead.
    """

    model_config = ConfigDict(extra="forbid")

    registry: Registry
    credential: Credential | None = None


def manifest_name(prefix: str, number: int) -> str:
    """Blob name of a batch's manifest."""
    return f"{prefix}/_batches/{number:010d}.json"


def commit_name(prefix: str, number: int) -> str:
    """Blob name of a batch's commit record."""
    return f"{prefix}/_commits/{number:010d}.json"


def attempt_name(prefix: str, number: int) -> str:
    """Blob name of the claim of a batch's newest attempt."""
    return f"{prefix}/_attempts/{number:010d}.json"


def reprocess_prefix(prefix: str, name: str) -> str:
    """The prefix for `commit_name` and `attempt_name` in reprocessing of batches."""
    return f"{prefix}/_reprocess/{name}"


def manifest_url(job: BatchJob) -> str:
    """URL from which Spark reads the manifest of `job`: with the scheme and host of its output, as for all files."""
    output = urlsplit(job.output.path)
    host = output.netloc.rpartition("@")[2]
    return f"{output.scheme}://{job.sink.container}@{host}/{manifest_name(job.sink.prefix, job.number)}"
