"""Facts about the open batches, from which the condition SparkHealthy follows. Pure."""

from dataclasses import dataclass
from datetime import datetime

from eventconsumer_api.spec.spark import Spark
from eventconsumer_api.v1alpha1.status import LaterBatchStatus, QuarantineStatus, SparkStatus
from eventconsumer_api.wire.host_report import BatchReport, FleetReport
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark.applications import ApplicationState
from eventconsumer_operator.spark.attempts import Attempts, memory_of
from eventconsumer_operator.spark.failures import RunningExecutors, WaitingCause, executors, why_waiting
from eventconsumer_operator.spark.plan import SparkPlan


@dataclass(frozen=True)
class AttemptRuns:
    """An attempt at the batch is in progress.

    Attributes:
        attempt: Its number.
        application: Name of its application.
        starting: Whether no pod of it runs yet.
        resident: Whether a resident driver of an earlier batch makes it.
    """

    attempt: int
    application: str
    starting: bool
    resident: bool = False


@dataclass(frozen=True)
class AnotherRuns:
    """An application of another batch must end first."""

    application: str


@dataclass(frozen=True)
class Suspended:
    """spec.suspend is true, so no attempt is started."""


@dataclass(frozen=True)
class Creating:
    """The batch's first application is being created."""


@dataclass(frozen=True)
class AttemptFollows:
    """Another attempt follows.

    Attributes:
        attempt: Its number.
        time: When it starts, UTC.
    """

    attempt: int
    time: datetime


@dataclass(frozen=True)
class AttemptEnded:
    """The newest attempt has ended, and its commit or failure is not visible yet."""

    attempt: int
    application: str


Step = AttemptRuns | AnotherRuns | Suspended | Creating | AttemptFollows | AttemptEnded
"""What happens with an open batch now."""


@dataclass(frozen=True)
class FailedAttempts:
    """Failed attempts at an open batch, in a row.

    Attributes:
        last: Number of the last attempt that failed.
        count: How many failed.
        limit: spec.spark.retry.attempts.
        why: Cause and remedy of the last failure, from the status, which outlives the pods.
    """

    last: int
    count: int
    limit: int
    why: str


@dataclass(frozen=True)
class OpenBatch:
    """An open batch.

    Attributes:
        number: Its number.
        files: Number of its files.
        step: What happens with it now.
        executors: Executors of the attempt in progress; None: none.
        failed: Its failed attempts; None: none failed.
    """

    number: int
    files: int
    step: Step
    executors: RunningExecutors | None = None
    failed: FailedAttempts | None = None


@dataclass(frozen=True)
class WaitingApplication:
    """An application that does not start.

    Attributes:
        name: Its name.
        batch: Number of its batch.
        causes: Why.
    """

    name: str
    batch: int
    causes: tuple[WaitingCause, ...]


@dataclass(frozen=True)
class Behind:
    """More files are pending than one batch takes.

    Attributes:
        local: Whether tasks run in the driver.
        executors: spec.spark.executor.instances.
    """

    local: bool
    executors: int


@dataclass(frozen=True)
class SparkFacts:
    """Spark's share of the facts.

    Attributes:
        enabled: Whether the spec enables Spark.
        resident: Application of a resident driver that waits for the next batch; empty: none.
        batches: The open batches, by number.
        waiting: Applications that do not start.
        behind: Whether more files are pending than one batch takes; None: no.
        quarantine: What was left out of all batches; None: nothing.
    """

    enabled: bool = False
    resident: str = ""
    batches: tuple[OpenBatch, ...] = ()
    waiting: tuple[WaitingApplication, ...] = ()
    behind: Behind | None = None
    quarantine: QuarantineStatus | None = None

    @property
    def failed(self) -> bool:
        """Whether attempts at an open batch failed."""
        return any(batch.failed for batch in self.batches)

    @property
    def exhausted(self) -> bool:
        """Whether as many attempts at a batch failed as spec.spark.retry.attempts."""
        return any(batch.failed and batch.failed.count >= batch.failed.limit for batch in self.batches)


def spark_facts(observed: Observed, plan: SparkPlan | None, status: SparkStatus | None) -> SparkFacts:
    """The facts for the condition SparkHealthy.

    Args:
        observed: The observed state.
        plan: Spark's share of the plan.
        status: Spark's new status.
    """
    if plan is None or status is None or plan.spec.spark is None:
        return SparkFacts()
    spark, fleet = plan.spec.spark, observed.fleet
    live = plan.attempts.live
    if fleet is None or not fleet.open_batches:
        waiting = next((each.name for each in live if each.resident and not each.deleted), "")
        return SparkFacts(enabled=True, resident=waiting, quarantine=status.quarantine)
    waits = ((each, why_waiting(each, observed, spark, plan.credential)) for each in live)
    return SparkFacts(
        enabled=True,
        batches=tuple(
            _open_batch(batch, each, plan, observed, status)
            for batch, each in zip(fleet.open_batches, plan.attempts.all, strict=True)
        ),
        waiting=tuple(WaitingApplication(each.name, each.batch, causes) for each, causes in waits if causes),
        behind=_behind(fleet, spark, status),
        quarantine=status.quarantine,
    )


def _open_batch(
    batch: BatchReport, attempts: Attempts, plan: SparkPlan, observed: Observed, status: SparkStatus
) -> OpenBatch:
    spark, memory, newest = plan.spec.spark or Spark(), memory_of(status, batch.number), attempts.newest
    own = newest if newest and not newest.ended else None
    return OpenBatch(
        batch.number,
        batch.files,
        _step(memory, attempts, plan),
        executors(own, observed, spark) if own else None,
        _failed(memory, spark),
    )


def _step(memory: LaterBatchStatus, attempts: Attempts, plan: SparkPlan) -> Step:
    newest, live = attempts.newest, plan.attempts.live
    if newest and not newest.ended:
        starting, resident = newest.state is ApplicationState.PENDING, newest.batch != attempts.batch
        return AttemptRuns(attempts.attempt, newest.name, starting, resident)
    is_over = newest is not None and attempts.failure is None
    if len(live) >= plan.in_flight and not is_over:
        return AnotherRuns(live[0].name)
    if plan.spec.suspend:
        return Suspended()
    if not memory.attempt:
        return Creating()
    if memory.next_attempt_time:
        return AttemptFollows(memory.attempt + 1, memory.next_attempt_time)
    return AttemptEnded(memory.attempt, memory.application)


def _failed(memory: LaterBatchStatus, spark: Spark) -> FailedAttempts | None:
    if not memory.failures:
        return None
    # While an attempt is in progress, the one before it failed.
    last = memory.attempt if memory.next_attempt_time else memory.attempt - 1
    return FailedAttempts(last, memory.failures, spark.retry.attempts, memory.last_failure)


def _behind(fleet: FleetReport, spark: Spark, status: SparkStatus) -> Behind | None:
    if spark.trigger.window_seconds is not None:
        return None  # files wait for the end of their window
    limits = spark.batch
    files = fleet.pending_files - sum(batch.files for batch in fleet.open_batches)
    size = fleet.pending_bytes - sum(batch.bytes for batch in fleet.open_batches)
    if files <= limits.max_files and size <= limits.max_bytes:
        return None
    return Behind(local=status.mode == "Local", executors=spark.executor.instances)
