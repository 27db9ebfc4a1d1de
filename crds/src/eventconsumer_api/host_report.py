"""HostReport: the response of a host to `GET /status`, from which the operator builds the resource's status.

A host reports its own state; the leading host adds its measurements of the whole consumer. Unknown fields are ignored,
so that operator and hosts of adjacent versions are compatible during an upgrade.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from eventconsumer_api.model import ShownReport


class HostState(StrEnum):
    """State of a host."""

    STARTING = "Starting"
    RUNNING = "Running"
    BLOCKED = "Blocked"  # a problem that a user must correct; the host retries
    DRAINING = "Draining"  # SIGTERM received


class Problem(ShownReport):
    """A problem that a user must correct: field, cause, remedy."""

    field: str = Field(description="Path in the resource, such as spec.sink.container.")
    reason: str = Field(description="One of conditions.Reason.")
    message: str = Field(description="Cause and remedy; contains no secret.")


class PartitionReport(ShownReport):
    """One partition this host owns."""

    id: str
    epoch: int
    next_sequence_number: int | None = Field(default=None, description="Next slot of its chain; absent before open.")
    sequence_number: int | None = Field(default=None, description="Of the last received event; absent: none yet.")
    enqueued_time: datetime | None = Field(default=None, description="Enqueued time of that event.")
    retrieved_time: datetime | None = Field(default=None, description="Time at which this host received it.")
    events: int = Field(default=0, description="Events committed by this pump.")
    files: int = Field(default=0, description="Files committed by this pump.")


class BatchReport(ShownReport):
    """A frozen batch without a commit record."""

    number: int
    files: int
    bytes: int
    events: int
    reason: str = Field(description="Which trigger fired: Files, Bytes, Age or Schedule.")
    created_at: datetime | None = Field(default=None, description="Time at which it was frozen.")


class CommitReport(ShownReport):
    """The last commit of a batch."""

    number: int
    committed_at: datetime
    application: str
    rows_read: int
    rows_written: int
    seconds: float
    output_version: int | None = None
    quarantined_files: int = Field(default=0, description="Total of all batches.")
    quarantined_rows: int = Field(default=0, description="Total of all batches.")
    quarantine: str = Field(default="", description="Quarantine of the last batch that has one, as text.")


class PartitionLag(ShownReport):
    """Lag of one partition's files behind its head; both absent: unknown."""

    events: int | None = Field(default=None, description="Retained events that are in no file.")
    seconds: float | None = Field(default=None, description="Age of the oldest of them; 0: there is none.")


class FleetReport(ShownReport):
    """Measurements of the leading host for the whole consumer."""

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
        default=None, description="Enqueued time of the newest event in the hub; absent: unknown, or no event."
    )
    files: int = Field(description="Committed files, all partitions, since the chains' start.")
    events: int
    bytes: int
    last_file_time: datetime | None = None
    gap_events: int = Field(
        default=0, description="Events that expired before they were read, since the chains' start."
    )
    gaps: dict[str, str] = Field(
        default={}, description="Partition id -> sequence numbers of the newest such gap, such as 17-20."
    )
    pending_files: int = Field(default=0, description="Committed files that are in no committed batch.")
    pending_bytes: int = Field(default=0, description="Size of them.")
    pending_seconds: float = Field(
        default=0, description="Age of the oldest of them that is also in no open batch; 0: none."
    )
    processed_files: int = Field(default=0, description="Files in committed batches.")
    committed_batch: int = Field(default=0, description="Number of the last committed batch; 0: none.")
    committed_reason: str = Field(default="", description="Trigger of that batch.")
    last_commit: CommitReport | None = Field(default=None, description="Commit of that batch; absent: none.")
    open_batch: BatchReport | None = None


class StorageReport(ShownReport):
    """Storage requests of one host, both containers."""

    calls_per_hour: float | None = Field(
        default=None, description="Requests at the rate of the last 15 minutes; absent: the host has just started."
    )
    idle_calls_per_hour: float = Field(description="Requests with the present leases and without events.")


class HostReport(ShownReport):
    """The response to `GET /status`."""

    owner: str = Field(description="Owner id: <pod name>.<pod uid>.")
    state: HostState
    partition_count: int | None = Field(default=None, description="Partitions of the hub; absent: unknown.")
    partitions: tuple[PartitionReport, ...] = ()
    problems: tuple[Problem, ...] = ()
    fleet: FleetReport | None = Field(default=None, description="Only from the leading host.")
    storage: StorageReport | None = Field(default=None, description="Absent before registration.")
