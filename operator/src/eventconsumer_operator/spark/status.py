"""Spark's share of the status: how far the batches are, what failed, and when it is tried again. Pure.

While no host tells which batch is open, the last word stands. The numbers of attempts and failures are also the
operator's memory of applications that are cleaned up; see `spark.attempts`.
"""

from dataclasses import dataclass
from typing import Literal

from eventconsumer_api.host_report import BatchReport, FleetReport
from eventconsumer_api.redaction import redact
from eventconsumer_api.spark import Spark
from eventconsumer_api.status import CommitStatus, QuarantineStatus, SparkStatus
from eventconsumer_operator.resource.names import application_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark.applications import Application, ApplicationState
from eventconsumer_operator.spark.failures import executors_text, why_failed, why_waiting
from eventconsumer_operator.spark.native import is_local
from eventconsumer_operator.spark.plan import SparkPlan
from eventconsumer_operator.spark.pods import drivers_of
from eventconsumer_operator.spark.replay import batch_replay_status

_TEXT_LIMIT = 900  # of the 1024 characters that a message of a condition has
_LOCAL: Literal["Local"] = "Local"
_EXECUTORS: Literal["Executors"] = "Executors"


@dataclass(frozen=True)
class SparkFacts:
    """Spark's share of the facts.

    Attributes:
        enabled: Whether the spec wants Spark.
        running: Text about the batch that is being processed; empty if none is.
        failing: Text about the open batch's failed attempts, with the remedy; empty if none failed.
        failed: Whether they are as many as spec.spark.retry.attempts.
        waiting: Text about applications that do not begin, with the remedy; empty if there are none.
        behind: Advice where files come faster than they are processed; else empty.
        quarantine: Text about what was left out; empty for nothing.
    """

    enabled: bool = False
    running: str = ""
    failing: str = ""
    failed: bool = False
    waiting: str = ""
    behind: str = ""
    quarantine: str = ""


def spark_status(observed: Observed, plan: SparkPlan | None, *, started: bool) -> SparkStatus | None:
    """Spark's status; None where it is not enabled.

    Args:
        observed: The world before the plan was applied.
        plan: Spark's share of the plan; None if there is no plan.
        started: Whether the application was started that the plan wanted started.
    """
    previous, fleet = observed.consumer.status.spark, observed.fleet
    if plan is None:
        return previous
    spark = plan.spec.spark
    if spark is None or not spark.enabled:
        return None
    replay = {"replay": batch_replay_status(observed, spark, suspended=plan.spec.suspend)}
    memory = previous or SparkStatus()
    if fleet is None:
        return memory.model_copy(update=replay)
    numbers = SparkStatus(
        pending_files=fleet.pending_files,
        pending_bytes=fleet.pending_bytes,
        processed_files=fleet.processed_files,
        last_commit=_commit(fleet) or memory.last_commit,
        quarantine=_quarantine(fleet) or memory.quarantine,
    )
    batch = _of_batch(observed, plan, spark, started=started) if fleet.open_batch else _of_rest(fleet, memory)
    return numbers.model_copy(update=replay | batch)


def spark_facts(observed: Observed, plan: SparkPlan | None, status: SparkStatus | None) -> SparkFacts:
    """What the condition SparkHealthy is judged by.

    Args:
        observed: The world before the plan was applied.
        plan: Spark's share of the plan.
        status: Spark's status to be.
    """
    if plan is None or status is None or plan.spec.spark is None:
        return SparkFacts()
    spark, fleet = plan.spec.spark, observed.fleet
    quarantine = ""
    if status.quarantine:
        what = status.quarantine
        quarantine = f"left out so far: {what.files} files, {what.rows} events in other files; {what.message}"
    if fleet is None or fleet.open_batch is None:
        return SparkFacts(enabled=True, quarantine=quarantine)
    batch = fleet.open_batch
    state = plan.attempts
    live = next((each for each in reversed(state.live) if each.batch == batch.number), None)
    head = f"batch {batch.number} ({batch.files} files)"
    told = next_step = _next_step(status, state.live, batch, suspended=plan.spec.suspend)
    if live and (text := executors_text(live, observed, spark)):
        next_step = f"{told}; {text}"
    credential = plan.credential
    waits = [f"{each.name}: {text}" for each in state.live if (text := why_waiting(each, observed, spark, credential))]
    failing = ""
    if status.failures:
        # While an attempt is under way, it is the one before that failed.
        last = status.attempt if status.next_attempt_time else status.attempt - 1
        count = f"attempt {last} failed ({status.failures} of {spark.retry.attempts} in a row)"
        failing = f"spec.spark: {head}: {count}: {status.last_failure}; {told}"
    return SparkFacts(
        enabled=True,
        running=f"{head}: {next_step}",
        failing=failing,
        failed=status.failures >= spark.retry.attempts,
        waiting="; ".join(f"spec.spark: {head}: {text}" for text in waits),
        behind=_behind(fleet, batch, spark, status),
        quarantine=quarantine,
    )


def _next_step(status: SparkStatus, live: tuple[Application, ...], batch: BatchReport, *, suspended: bool) -> str:
    own = next((each for each in reversed(live) if each.batch == batch.number), None)
    if own:
        runs = "starts" if own.state is ApplicationState.PENDING else "runs"
        return f"attempt {own.attempt} {runs}: {own.name}"
    if live:
        return f"waits for {live[0].name} to end"
    if suspended:
        return "spec.suspend is true: no attempt is started"
    if status.last_batch != batch.number:
        return "its application is being started"
    if status.next_attempt_time:
        return f"attempt {status.attempt + 1} follows at {status.next_attempt_time:%Y-%m-%d %H:%M:%S} UTC"
    return f"attempt {status.attempt}: {status.last_application}"


def _behind(fleet: FleetReport, batch: BatchReport, spark: Spark, status: SparkStatus) -> str:
    limits = spark.batch
    files, size = fleet.pending_files - batch.files, fleet.pending_bytes - batch.bytes
    if files <= limits.max_files and size <= limits.max_bytes:
        return ""
    more = (
        "spec.spark.driver.cores, or set spec.spark.mode: Executors"
        if status.mode == _LOCAL
        else f"spec.spark.executor.instances (now {spark.executor.instances})"
    )
    return (
        "more files wait than one batch takes (status.spark.pendingFiles): files come faster than they are processed. "
        f"Raise {more}, or spec.spark.batch"
    )


def _of_rest(fleet: FleetReport, memory: SparkStatus) -> dict[str, object]:
    """What is told of the last batch while none is open."""
    number = fleet.committed_batch
    same = memory.last_batch == number
    commit = fleet.last_commit
    by = commit.application if commit and commit.number == number else ""
    return {
        "last_batch": number,
        "attempt": memory.attempt if same else 0,
        "last_application": by or (memory.last_application if same else ""),
        "reason": fleet.committed_reason,
        "mode": memory.mode if same else "",
    }


def _of_batch(observed: Observed, plan: SparkPlan, spark: Spark, *, started: bool) -> dict[str, object]:
    """What is told of the open batch."""
    state, consumer = plan.attempts, observed.consumer
    memory = consumer.status.spark or SparkStatus()
    reason = observed.fleet.open_batch.reason if observed.fleet and observed.fleet.open_batch else ""
    attempt = state.start if started else state.attempt
    if attempt == 0:
        # Nothing of it was started yet: what was told of the batch before it stands, but that is done.
        return memory.model_copy(update={"failures": 0, "last_failure": "", "next_attempt_time": None}).model_dump(
            include=_BATCH_FIELDS
        )
    name = application_name(consumer.key, consumer.uid, state.batch, attempt)
    mode = plan.mode if started else _mode_of(observed, name) or memory.mode
    failure = memory.last_failure if memory.last_batch == state.batch else ""
    if state.failure and (text := _failure_text(observed, plan, spark, mode, known=failure)):
        failure = text
    return {
        "last_batch": state.batch,
        "attempt": attempt,
        "last_application": name,
        "reason": reason,
        "mode": mode,
        "failures": state.failures,
        "last_failure": failure if state.failures else "",
        "next_attempt_time": None if started else state.next_time,
    }


_BATCH_FIELDS = {
    "last_batch", "attempt", "last_application", "reason", "mode", "failures", "last_failure", "next_attempt_time",
}  # fmt: skip


def _failure_text(observed: Observed, plan: SparkPlan, spark: Spark, mode: str, *, known: str) -> str:
    """Why the newest attempt failed: told as long as its pod can be seen; what was seen then stands."""
    failure, memory = plan.attempts.failure, observed.consumer.status.spark
    if failure is None:
        return known
    application = failure.application
    was_told = memory is not None and memory.next_attempt_time is not None and memory.attempt == application.attempt
    if was_told and known and not drivers_of(application, observed):
        return known
    return redact(why_failed(failure, observed, spark, local=mode == _LOCAL))[:_TEXT_LIMIT]


def _mode_of(observed: Observed, name: str) -> Literal["", "Local", "Executors"]:
    for manifest in observed.applications:
        if manifest["metadata"]["name"] == name:
            return _LOCAL if is_local(manifest) else _EXECUTORS
    return ""


def _commit(fleet: FleetReport) -> CommitStatus | None:
    commit = fleet.last_commit
    if commit is None:
        return None
    return CommitStatus(
        number=commit.number,
        time=commit.committed_at,
        rows_read=commit.rows_read,
        rows_written=commit.rows_written,
        seconds=max(0.0, commit.seconds),
        output_version=commit.output_version,
    )


def _quarantine(fleet: FleetReport) -> QuarantineStatus | None:
    commit = fleet.last_commit
    if commit is None or not (commit.quarantined_files or commit.quarantined_rows):
        return None
    return QuarantineStatus(
        files=commit.quarantined_files, rows=commit.quarantined_rows, message=redact(commit.quarantine)[:_TEXT_LIMIT]
    )
