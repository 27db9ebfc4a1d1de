"""The next attempt at each open batch, and its time. Pure.

Usually one batch is open. With `spark.batch.inFlight` above 1 several are, each with attempts, failures and backoff of
its own, and as many applications run. A batch stays open until the leading host reports its commit. So another attempt
follows an attempt that failed (with backoff), that succeeded without a commit, or whose application was deleted (at
once). No application of a batch starts while another one of it has not ended. The commits of parallel batches are
published in order, so a success without a commit is a failure only of the first open batch.

Finished applications are deleted, so status.spark remembers the number of the newest attempt, and, if
`next_attempt_time` is set, that this attempt failed and is counted. The result only depends on this memory and on the
existing applications, so it can be computed again at any time.

A resident driver that is alive while a later batch than its own is open counts as attempt 1 at that batch, whether or
not it has claimed the batch already. status.spark remembers its name, so that its failure is a failure of that attempt.
If it succeeds without the commit, it has not taken the batch (it was idle for too long, or the batch is too large), and
the next attempt starts at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum

from eventconsumer_api.spec.spark import Retry, Spark
from eventconsumer_api.v1alpha1.status import LaterBatchStatus, SparkStatus
from eventconsumer_api.wire.host_report import FleetReport
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import pod_failures
from eventconsumer_operator.spark.applications import (
    Application,
    ApplicationState,
    application_of,
    applications_of,
    cannot_start,
    drivers_of,
    is_lost,
)

COMMIT_GRACE = timedelta(seconds=120)
"""The leading host reports a commit within seconds: after this time a success without a commit is a failure."""
START_GRACE = timedelta(seconds=120)
"""An application whose image cannot be pulled for this long is given up; the next attempt may use another image."""
POD_GRACE = timedelta(seconds=60)
"""After this time without a driver pod, the pod is assumed to be rejected."""
_LEFTOVER_GRACE = timedelta(minutes=10)  # after the last commit; the driver may still maintain its table
_DEADLINE_SLACK = timedelta(seconds=60)  # launchers stop their applications themselves
_RESIDENT_ATTEMPT = 1  # a resident driver has the first attempt at later batches; the next one has its own driver
_DOUBLINGS = 20


class FailureKind(Enum):
    """How an attempt failed."""

    FAILED = "failed"  # reported by its launcher
    NO_COMMIT = "no commit"  # it succeeded without a commit of the batch
    TOO_LONG = "too long"  # it exceeds spec.spark.timeoutSeconds
    CANNOT_START = "cannot start"  # its pods do not start without an action
    LOST = "lost"  # its driver is being deleted, and its node does not confirm the end


@dataclass(frozen=True)
class Failure:
    """A failed attempt.

    Attributes:
        application: The attempt.
        cause: How.
        when: When.
    """

    application: Application
    cause: FailureKind
    when: datetime


@dataclass(frozen=True)
class Attempts:
    """The attempts at an open batch.

    Attributes:
        batch: Number of the batch; 0: none is open.
        attempt: Number of the newest attempt; 0: none yet.
        failures: Attempts that failed, in a row.
        newest: The newest attempt; None: there is none, or it was deleted.
        failure: How the newest attempt failed; None: it did not, or it was deleted.
        next_time: Earliest start of the next attempt; None: an attempt is in progress, or the next may start at once.
        start: Number of the attempt to start now; 0: none.
        given_up: Applications to delete because they cannot succeed.
        live: Applications of any batch that have not ended.
        later: The attempts at the open batches after it.
    """

    batch: int = 0
    attempt: int = 0
    failures: int = 0
    newest: Application | None = None
    failure: Failure | None = None
    next_time: datetime | None = None
    start: int = 0
    given_up: tuple[Application, ...] = ()
    live: tuple[Application, ...] = ()
    later: tuple["Attempts", ...] = ()

    @property
    def all(self) -> tuple["Attempts", ...]:
        """The attempts at each open batch, by number; empty if none is open."""
        return (self, *self.later) if self.batch else ()


def attempts(observed: Observed, spark: Spark) -> Attempts:
    """Determine the attempts at the first open batch, and at the later ones."""
    fleet, now = observed.fleet, observed.now
    found = applications_of(observed)
    live = tuple(each for each in found if not each.ended)
    if fleet is None:
        return Attempts(live=live)
    running = (each for each in map(application_of, observed.applications) if not each.ended and not each.deleted)
    leftovers = tuple(each for each in running if _is_left_over(each, fleet, spark, now))
    if not fleet.open_batches:
        return Attempts(live=live, given_up=leftovers)
    first, *later = (_attempts_at(batch.number, found, observed, spark) for batch in fleet.open_batches)
    return replace(first, given_up=(*leftovers, *first.given_up), live=live, later=tuple(later))


def _attempts_at(number: int, found: Sequence[Application], observed: Observed, spark: Spark) -> Attempts:
    """The attempts at an open batch; of all applications, only its own are given up."""
    now, status = observed.now, observed.consumer.status
    memory = memory_of(status.spark, number)
    own = {each.attempt: each for each in found if each.batch == number}
    if not own and is_first(number, observed.fleet):
        own = _by_resident(found, memory, number)
    attempt = max(memory.attempt, *own, 0)
    counted = memory.attempt if memory.next_attempt_time else memory.attempt - 1
    failed = {made: failure for made, each in own.items() if (failure := _failure(each, number, observed, spark))}
    failures = memory.failures + sum(made > counted for made in failed)
    newest = own.get(attempt)
    failure = failed.get(attempt)
    next_time = None
    if failure and attempt > counted:
        next_time = failure.when + backoff(spark.retry, failures)
    elif failure or newest is None:
        next_time = memory.next_attempt_time  # None: the application was deleted
    # The spec has changed: that may be the remedy.
    changed = 0 < status.observed_generation != observed.consumer.generation
    if changed and next_time:
        next_time = min(next_time, now)
    hopeless = tuple(
        each
        for made, each in own.items()
        if not each.ended and (made in failed or (changed and _is_stuck(each, observed)))
    )
    live = [each for each in found if not each.ended]
    is_free = len(live) < spark.batch.in_flight and not any(each.batch == number for each in live)
    due = is_free and (next_time is None or next_time <= now)
    return Attempts(
        batch=number,
        attempt=attempt,
        failures=failures,
        newest=newest,
        failure=failure,
        next_time=next_time,
        start=attempt + 1 if due and (newest is None or failure) else 0,
        given_up=tuple(each for each in hopeless if not each.deleted),
    )


def is_first(number: int, fleet: FleetReport | None) -> bool:
    """Whether the batches before it are committed."""
    return fleet is not None and fleet.open_batch is not None and fleet.open_batch.number == number


def backoff(retry: Retry, failures: int) -> timedelta:
    """Time between the last of `failures` failures in a row and the next attempt."""
    if failures >= retry.attempts:
        return timedelta(seconds=retry.max_backoff_seconds)
    seconds = retry.backoff_seconds << min(failures - 1, _DOUBLINGS)
    return timedelta(seconds=min(seconds, retry.max_backoff_seconds))


def memory_of(status: SparkStatus | None, number: int) -> LaterBatchStatus:
    """What the status says of the attempts at a batch."""
    if status is None:
        return LaterBatchStatus(batch=number, attempt=0, application="")
    if status.last_batch == number:
        return LaterBatchStatus(
            batch=number,
            attempt=status.attempt,
            application=status.last_application,
            waiting=status.waiting,
            failures=status.failures,
            last_failure=status.last_failure,
            next_attempt_time=status.next_attempt_time,
        )
    return next(
        (each for each in status.later_batches if each.batch == number),
        LaterBatchStatus(batch=number, attempt=0, application=""),
    )


def work_began(application: Application, fleet: FleetReport | None) -> datetime | None:
    """When the work of an application on the open batch could begin; None: unknown.

    A resident driver takes a later batch than its own after it is frozen and the batch before is committed.
    """
    batch = fleet.open_batch if fleet else None
    if fleet is None or batch is None or not 0 < application.batch < batch.number:
        return application.started
    commit = fleet.last_commit
    times = (application.started, batch.created_at, commit.committed_at if commit else None)
    return max((each for each in times if each), default=None)


def _by_resident(found: Sequence[Application], memory: LaterBatchStatus, number: int) -> dict[int, Application]:
    """The attempt by a resident driver of an earlier batch."""
    for each in found:
        if each.resident and 0 < each.batch < number and each.state is not ApplicationState.SUCCEEDED:
            was_alive = memory.attempt == _RESIDENT_ATTEMPT and memory.application == each.name
            if not each.ended or was_alive:
                return {_RESIDENT_ATTEMPT: each}
    return {}


def _failure(application: Application, number: int, observed: Observed, spark: Spark) -> Failure | None:
    """How an attempt at batch `number` failed; None: it did not."""
    now, fleet = observed.now, observed.fleet
    if application.state is ApplicationState.FAILED:
        return Failure(application, FailureKind.FAILED, application.finished or now)
    if application.state is ApplicationState.SUCCEEDED:
        if not is_first(number, fleet):
            return None
        over = max(application.finished or now, _first_since(fleet)) + COMMIT_GRACE
        return Failure(application, FailureKind.NO_COMMIT, over) if now >= over else None
    began = work_began(application, fleet)
    if application.deleted or application.started is None or began is None:
        return None
    if is_lost(application, observed):
        return Failure(application, FailureKind.LOST, now)
    # A launcher has a deadline, too; that of a resident driver is for all its batches.
    limit = timedelta(seconds=spark.timeout_seconds) + _DEADLINE_SLACK
    if now - began > limit:
        return Failure(application, FailureKind.TOO_LONG, now)
    age = now - application.started
    waits = application.state is ApplicationState.PENDING
    if waits and age > START_GRACE and cannot_start(application, observed):
        return Failure(application, FailureKind.CANNOT_START, now)
    return None


def _first_since(fleet: FleetReport | None) -> datetime:
    """When the batch before the first open batch was committed, as far as it is known."""
    return fleet.last_commit.committed_at if fleet and fleet.last_commit else datetime.min.replace(tzinfo=UTC)


def _is_stuck(application: Application, observed: Observed) -> bool:
    """Whether it does not start for a reason that a changed spec may remove."""
    age = observed.now - (application.started or observed.now)
    return application.state is ApplicationState.PENDING and (
        bool(pod_failures(drivers_of(application, observed)))
        or (age > POD_GRACE and not drivers_of(application, observed))
    )


def _is_left_over(application: Application, fleet: FleetReport, spark: Spark, now: datetime) -> bool:
    """Whether an application still runs long after its last batch was committed."""
    commit = fleet.last_commit
    if commit is None or not 0 < application.batch <= min(commit.number, fleet.committed_batch):
        return False
    if application.resident and fleet.open_batch:
        return False
    idle = timedelta(seconds=spark.idle_timeout_seconds) if application.resident else timedelta()
    return now - commit.committed_at > idle + _LEFTOVER_GRACE
