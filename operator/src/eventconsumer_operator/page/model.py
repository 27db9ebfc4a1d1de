"""The JSON of the status page's API, `/api/consumers` and `/api/consumers/{namespace}/{name}`.

Times are UTC in ISO 8601; lists over time have one element for each slot, oldest first; null is "not known".
"""

from datetime import datetime

from pydantic import Field

from eventconsumer_api.model import Report
from eventconsumer_api.remedies import Severity
from eventconsumer_api.status import DrainedStatus, HostsStatus, LagStatus, PartitionsStatus, ScalingStatus, SparkStatus


class ConsumerSummary(Report):
    """One EventConsumer in the list."""

    namespace: str
    name: str
    observed_at: datetime = Field(description="When the operator last looked at it.")
    ready: str = Field(description="Status of the condition Ready: True, False or Unknown.")
    reason: str = Field(description="Reason of the condition Ready.")
    message: str = Field(description="Its message.")
    severity: Severity = Field(description="The worst of its conditions: ok, notice or problem.")
    hosts: HostsStatus
    partitions: PartitionsStatus
    lag: LagStatus
    drained: DrainedStatus


class ConsumerList(Report):
    """Answer of `/api/consumers`."""

    consumers: list[ConsumerSummary] = Field(description="By namespace and name.")


class ConditionView(Report):
    """A condition with its remedy."""

    type: str
    status: str
    reason: str
    message: str
    severity: Severity = Field(description="ok, notice: worth a look, or problem: somebody must do something.")
    remedy: str = Field(description="What to do; empty: nothing.")
    since: datetime = Field(description="When its status last changed.")


class HostView(Report):
    """A host pod."""

    name: str
    state: str = Field(description="What it says it does; empty: it did not answer.")
    partitions: int = Field(description="How many it reads.")
    leads: bool = Field(description="Whether it measures for the others.")


class Tenure(Report):
    """A partition was read by one host for a time."""

    host: str = Field(description="Name of its pod; empty: nobody.")
    owner: str = Field(description="Pod and its uid: a pod that was made anew is another owner.")
    start: datetime
    end: datetime | None = Field(description="Null: it goes on.")


class PartitionView(Report):
    """A partition over time."""

    id: str
    owner: str = Field(description="Name of the pod that reads it now; empty: nobody, or not known.")
    events: list[int | None] = Field(description="The most events in no file, in each slot; seven digits.")
    seconds: list[int | None] = Field(description="The greatest age of the oldest of them in each slot, seconds.")
    tenures: list[Tenure] = Field(description="Who read it, oldest first, as far back as is known.")


class MoveView(Report):
    """A partition got another owner."""

    time: datetime
    partition: str
    source: str = Field(description="Pod that read it before; empty: nobody.")
    target: str = Field(description="Pod that reads it since; empty: nobody.")


class BatchView(Report):
    """A batch of files for Spark."""

    number: int
    reason: str
    files: int | None
    events: int | None
    created: datetime | None
    committed: datetime | None
    rows: int | None
    seconds: float | None


class TimelineView(Report):
    """The slots, and what came to files in each."""

    start: datetime | None = Field(description="Beginning of the first slot; null: nothing was seen yet.")
    slot_seconds: int
    slots: int
    files: list[int | None] = Field(description="New files.")
    events: list[int | None] = Field(description="Events in them.")


class ConsumerDetail(Report):
    """Answer of `/api/consumers/{namespace}/{name}`."""

    summary: ConsumerSummary
    conditions: list[ConditionView]
    timeline: TimelineView
    partitions: list[PartitionView]
    hosts: list[HostView]
    moves: list[MoveView] = Field(description="Newest first; the newest only.")
    batches: list[BatchView] = Field(description="Newest first; the newest only.")
    scaling: ScalingStatus | None
    spark: SparkStatus | None


class ErrorView(Report):
    """Answer of a request that failed."""

    error: str
