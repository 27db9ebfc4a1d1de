"""The status of an EventConsumer: exactly the fields that the operator writes.

The same models define the status schema of the CRD and parse the previous status. From it the operator keeps values
that a fleet without responses cannot report again (such as the partition count) and the transition times of conditions.
Unknown fields are ignored: an operator of an adjacent version may have written them.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from eventconsumer_api.shared.model import ShownReport
from eventconsumer_api.spec.conditions import ConditionType
from eventconsumer_api.spec.spark import IN_FLIGHT_MAX
from eventconsumer_api.v1alpha1.scaling import ScalingMode

Count = Annotated[int, Field(ge=0)]
MISSING_MAX = IN_FLIGHT_MAX + 16
"""Objects in status.missing: hosts, probe, replays, and the applications of open batches."""


class Condition(ShownReport):
    """One condition, in the shape of metav1.Condition."""

    type: ConditionType = Field(description="Condition type.")
    status: Literal["True", "False", "Unknown"] = Field(description="Status of the condition.")
    reason: str = Field(max_length=64, description="Machine-readable reason; the reasons are documented.")
    message: str = Field(max_length=4096, description="Cause and remedy.")
    last_transition_time: datetime = Field(description="Time of the last change of the status.")
    observed_generation: Count = Field(description="Generation of the spec to which the condition applies.")


class HubStatus(ShownReport):
    """What hosts learned about the Event Hub."""

    namespace: str | None = Field(default=None, max_length=256, description="Host name of the namespace.")
    name: str | None = Field(default=None, max_length=256, description="Name of the Event Hub.")
    partition_count: Count | None = Field(default=None, description="Number of partitions.")
    created_at: datetime | None = Field(default=None, description="When the Event Hub was created.")


class HostsStatus(ShownReport):
    """Host pods."""

    desired: Count = Field(default=0, description="Desired number of hosts.")
    ready: Count = Field(default=0, description="Ready hosts.")
    no_leader_since: datetime | None = Field(
        default=None,
        description="Time since which no leading host reports: batches and SparkHealthy are of the last report, and "
        "the lag for three minutes. Absent: one reports.",
    )


class MissingStatus(ShownReport):
    """Pods that a controller has not created."""

    object: str = Field(max_length=256, description="Object that should have them, such as statefulset/orders-host.")
    expected: Count = Field(description="Pods that should exist.")
    existing: Count = Field(description="Pods that exist.")
    since: datetime = Field(description="Time since which pods are missing.")
    cause: str = Field(
        default="",
        max_length=512,
        description="Answer of the API server that refused a pod, from an Event of its controller, which expires. "
        "Empty: unknown.",
    )


class PartitionsStatus(ShownReport):
    """Partitions and their owners."""

    total: Count | None = Field(default=None, description="Partitions of the Event Hub. Absent: unknown.")
    owned: Count | None = Field(
        default=None, description="Partitions whose host has a link and hears the hub. Absent: unknown."
    )
    unowned: Count | None = Field(default=None, description="Partitions that no host reads. Absent: unknown.")


class LagStatus(ShownReport):
    """How far files are behind the Event Hub."""

    events: Count | None = Field(default=None, description="Events not yet in a committed file. Absent: unknown.")
    seconds: Count | None = Field(default=None, description="Age of the oldest such event, seconds. Absent: unknown.")


class ScalingStatus(ShownReport):
    """What the number of hosts was last decided to be, and what the next decision has to remember."""

    replicas: Count = Field(description="Desired number of hosts.")
    reason: str = Field(max_length=512, description="Reason for this number.")
    mode: ScalingMode | None = Field(default=None, description="Scaling mode of the decision. Absent: suspended.")
    last_scale_time: datetime | None = Field(default=None, description="Time of the last change.")
    no_lag_since: datetime | None = Field(
        default=None, description="Time since which no partition lags (mode Lag). Absent: a partition lags, or unknown."
    )
    scale_up_lag_seconds: Count | None = Field(
        default=None,
        description="Lag of the partition that was furthest behind when hosts were added (mode Lag), seconds.",
    )
    insufficient_replicas: Count | None = Field(
        default=None,
        description="Number of hosts that was insufficient (mode Lag). For a time the number stays above it.",
    )
    insufficient_replicas_time: datetime | None = Field(default=None, description="Time of that observation.")
    unknown_since: datetime | None = Field(
        default=None,
        description="Time since which the probe does not report the lag of all partitions (mode Lag). After three "
        "minutes a host runs in its place. Absent: it does, or is not needed.",
    )


class ReplayStatus(ShownReport):
    """The replay that the spec asks for."""

    name: str = Field(description="Name of the replay.")
    state: Literal["Pending", "Running", "Succeeded", "Failed"] = Field(description="State of the replay.")
    message: str = Field(default="", max_length=1024, description="Reason for waiting or for the failure.")
    files: Count = Field(default=0, description="Files committed.")
    events: Count = Field(default=0, description="Number of events in the files.")


class DrainedStatus(ShownReport):
    """Drained events and files."""

    files: Count = Field(default=0, description="Committed files.")
    events: Count = Field(default=0, description="Number of events in the files.")
    bytes: Count = Field(default=0, description="Total size, bytes.")
    last_file_time: datetime | None = Field(default=None, description="Time of the last commit of a file.")
    gap_events: Count = Field(
        default=0, description="Lost events: they expired in the Event Hub before they were written."
    )
    watermark: datetime | None = Field(
        default=None,
        description="All events that were enqueued before this time are in files, of every partition. Absent: unknown.",
    )


class TableStatus(ShownReport):
    """The table over the drained files."""

    version: Count = Field(default=0, description="Version of the table.")
    files: Count = Field(default=0, description="Files that hosts have registered.")
    events: Count = Field(default=0, description="Events in them.")
    pending_files: Count = Field(default=0, description="Committed files that are not registered yet.")
    pending_events: Count = Field(default=0, description="Events in them.")
    oldest_pending_time: datetime | None = Field(
        default=None, description="Time of the commit of the oldest of them. Absent: none waits."
    )
    last_commit_time: datetime | None = Field(default=None, description="Time of the last commit to the table.")
    log_retention_seconds: Count | None = Field(
        default=None,
        description="Time for which old versions of the log are kept, seconds, at most 100,000 versions: a stream "
        "may stop that long. Absent: hosts do not remove them.",
    )


class NoticesStatus(ShownReport):
    """The notices about drained files."""

    pending_events: Count = Field(default=0, description="Events in files whose notice is not acknowledged.")
    last_time: datetime | None = Field(default=None, description="Time of the last acknowledged notice.")


class RetentionStatus(ShownReport):
    """What retention removed, and what is left."""

    files: Count = Field(default=0, description="Files that retention has removed.")
    events: Count = Field(default=0, description="Events in them.")
    bytes: Count = Field(default=0, description="Size of them, bytes.")
    oldest_file_time: datetime | None = Field(
        default=None, description="Time of the commit of the oldest file that is kept. Absent: none, or unknown."
    )
    excess_bytes: Count = Field(default=0, description="Size of the kept files above spec.sink.retention.bytes, bytes.")
    held: str = Field(
        default="", max_length=256, description="Why the oldest file that is due is kept. Empty: no file is due."
    )


class StorageStatus(ShownReport):
    """What the hosts ask of storage, both containers: estimates, to two digits, that follow changes above a tenth."""

    requests_per_month: Count | None = Field(
        default=None,
        description="Requests in 730 hours at the rate of the last 15 minutes. Absent: unknown.",
    )
    idle_requests_per_month: Count | None = Field(
        default=None,
        description="Requests in 730 hours without events: leases, listings and leadership. Absent: unknown.",
    )


class CommitStatus(ShownReport):
    """The last batch that was committed."""

    number: Count = Field(description="Its number.")
    time: datetime = Field(description="When.")
    rows_read: Count = Field(description="Events read.")
    rows_written: Count = Field(description="Rows written.")
    seconds: float = Field(ge=0, description="Duration, seconds.")
    output_version: Count | None = Field(default=None, description="Version of the Delta table. Absent: none.")


class QuarantineStatus(ShownReport):
    """What no attempt could process, all batches; it stays in the sink."""

    files: Count = Field(default=0, description="Files.")
    rows: Count = Field(default=0, description="Events in other files.")
    message: str = Field(default="", max_length=1024, description="The most recent one, with its cause.")


class ReprocessStatus(ShownReport):
    """Reprocessing of batches that the spec asks for."""

    name: str = Field(description="Name of the request.")
    state: Literal["Pending", "Running", "Succeeded", "Failed"] = Field(description="State of reprocessing.")
    message: str = Field(default="", max_length=1024, description="Reason for waiting or for the failure.")
    output: str = Field(default="", description="Output folder.")
    batches: Count = Field(default=0, description="Batches committed.")
    rows: Count = Field(default=0, description="Rows written.")


class WatermarkStatus(ShownReport):
    """What committed batches contain completely."""

    time: datetime = Field(
        description="All events that were enqueued before this time are in committed batches, of every partition."
    )
    batch: Count = Field(description="Number of the last of these batches; 0: there was no event.")


class LaterBatchStatus(ShownReport):
    """The attempts at an open batch that others precede."""

    batch: Count = Field(description="Its number.")
    attempt: Count = Field(description="Number of its attempts.")
    application: str = Field(description="Name of the last started application.")
    failures: Count = Field(default=0, description="Failed attempts in a row.")
    waiting: str = Field(
        default="",
        max_length=1024,
        description="Why the last started application waits for pods, as last observed. Empty: it does not wait.",
    )
    last_failure: str = Field(default="", max_length=1024, description="Cause of the last failure.")
    next_attempt_time: datetime | None = Field(default=None, description="Time of the next attempt. Absent: now.")


class SparkStatus(ShownReport):
    """What Spark did with the files."""

    last_batch: Count = Field(
        default=0, description="Number of the first open batch, or else of the last started one; 0: none."
    )
    attempt: Count = Field(default=0, description="Number of its attempts.")
    last_application: str = Field(default="", description="Name of the last started application.")
    reason: str = Field(default="", description="Trigger of that batch: Files, Bytes, Age, Schedule or Window.")
    mode: Literal["", "Local", "Executors"] = Field(default="", description="Place of its tasks.")
    failures: Count = Field(default=0, description="Failed attempts in a row.")
    waiting: str = Field(
        default="",
        max_length=1024,
        description="Why the last started application waits for pods, as last observed. Empty: it does not wait.",
    )
    last_failure: str = Field(default="", max_length=1024, description="Cause of the last failure.")
    next_attempt_time: datetime | None = Field(default=None, description="Time of the next attempt. Absent: now.")
    later_batches: list[LaterBatchStatus] = Field(
        default=[], max_length=IN_FLIGHT_MAX, description="Started batches after it, with spark.batch.inFlight above 1."
    )
    pending_files: Count = Field(default=0, description="Files in no committed batch.")
    pending_bytes: Count = Field(default=0, description="Total size, bytes.")
    processed_files: Count = Field(default=0, description="Files in committed batches.")
    last_commit: CommitStatus | None = Field(default=None, description="The last committed batch. Absent: none.")
    watermark: WatermarkStatus | None = Field(
        default=None, description="What committed batches contain completely. Absent: unknown."
    )
    quarantine: QuarantineStatus | None = Field(default=None, description="Excluded files and events. Absent: none.")
    reprocess: ReprocessStatus | None = Field(
        default=None, description="Reprocessing of batches. Absent: none requested."
    )


class EffectiveStatus(ShownReport):
    """Values the operator computed from the spec and its own settings."""

    replicas: Count = Field(description="Desired number of hosts.")
    image: str = Field(description="Image of the hosts.")
    spark_image: str = Field(description="Image of Spark drivers and executors.")
    sink_prefix: str = Field(description="Folder of the files in the sink's container.")
    config_hash: str = Field(description="Digest of the configuration the hosts run with.")


class EventConsumerStatus(ShownReport):
    """Observed state."""

    observed_generation: Count = Field(default=0, description="Generation of the spec to which the status applies.")
    conditions: list[Condition] = Field(
        default=[],
        max_length=16,
        description="Ready, Reconciling, Stalled, HostsAvailable, Draining, DataGap, BodiesUnreadable, SparkHealthy.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    hub: HubStatus = Field(default=HubStatus(), description="The Event Hub.")
    replicas: Count = Field(default=0, description="Host pods that exist (for the scale subresource).")
    selector: str = Field(default="", description="Label selector of the host pods (for the scale subresource).")
    hosts: HostsStatus = Field(default=HostsStatus(), description="Host pods.")
    missing: list[MissingStatus] = Field(
        default=[], max_length=MISSING_MAX, description="Pods that should exist and do not. Absent: none."
    )
    partitions: PartitionsStatus = Field(default=PartitionsStatus(), description="Partitions and their owners.")
    lag: LagStatus = Field(default=LagStatus(), description="Lag of the files behind the hub.")
    scaling: ScalingStatus | None = Field(default=None, description="The scaling decision. Absent: not decided yet.")
    replay: ReplayStatus | None = Field(default=None, description="The replay. Absent: none requested.")
    drained: DrainedStatus = Field(default=DrainedStatus(), description="Drained events and files.")
    table: TableStatus | None = Field(default=None, description="The table over the files. Absent: none.")
    notices: NoticesStatus | None = Field(default=None, description="The notices about files. Absent: none.")
    retention: RetentionStatus | None = Field(default=None, description="Retention of files. Absent: no limit.")
    storage: StorageStatus = Field(default=StorageStatus(), description="Storage requests of the hosts.")
    spark: SparkStatus | None = Field(default=None, description="Spark. Absent: not enabled.")
    effective: EffectiveStatus | None = Field(default=None, description="Computed values. Absent: invalid spec.")

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of this type, if it is there."""
        return next((condition for condition in self.conditions if condition.type is kind), None)
