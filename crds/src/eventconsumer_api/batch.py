"""Batches: how drained files are handed to Spark, each exactly once.

A batch is frozen as `<prefix>/_batches/<n>.json` and finished by `<prefix>/_commits/<n>.json`; both are written
put-if-absent and never change. Numbers start at 1 and batch n+1 is frozen only after n is committed. In each partition
the ranges of successive batches are contiguous: `ranges[p].first` is the previous manifest's `ranges[p].last` + 1 (S8).
"""

from datetime import datetime

from pydantic import Field

from eventconsumer_api.host_config import BlobLocation, ResourceRef
from eventconsumer_api.model import Model, Report


class BatchFile(Report):
    """One drained file."""

    path: str = Field(description="Blob name inside the container.")
    etag: str
    size: int = Field(description="Bytes.")
    partition: str
    first: int = Field(description="Expected first sequence number (the slot's name).")
    last: int = Field(description="Last sequence number in the file.")
    count: int = Field(description="Number of events.")


class Range(Report):
    """Sequence numbers of one partition, inclusive."""

    first: int
    last: int


class Totals(Report):
    """Running totals over this batch and all before it."""

    files: int = 0
    events: int = 0
    bytes: int = 0
    gap_events: int = Field(default=0, description="Events that retention removed before they were read.")


class BatchManifest(Report):
    """What a Spark application must process: exactly these files."""

    number: int = Field(ge=1)
    created_at: datetime
    reason: str = Field(description="Which trigger fired: Files or Age.")
    resource: ResourceRef
    incarnation: str = Field(description="Incarnation of the hub the files come from.")
    files: list[BatchFile]
    ranges: dict[str, Range] = Field(description="Partition id -> sequence numbers in this batch.")
    next: dict[str, int] = Field(
        description="Partition id -> where the next batch starts, for every partition seen so far."
    )
    totals: Totals


class BatchCommit(Report):
    """Proof that a batch's output is complete."""

    number: int = Field(ge=1)
    committed_at: datetime
    application: str = Field(description="Name of the Spark application that wrote the output.")
    attempt: str = Field(description="Unique id of the writing attempt.")
    output: str = Field(description="Where the output of this batch is.")
    files: int
    rows_read: int
    rows_written: int
    seconds: float


class BatchJob(Model):
    """What a Spark driver is told, as JSON in the environment variable EVENTCONSUMER_BATCH_JOB. No secret in it."""

    resource: ResourceRef
    application: str = Field(description="Name of the Kubernetes Job.")
    number: int = Field(ge=1)
    sink: BlobLocation
    output: str = Field(description="abfs(s) folder for results.")


def manifest_name(prefix: str, number: int) -> str:
    """Blob name of a batch's manifest."""
    return f"{prefix}/_batches/{number:010d}.json"


def commit_name(prefix: str, number: int) -> str:
    """Blob name of a batch's commit record."""
    return f"{prefix}/_commits/{number:010d}.json"
