"""HostReport: the response of a host to `GET /status`, from which the operator builds the resource's status.

A host reports its own state; the leading host adds its measurements of the whole consumer. Unknown fields are ignored,
so that operator and hosts of adjacent versions are compatible during an upgrade.

A host runs code of users, so every field has a limit: numbers and lists beyond it are refused, longer texts are cut.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, FailFast, Field, StringConstraints

from eventconsumer_api.shared.model import ShownReport, Since
from eventconsumer_api.spec.spark import IN_FLIGHT_MAX
from eventconsumer_api.wire.document import WireDocument

REPORT_MAX_BYTES = 1024 * 1024  # a report of 1,024 partitions with the longest names has about 600 kB
# Items of a list or map. An event hub has at most 1,024 partitions:
# https://learn.microsoft.com/azure/event-hubs/event-hubs-quotas
REPORT_MAX_ITEMS = 2048

COUNT_MAX = 2**63 - 1  # sequence numbers and sizes are 64-bit integers
SECONDS_MAX = 1e10  # 300 years
BODY_ERRORS_MAX = 16  # of one host: different texts


def _cut(limit: int) -> tuple[BeforeValidator, StringConstraints]:
    """A text of any length, cut to `limit` characters."""

    def cut(value: object) -> object:
        return value[:limit] if isinstance(value, str) else value

    return BeforeValidator(cut), StringConstraints(max_length=limit)


Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Number = Annotated[int, Field(ge=-COUNT_MAX - 1, le=COUNT_MAX)]  # of a slot, an event or an epoch
PartitionCount = Annotated[int, Field(ge=0, le=REPORT_MAX_ITEMS)]
Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
PartitionId = Annotated[str, StringConstraints(max_length=64)]
Name = Annotated[str, *_cut(256)]  # owner ids of hosts have at most 206 characters, so a cut one is never one of them
Text = Annotated[str, *_cut(4096)]
# An error for each of a hundred thousand wrong items takes seconds: the first one ends the validation.
_ITEMS = (FailFast(), Field(max_length=REPORT_MAX_ITEMS))


class HostState(StrEnum):
    """State of a host."""

    STARTING = "Starting"
    RUNNING = "Running"
    BLOCKED = "Blocked"  # a problem that a user must correct; the host retries
    DRAINING = "Draining"  # SIGTERM received


class Problem(ShownReport):
    """A problem that a user must correct: field, cause, remedy."""

    field: Name = Field(description="Path in the resource, such as spec.sink.container.")
    reason: Name = Field(description="One of conditions.Reason.")
    message: Text = Field(description="Cause and remedy; contains no secret.")
    since: AwareDatetime | None = Field(
        default=None, description="Since when the host has it; absent: from a host of another version."
    )


class PartitionReport(ShownReport):
    """One partition this host owns."""

    id: PartitionId
    epoch: Number
    next_sequence_number: Number | None = Field(default=None, description="Next slot of its chain; absent before open.")
    sequence_number: Number | None = Field(default=None, description="Of the last received event; absent: none yet.")
    enqueued_time: AwareDatetime | None = Field(default=None, description="Enqueued time of that event.")
    retrieved_time: AwareDatetime | None = Field(default=None, description="Time at which this host received it.")
    events: Count = Field(default=0, description="Events committed by this pump.")
    files: Count = Field(default=0, description="Files committed by this pump.")
    read: bool = Field(default=True, description="Whether its link is attached, and the host hears the hub.")


class BatchReport(ShownReport):
    """A frozen batch without a commit record."""

    number: Count
    files: Count
    bytes: Count
    events: Count
    reason: Name = Field(description="Which trigger fired: Files, Bytes, Age, Schedule or Window.")
    created_at: AwareDatetime | None = Field(default=None, description="Time at which it was frozen.")
    parallel: bool = Field(default=False, description="Batches before it may be open while it is processed.")


class CommitReport(ShownReport):
    """The last commit of a batch."""

    number: Count
    committed_at: AwareDatetime
    application: Name
    rows_read: Count
    rows_written: Count
    seconds: Seconds
    output_version: Count | None = None
    quarantined_files: Count = Field(default=0, description="Total of all batches.")
    quarantined_rows: Count = Field(default=0, description="Total of all batches.")
    quarantine: Text = Field(default="", description="Quarantine of the last batch that has one, as text.")


class PartitionLag(ShownReport):
    """Lag of one partition's files behind its head; both absent: unknown."""

    events: Count | None = Field(default=None, description="Retained events that are in no file.")
    seconds: Seconds | None = Field(default=None, description="Age of the oldest of them; 0: there is none.")


class TableReport(ShownReport):
    """The table over the drained files."""

    version: Count = Field(description="Last version that the leading host knows.")
    files: Count = Field(description="Files that hosts have registered.")
    events: Count = Field(description="Events in them.")
    pending_files: Count = Field(default=0, description="Files that are not registered yet, as far as they are known.")
    pending_events: Count = Field(default=0, description="Events in them.")
    oldest_pending_time: AwareDatetime | None = Field(
        default=None, description="Time of the commit of the oldest of them; absent: none waits."
    )
    committed_at: AwareDatetime | None = Field(
        default=None, description="Last commit of the leading host; absent: none since it leads."
    )
    log_retention_seconds: Seconds | None = Field(
        default=None, description="Time for which old versions of the log are kept; absent: they are not removed."
    )


class NoticesReport(ShownReport):
    """The notices about files."""

    pending_events: Count = Field(
        description="Events in files whose notice is not acknowledged, as far as they are known."
    )
    pending_seconds: Seconds = Field(
        default=0.0, description="Age of the oldest file whose notice is not acknowledged; 0: none."
    )
    acknowledged_at: AwareDatetime | None = Field(
        default=None, description="Time of the last acknowledged notice; absent: none since this host leads."
    )


class RetentionReport(ShownReport):
    """What retention removed, and what is left."""

    files: Count = Field(description="Files that retention has removed.")
    events: Count = Field(description="Events in them.")
    bytes: Count = Field(description="Size of them.")
    oldest_file_time: AwareDatetime | None = Field(
        default=None, description="Time of the commit of the oldest file that is kept; absent: none, or unknown."
    )
    excess_bytes: Count = Field(default=0, description="Size of the kept files above spec.sink.retention.bytes.")
    held: Name = Field(default="", description="Why the oldest file that is due is kept; empty: none is due.")


class WatermarkReport(ShownReport):
    """Times up to which all events of every partition are in files, and in committed batches."""

    files: AwareDatetime = Field(description="All events that were enqueued before this time are in files.")
    commits: AwareDatetime | None = Field(
        default=None,
        description="All events that were enqueued before this time are in committed batches; absent: unknown.",
    )
    batch: Count = Field(default=0, description="Number of the last of these batches; 0: none.")


class FleetReport(ShownReport):
    """Measurements of the leading host for the whole consumer."""

    chain: Name = Field(default="", description="Identity of the chain; empty: from a host of another version.")
    partition_count: PartitionCount
    hub_namespace: Name = Field(default="", description="Host name of the hub's namespace; empty: another version.")
    hub_name: Name = Field(default="", description="Name of the hub; empty: another version.")
    hub_created_at: AwareDatetime
    owners: Annotated[dict[PartitionId, Name], *_ITEMS] = Field(
        description="Partition id -> owner of its unexpired lease; unowned partitions are absent."
    )
    lag_events: Count | None = Field(
        default=None, description="Events enqueued but not in a committed file; absent: unknown."
    )
    lag_seconds: Seconds | None = Field(
        default=None, description="Age of the oldest event not in a file; absent: unknown."
    )
    lags: Annotated[dict[PartitionId, PartitionLag], *_ITEMS] = Field(
        default={}, description="Partition id -> its lag, for every partition."
    )
    last_enqueued_time: AwareDatetime | None = Field(
        default=None, description="Enqueued time of the newest event in the hub; absent: unknown, or no event."
    )
    files: Count = Field(description="Committed files, all partitions, since the chains' start.")
    events: Count
    bytes: Count
    last_file_time: AwareDatetime | None = None
    gap_events: Count = Field(
        default=0, description="Events that expired before they were read, since the chains' start."
    )
    gaps: Annotated[dict[PartitionId, Name], *_ITEMS] = Field(
        default={}, description="Partition id -> sequence numbers of the newest such gap, such as 17-20."
    )
    pending_files: Count = Field(default=0, description="Committed files that are in no committed batch.")
    pending_bytes: Count = Field(default=0, description="Size of them.")
    pending_seconds: Seconds = Field(
        default=0, description="Age of the oldest of them that is also in no open batch; 0: none."
    )
    processed_files: Count = Field(default=0, description="Files in committed batches.")
    committed_batch: Count = Field(default=0, description="Number of the last committed batch; 0: none.")
    committed_reason: Name = Field(default="", description="Trigger of that batch.")
    last_commit: CommitReport | None = Field(default=None, description="Commit of that batch; absent: none.")
    open_batches: Annotated[list[BatchReport], FailFast(), Field(max_length=IN_FLIGHT_MAX)] = Field(
        default=[], description="Frozen batches without a commit record, by number."
    )
    watermark: WatermarkReport | None = Field(default=None, description="What is complete; absent: unknown.")
    table: TableReport | None = Field(default=None, description="The table over the files; absent: none, or unknown.")
    notices: NoticesReport | None = Field(default=None, description="The notices; absent: none, or unknown.")
    retention: RetentionReport | None = Field(default=None, description="Retention; absent: none, or unknown.")

    @property
    def open_batch(self) -> BatchReport | None:
        """The first open batch, whose commit is published next; None: no batch is open."""
        return next(iter(self.open_batches), None)


class BodyErrorReport(ShownReport):
    """Why bodies of events do not fit the columns of bodies: an `_error`, which never has a value of a body."""

    error: Annotated[Text, Since("0.2.0")]
    events: Annotated[Count, Since("0.2.0")] = Field(description="In files that this host has committed.")
    file: Annotated[Text, Since("0.2.0")] = Field(description="Name of the newest file with it.")
    committed_at: Annotated[AwareDatetime, Since("0.2.0")] = Field(description="When this file was committed.")


class StorageReport(ShownReport):
    """Storage requests of one host, both containers."""

    requests_per_hour: Rate | None = Field(
        default=None, description="Requests at the rate of the last 15 minutes; absent: the host has just started."
    )
    idle_requests_per_hour: Rate = Field(description="Requests with the present leases and without events.")


class HostReport(ShownReport, WireDocument):
    """The response to `GET /status`."""

    owner: Name = Field(description="Owner id: <pod name>.<pod uid>.")
    state: HostState
    partition_count: PartitionCount | None = Field(default=None, description="Partitions of the hub; absent: unknown.")
    partitions: Annotated[tuple[PartitionReport, ...], *_ITEMS] = ()
    problems: Annotated[tuple[Problem, ...], *_ITEMS] = ()
    hub_silent_seconds: Seconds | None = Field(
        default=None,
        description="Seconds since the hub delivered an event or answered a query of the host; absent: unknown.",
    )
    fleet: FleetReport | None = Field(default=None, description="Only from the leading host.")
    storage: StorageReport | None = Field(default=None, description="Absent before registration.")
    body_errors: Annotated[
        tuple[BodyErrorReport, ...], FailFast(), Field(max_length=BODY_ERRORS_MAX), Since("0.2.0")
    ] = Field(default=(), description="Those of files of the last ten minutes, the newest first.")
