"""The JSON of the status page's API, `/api/consumers` and `/api/consumers/{namespace}/{name}`.

Times are UTC in ISO 8601; lists over time have one element per slot, oldest first; null is "unknown".
"""

from datetime import datetime
from typing import Literal

from pydantic import Field

from eventconsumer_api.resource.remedies import Severity
from eventconsumer_api.shared.model import Report
from eventconsumer_api.v1alpha1.status import (
    DrainedStatus,
    HostsStatus,
    LagStatus,
    PartitionsStatus,
    ScalingStatus,
    SparkStatus,
)


class Choice(Report):
    """The query of `/api/consumers`: which consumers, in which order."""

    search: str = Field(default="", max_length=100, description="Part of <namespace>/<name>; case does not matter.")
    state: Severity | None = Field(default=None, description="Only consumers with this severity.")
    sort: Literal["name", "lag", "state"] = Field(
        default="name", description="By namespace and name; the greatest lag first; the worst severity first."
    )
    page: int = Field(default=1, ge=1, le=1_000_000, description="Number of the page; after the last: the last one.")
    limit: int = Field(default=100, ge=1, le=1000, description="Consumers of a page.")


class ConsumerSummary(Report):
    """One EventConsumer in the list."""

    namespace: str
    name: str
    observed_at: datetime = Field(description="Time of its last reconcile.")
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

    consumers: list[ConsumerSummary] = Field(description="One page of the chosen consumers.")
    total: int = Field(description="Number of all consumers.")
    found: int = Field(description="Number of the chosen ones.")
    page: int = Field(description="Number of the page.")
    pages: int = Field(description="Number of pages; 1 if there is no consumer.")
    states: dict[Severity, int] = Field(description="Number of all consumers by severity.")


class ConditionView(Report):
    """A condition with its remedy."""

    type: str
    status: str
    reason: str
    message: str
    severity: Severity = Field(description="ok, notice (worth a look) or problem (an action is required).")
    remedy: str = Field(description="The remedy; empty: no action required.")
    since: datetime = Field(description="Time of the last change of its status.")


class HostView(Report):
    """A host pod."""

    name: str
    state: str = Field(description="Its reported state; empty: it did not answer.")
    partitions: int = Field(description="Number of partitions that it reads.")
    leads: bool = Field(description="Whether it is the leading host.")


class Tenure(Report):
    """A time in which one host read a partition."""

    host: str = Field(description="Name of its pod; empty: no host.")
    owner: str = Field(description="Pod and its uid: a recreated pod is another owner.")
    start: datetime
    end: datetime | None = Field(description="Null: not ended.")


class PartitionView(Report):
    """A partition over time."""

    id: str
    owner: str = Field(description="Name of the pod that reads it; empty: none, or unknown.")
    events: list[int | None] = Field(description="Maximum of unwritten events in each slot; seven digits.")
    seconds: list[int | None] = Field(description="Maximum age of the oldest unwritten event in each slot, seconds.")
    tenures: list[Tenure] = Field(description="Its readers, oldest first, as far as known.")


class MoveView(Report):
    """A change of a partition's owner."""

    time: datetime
    partition: str
    source: str = Field(description="Pod that read it before; empty: none.")
    target: str = Field(description="Pod that reads it since; empty: none.")


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
    """The slots, with new files and events of each."""

    start: datetime | None = Field(description="Start of the first slot; null: no sample yet.")
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
