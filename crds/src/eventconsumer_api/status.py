"""The status of an EventConsumer: exactly what the operator writes, and nothing that it does not.

The same models make the typed status schema of the CRD and parse the previous status, from which the operator keeps
what a silent fleet cannot tell again (the partition count, say) and the transition times of conditions. Unknown fields
are ignored: an operator of a neighbouring version may have written them.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from eventconsumer_api.conditions import ConditionType
from eventconsumer_api.model import Report
from eventconsumer_api.v1alpha1 import ScalingMode

Count = Annotated[int, Field(ge=0)]


class Condition(Report):
    """One condition, in the shape of metav1.Condition."""

    type: ConditionType = Field(description="Which aspect.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(max_length=64, description="One word for programs; the reasons are documented constants.")
    message: str = Field(max_length=4096, description="A sentence for people: what is wrong and what to do.")
    last_transition_time: datetime = Field(description="When the status last changed.")
    observed_generation: Count = Field(description="Generation of the spec this is about.")


class HubStatus(Report):
    """What hosts learned about the Event Hub."""

    partition_count: Count | None = Field(default=None, description="Number of partitions.")
    created_at: datetime | None = Field(default=None, description="When the Event Hub was created.")


class HostsStatus(Report):
    """Host pods."""

    desired: Count = Field(default=0, description="Hosts wanted.")
    ready: Count = Field(default=0, description="Hosts ready.")


class PartitionsStatus(Report):
    """Partitions and their owners."""

    total: Count = Field(default=0, description="Partitions of the Event Hub; 0: not known yet.")
    owned: Count = Field(default=0, description="Partitions that a host reads.")
    unowned: Count = Field(default=0, description="Partitions that no host reads.")


class LagStatus(Report):
    """How far files are behind the Event Hub."""

    events: Count | None = Field(default=None, description="Events not yet in a committed file.")
    seconds: Count | None = Field(default=None, description="Age of the oldest such event, seconds.")


class ScalingStatus(Report):
    """What the number of hosts was last decided to be, and what the next decision has to remember."""

    replicas: Count = Field(description="Hosts wanted.")
    reason: str = Field(max_length=512, description="Why this number, as text.")
    mode: ScalingMode | None = Field(default=None, description="By which mode it was decided; absent: suspended.")
    last_scale_time: datetime | None = Field(default=None, description="When it last changed.")
    calm_since: datetime | None = Field(
        default=None, description="Since when no partition lags (mode Lag); absent: one does, or that is not known."
    )
    late_seconds: Count | None = Field(
        default=None, description="How late the latest partition was when the number last rose (mode Lag), seconds."
    )
    too_few: Count | None = Field(
        default=None, description="So many hosts were too few (mode Lag): for a time the number stays above."
    )
    too_few_time: datetime | None = Field(default=None, description="When that was seen.")


class ReplayStatus(Report):
    """The replay that the spec asks for."""

    nonce: str = Field(description="Its name.")
    state: Literal["Pending", "Running", "Succeeded", "Failed"] = Field(description="How far it is.")
    message: str = Field(default="", max_length=1024, description="What it waits for, or why it failed.")
    files: Count = Field(default=0, description="Files committed.")
    events: Count = Field(default=0, description="Events in them.")


class DrainedStatus(Report):
    """What is in files."""

    files: Count = Field(default=0, description="Committed files.")
    events: Count = Field(default=0, description="Events in them.")
    bytes: Count = Field(default=0, description="Size of them, bytes.")
    last_file_time: datetime | None = Field(default=None, description="When the last file was committed.")


class StorageStatus(Report):
    """What the hosts ask of storage, both containers: estimates, to two digits, that follow changes above a tenth."""

    calls_per_month: Count | None = Field(
        default=None,
        description="Requests in 730 hours at the rate of the last quarter of an hour; absent: not known yet.",
    )
    idle_calls_per_month: Count | None = Field(
        default=None,
        description="Requests in 730 hours without events: leases, scans and the lead; absent: not known yet.",
    )


class CommitStatus(Report):
    """The last batch that was committed."""

    number: Count = Field(description="Its number.")
    time: datetime = Field(description="When.")
    rows_read: Count = Field(description="Events read.")
    rows_written: Count = Field(description="Rows written.")
    seconds: float = Field(ge=0, description="Time it took, seconds.")
    output_version: Count | None = Field(default=None, description="Version of the Delta table; absent: none.")


class QuarantineStatus(Report):
    """What no attempt could process, all batches; it stays in the sink."""

    files: Count = Field(default=0, description="Files.")
    rows: Count = Field(default=0, description="Events in other files.")
    message: str = Field(default="", max_length=1024, description="The newest of them, and why.")


class BatchReplayStatus(Report):
    """The replay of batches that the spec asks for."""

    nonce: str = Field(description="Its name.")
    state: Literal["Pending", "Running", "Succeeded", "Failed"] = Field(description="How far it is.")
    message: str = Field(default="", max_length=1024, description="What it waits for, or why it failed.")
    output: str = Field(default="", description="Folder of its result.")
    batches: Count = Field(default=0, description="Batches committed.")
    rows: Count = Field(default=0, description="Rows written.")


class SparkStatus(Report):
    """What Spark did with the files."""

    last_batch: Count = Field(default=0, description="Number of the last batch that was started; 0: none.")
    attempt: Count = Field(default=0, description="How often it was started.")
    last_application: str = Field(default="", description="Name of the last application that was started.")
    reason: str = Field(default="", description="What started that batch: Files, Bytes, Age or Schedule.")
    mode: Literal["", "Local", "Executors"] = Field(default="", description="Where its tasks run.")
    failures: Count = Field(default=0, description="Failed attempts in a row.")
    last_failure: str = Field(default="", max_length=1024, description="Why the last of them failed.")
    next_attempt_time: datetime | None = Field(default=None, description="When the batch is tried again; absent: now.")
    pending_files: Count = Field(default=0, description="Files in no committed batch.")
    pending_bytes: Count = Field(default=0, description="Size of them, bytes.")
    processed_files: Count = Field(default=0, description="Files in committed batches.")
    last_commit: CommitStatus | None = Field(default=None, description="The last committed batch; absent: none.")
    quarantine: QuarantineStatus | None = Field(default=None, description="What was left out; absent: nothing.")
    replay: BatchReplayStatus | None = Field(default=None, description="The replay; absent where none is asked for.")


class EffectiveStatus(Report):
    """Values the operator computed from the spec and its own settings."""

    replicas: Count = Field(description="Hosts wanted.")
    image: str = Field(description="Image of the hosts.")
    spark_image: str = Field(description="Image of Spark drivers and executors.")
    sink_prefix: str = Field(description="Folder of the files in the sink's container.")
    config_hash: str = Field(description="Digest of the configuration the hosts run with.")


class EventConsumerStatus(Report):
    """What the operator observed."""

    observed_generation: Count = Field(default=0, description="Generation of the spec this status is about.")
    conditions: list[Condition] = Field(
        default=[],
        max_length=16,
        description="Ready, Reconciling, Stalled, HostsAvailable, Draining, DataGap, SparkHealthy.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    hub: HubStatus = Field(default=HubStatus(), description="The Event Hub.")
    replicas: Count = Field(default=0, description="Host pods that exist (for the scale subresource).")
    selector: str = Field(default="", description="Label selector of the host pods (for the scale subresource).")
    hosts: HostsStatus = Field(default=HostsStatus(), description="Host pods.")
    partitions: PartitionsStatus = Field(default=PartitionsStatus(), description="Partitions and their owners.")
    lag: LagStatus = Field(default=LagStatus(), description="How far files are behind.")
    scaling: ScalingStatus | None = Field(default=None, description="How many hosts, and why; absent: not decided yet.")
    replay: ReplayStatus | None = Field(default=None, description="The replay; absent where the spec asks for none.")
    drained: DrainedStatus = Field(default=DrainedStatus(), description="What is in files.")
    storage: StorageStatus = Field(default=StorageStatus(), description="Storage requests of the hosts.")
    spark: SparkStatus | None = Field(default=None, description="Spark; absent where it is not enabled.")
    effective: EffectiveStatus | None = Field(default=None, description="Computed values; absent for an invalid spec.")

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of this type, if it is there."""
        return next((condition for condition in self.conditions if condition.type is kind), None)
