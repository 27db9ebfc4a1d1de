"""HostReport: what a host answers on `GET /status`, and what the operator builds the resource's status from.

A host reports what it does itself; the one host that leads adds what it measured for the whole consumer. Unknown fields
are ignored so that operator and hosts of neighbouring versions understand each other during an upgrade.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from eventconsumer_api.model import Report


class HostState(StrEnum):
    """What a host is doing."""

    STARTING = "Starting"
    RUNNING = "Running"
    BLOCKED = "Blocked"  # a problem that a user must fix; the host keeps trying
    DRAINING = "Draining"  # SIGTERM received


class Problem(Report):
    """Something that a user must fix: which field, what is wrong, what to do."""

    field: str = Field(description="Path in the resource, such as spec.sink.container.")
    reason: str = Field(description="One of conditions.Reason.")
    message: str = Field(description="What is wrong and what to do; no secret in it.")


class PartitionReport(Report):
    """One partition this host owns."""

    id: str
    epoch: int
    next_sequence_number: int | None = Field(
        default=None, description="Where its chain of files goes on; absent before open."
    )
    sequence_number: int | None = Field(default=None, description="Of the last event received; absent: none yet.")
    enqueued_time: datetime | None = Field(default=None, description="When the hub enqueued that event.")
    retrieved_time: datetime | None = Field(default=None, description="When this host received it.")
    events: int = Field(default=0, description="Events committed by this pump.")
    files: int = Field(default=0, description="Files committed by this pump.")


class BatchReport(Report):
    """A frozen batch that no commit record exists for yet."""

    number: int
    files: int
    bytes: int
    events: int
    reason: str = Field(description="Which trigger fired: Files, Bytes, Age or Schedule.")
    created_at: datetime | None = Field(default=None, description="When it was frozen.")


class CommitReport(Report):
    """The last commit of a batch."""

    number: int
    committed_at: datetime
    application: str
    rows_read: int
    rows_written: int
    seconds: float
    output_version: int | None = None
    quarantined_files: int = Field(default=0, description="Of all batches so far.")
    quarantined_rows: int = Field(default=0, description="Of all batches so far.")
    quarantine: str = Field(default="", description="What the last batch with a quarantine left out, for people.")


class PartitionLag(Report):
    """How far one partition's files are behind its head; both absent: unknown."""

    events: int | None = Field(default=None, description="Retained events that are in no file.")
    seconds: float | None = Field(default=None, description="Age of the oldest of them; 0: there is none.")


class FleetReport(Report):
    """What the leading host measured for the whole consumer."""

    chain: str = Field(default="", description="Identity of the chain; empty: from a host of another version.")
    partition_count: int
    hub_created_at: datetime
    owners: dict[str, str] = Field(
        description="Partition id -> owner of its unexpired lease; unowned partitions are absent."
    )
    lag_events: int | None = Field(
        default=None, description="Events enqueued but not in a committed file; absent: unknown."
    )
    lag_seconds: float | None = Field(
        default=None, description="Age of the oldest event not in a file; absent: unknown."
    )
    lags: dict[str, PartitionLag] = Field(default={}, description="Partition id -> its lag, for every partition.")
    last_enqueued_time: datetime | None = Field(
        default=None, description="When the hub got its newest event; absent: unknown, or never."
    )
    files: int = Field(description="Committed files, all partitions, since the chains' start.")
    events: int
    bytes: int
    last_file_time: datetime | None = None
    gap_events: int = Field(
        default=0, description="Events that retention removed before they were read, since the chains' start."
    )
    gaps: dict[str, str] = Field(
        default={}, description="Partition id -> sequence numbers of the newest such gap, such as 17-20."
    )
    pending_files: int = Field(default=0, description="Committed files that are in no committed batch.")
    pending_bytes: int = Field(default=0, description="Size of them.")
    pending_seconds: float = Field(
        default=0, description="Age of the oldest of them that is in no batch either; 0: none."
    )
    processed_files: int = Field(default=0, description="Files in committed batches.")
    committed_batch: int = Field(default=0, description="Number of the last committed batch; 0: none.")
    committed_reason: str = Field(default="", description="Why that batch started.")
    last_commit: CommitReport | None = Field(default=None, description="Of that batch; absent: none.")
    open_batch: BatchReport | None = None


class StorageReport(Report):
    """Storage requests of one host, both containers."""

    calls_per_hour: float | None = Field(
        default=None, description="At the rate of the last quarter of an hour; absent: it started just now."
    )
    idle_calls_per_hour: float = Field(description="What it would make with what it holds now, were there no events.")


class HostReport(Report):
    """The answer of `GET /status`."""

    owner: str = Field(description="Owner id: <pod name>.<pod uid>.")
    state: HostState
    partition_count: int | None = Field(default=None, description="Partitions of the hub; absent: not known yet.")
    partitions: tuple[PartitionReport, ...] = ()
    problems: tuple[Problem, ...] = ()
    fleet: FleetReport | None = Field(default=None, description="Only from the leading host.")
    storage: StorageReport | None = Field(default=None, description="Absent before it is registered.")
