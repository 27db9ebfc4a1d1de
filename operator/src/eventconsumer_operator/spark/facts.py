"""Facts about the open batch, from which the condition SparkHealthy follows. Pure."""

from dataclasses import dataclass
from datetime import datetime

from eventconsumer_api.host_report import BatchReport, FleetReport
from eventconsumer_api.spark import Spark
from eventconsumer_api.status import QuarantineStatus, SparkStatus
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark.applications import ApplicationState
from eventconsumer_operator.spark.attempts import Attempts
from eventconsumer_operator.spark.failures import Executors, WaitingCause, executors, why_waiting
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
"""What happens with the open batch now."""


@dataclass(frozen=True)
class OpenBatch:
    """The open batch.

    Attributes:
        number: Its number.
        files: Number of its files.
        step: What happens with it now.
        executors: Executors of the attempt in progress; None: none.
    """

    number: int
    files: int
    step: Step
    executors: Executors | None = None


@dataclass(frozen=True)
class FailedAttempts:
    """Failed attempts at the open batch, in a row.

    Attributes:
        last: Number of the last attempt that failed.
        count: How many failed.
        limit: spec.spark.retry.attempts.
        why: Cause and remedy of the last failure, from status.spark.lastFailure, which outlives the pods.
    """

    last: int
    count: int
    limit: int
    why: str


@dataclass(frozen=True)
class WaitingApplication:
    """An application that does not start.

    Attributes:
        name: Its name.
        causes: Why.
    """

    name: str
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
        batch: The open batch; None: none is open.
        failed: Its failed attempts; None: none failed.
        waiting: Applications that do not start.
        behind: Whether more files are pending than one batch takes; None: no.
        quarantine: What was left out of all batches; None: nothing.
    """

    enabled: bool = False
    resident: str = ""
    batch: OpenBatch | None = None
    failed: FailedAttempts | None = None
    waiting: tuple[WaitingApplication, ...] = ()
    behind: Behind | None = None
    quarantine: QuarantineStatus | None = None

    @property
    def exhausted(self) -> bool:
        """Whether as many attempts failed as spec.spark.retry.attempts."""
        return self.failed is not None and self.failed.count >= self.failed.limit


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
    if fleet is None or fleet.open_batch is None:
        waiting = next((each.name for each in live if each.resident and not each.deleted), "")
        return SparkFacts(enabled=True, resident=waiting, quarantine=status.quarantine)
    batch, newest = fleet.open_batch, plan.attempts.newest
    own = newest if newest and not newest.ended else None
    waits = ((each.name, why_waiting(each, observed, spark, plan.credential)) for each in live)
    return SparkFacts(
        enabled=True,
        batch=OpenBatch(
            batch.number,
            batch.files,
            _step(status, plan.attempts, batch, suspended=plan.spec.suspend),
            executors(own, observed, spark) if own else None,
        ),
        failed=_failed(status, spark),
        waiting=tuple(WaitingApplication(name, causes) for name, causes in waits if causes),
        behind=_behind(fleet, batch, spark, status),
        quarantine=status.quarantine,
    )


def _step(status: SparkStatus, attempts: Attempts, batch: BatchReport, *, suspended: bool) -> Step:
    newest = attempts.newest
    if newest and not newest.ended:
        starting, resident = newest.state is ApplicationState.PENDING, newest.batch != batch.number
        return AttemptRuns(attempts.attempt, newest.name, starting, resident)
    if attempts.live:
        return AnotherRuns(attempts.live[0].name)
    if suspended:
        return Suspended()
    if status.last_batch != batch.number:
        return Creating()
    if status.next_attempt_time:
        return AttemptFollows(status.attempt + 1, status.next_attempt_time)
    return AttemptEnded(status.attempt, status.last_application)


def _failed(status: SparkStatus, spark: Spark) -> FailedAttempts | None:
    if not status.failures:
        return None
    # While an attempt is in progress, the one before it failed.
    last = status.attempt if status.next_attempt_time else status.attempt - 1
    return FailedAttempts(last, status.failures, spark.retry.attempts, status.last_failure)


def _behind(fleet: FleetReport, batch: BatchReport, spark: Spark, status: SparkStatus) -> Behind | None:
    if spark.trigger.window_seconds is not None:
        return None  # files wait for the end of their window
    limits = spark.batch
    files, size = fleet.pending_files - batch.files, fleet.pending_bytes - batch.bytes
    if files <= limits.max_files and size <= limits.max_bytes:
        return None
    return Behind(local=status.mode == "Local", executors=spark.executor.instances)
