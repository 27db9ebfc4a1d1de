"""Which attempt at the open batch comes next, and when. Pure.

Progress is what the leading host saw committed. Whatever else happened to an application, the batch is open as long as
it is reported open: so the next attempt follows one that failed (after a time that grows), that succeeded and left no
commit, or that was deleted (at once). One application lives at a time: none starts while another has not ended.

Applications are cleaned up, so status.spark remembers what they can tell no more: the number of the newest attempt,
and, where `next_attempt_time` is set, that this attempt failed and is counted among the failures. All that is decided
here follows from that memory and from what is there, so it may be decided again at any time, by anybody.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from eventconsumer_api.host_report import FleetReport
from eventconsumer_api.spark import Retry, Spark
from eventconsumer_api.status import SparkStatus
from eventconsumer_operator.kube.manifest import JOB
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import pod_failures
from eventconsumer_operator.spark.applications import Application, ApplicationState, application_of
from eventconsumer_operator.spark.pods import cannot_start, drivers_of

COMMIT_GRACE = timedelta(seconds=120)
"""The leading host sees a commit within seconds: an application that succeeded so long ago did not do its work."""
START_GRACE = timedelta(seconds=120)
"""An application whose image cannot be pulled for so long is given up: the next may find another image."""
POD_GRACE = timedelta(seconds=60)
"""An application without a driver's pod for so long is refused one."""
_LEFTOVER_GRACE = timedelta(minutes=10)  # after its batch's commit; it may still be tidying up its table
_DEADLINE_SLACK = timedelta(seconds=60)  # launchers end their applications themselves
_DOUBLINGS = 20


class Cause(Enum):
    """How an attempt failed."""

    FAILED = "failed"  # as its launcher says
    NO_COMMIT = "no commit"  # it succeeded, and the batch is open all the same
    TOO_LONG = "too long"  # it runs for longer than spec.spark.timeoutSeconds
    CANNOT_START = "cannot start"  # its pods do not start, and that does not pass by itself


@dataclass(frozen=True)
class Failure:
    """An attempt that came to nothing.

    Attributes:
        application: The attempt.
        cause: How.
        when: When.
    """

    application: Application
    cause: Cause
    when: datetime


@dataclass(frozen=True)
class Attempts:
    """What was done for the open batch, and what is to be done.

    Attributes:
        batch: Its number; 0: none is open.
        attempt: Number of the newest attempt; 0: none yet.
        failures: Attempts that failed, in a row.
        newest: The newest attempt; None: there is none, or it is gone.
        failure: How the newest attempt failed; None: it did not, or it is gone.
        next_time: When the next attempt may begin; None: an attempt is under way, or the next may begin at once.
        start: Number of the attempt to start now; 0: none.
        given_up: Applications to delete because nothing good comes of them.
        live: Applications that have not ended, of whatever batch.
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


def attempts(observed: Observed, spark: Spark) -> Attempts:
    """Look at the open batch."""
    fleet, now = observed.fleet, observed.now
    found = [application_of(each) for each in observed.applications]
    live = tuple(each for each in found if not each.ended)
    if fleet is None:
        return Attempts(live=live)
    leftovers = tuple(each for each in live if _is_left_over(each, fleet, now))
    if fleet.open_batch is None:
        return Attempts(live=live, given_up=leftovers)
    number = fleet.open_batch.number
    own = [each for each in found if each.batch == number]
    memory = _memory(observed.consumer.status.spark, number)
    attempt = max([memory.attempt, *(each.attempt for each in own)])
    counted = memory.attempt if memory.next_attempt_time else memory.attempt - 1
    failed = {each.attempt: failure for each in own if (failure := _failure(each, observed, spark))}
    failures = memory.failures + sum(each > counted for each in failed)
    newest = next((each for each in own if each.attempt == attempt), None)
    failure = failed.get(attempt)
    next_time = None
    if failure and attempt > counted:
        next_time = failure.when + backoff(spark.retry, failures)
    elif failure or newest is None:
        next_time = memory.next_attempt_time  # None, and the application gone: it was deleted
    # A person changed something: that may have been the remedy.
    changed = 0 < observed.consumer.status.observed_generation != observed.consumer.generation
    if changed and next_time:
        next_time = min(next_time, now)
    hopeless = tuple(
        each for each in own if not each.ended and (each.attempt in failed or (changed and _is_stuck(each, observed)))
    )
    due = not live and (next_time is None or next_time <= now)
    return Attempts(
        batch=number,
        attempt=attempt,
        failures=failures,
        newest=newest,
        failure=failure,
        next_time=next_time,
        start=attempt + 1 if due and (newest is None or failure) else 0,
        given_up=tuple(each for each in (*leftovers, *hopeless) if not each.deleted),
        live=live,
    )


def backoff(retry: Retry, failures: int) -> timedelta:
    """Time between the failure that was the so many-th in a row and the next attempt."""
    if failures >= retry.attempts:
        return timedelta(seconds=retry.max_backoff_seconds)
    seconds = retry.backoff_seconds << min(failures - 1, _DOUBLINGS)
    return timedelta(seconds=min(seconds, retry.max_backoff_seconds))


def _memory(status: SparkStatus | None, number: int) -> SparkStatus:
    """What is remembered of a batch; nothing where the memory is of another."""
    return status if status and status.last_batch == number else SparkStatus()


def _failure(application: Application, observed: Observed, spark: Spark) -> Failure | None:
    now = observed.now
    if application.state is ApplicationState.FAILED:
        return Failure(application, Cause.FAILED, application.finished or now)
    if application.state is ApplicationState.SUCCEEDED:
        over = (application.finished or now) + COMMIT_GRACE
        return Failure(application, Cause.NO_COMMIT, over) if now >= over else None
    if application.deleted or application.started is None:
        return None
    age = now - application.started
    # A Job ends itself, after the time that was given to it.
    if application.kind != JOB and age > timedelta(seconds=spark.timeout_seconds) + _DEADLINE_SLACK:
        return Failure(application, Cause.TOO_LONG, now)
    waits = application.state is ApplicationState.PENDING
    if waits and age > START_GRACE and cannot_start(application, observed):
        return Failure(application, Cause.CANNOT_START, now)
    return None


def _is_stuck(application: Application, observed: Observed) -> bool:
    """Whether it has not begun, and waits for something that another spec might not need."""
    age = observed.now - (application.started or observed.now)
    return application.state is ApplicationState.PENDING and (
        bool(pod_failures(drivers_of(application, observed)))
        or (age > POD_GRACE and not drivers_of(application, observed))
    )


def _is_left_over(application: Application, fleet: FleetReport, now: datetime) -> bool:
    """Whether an application runs for long after its batch was committed."""
    commit = fleet.last_commit
    if commit is None or not 0 < application.batch <= min(commit.number, fleet.committed_batch):
        return False
    return now - commit.committed_at > _LEFTOVER_GRACE
