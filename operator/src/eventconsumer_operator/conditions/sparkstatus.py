"""Computes status.spark: progress of the batches, the last failure, and the time of the next attempt. Pure.

While no host reports the open batches, the last report stands. The numbers of attempts and failures are also the
operator's memory of applications that were deleted; see `spark.attempts`.
"""

from typing import Literal

from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.spec.spark import Spark
from eventconsumer_api.v1alpha1.status import (
    CommitStatus,
    LaterBatchStatus,
    QuarantineStatus,
    SparkStatus,
    WatermarkStatus,
)
from eventconsumer_api.wire.host_report import FleetReport
from eventconsumer_operator.conditions import messages
from eventconsumer_operator.conditions.replaystatus import reprocess_status
from eventconsumer_operator.resource.names import application_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.spark.applications import drivers_of
from eventconsumer_operator.spark.attempts import Attempts, memory_of
from eventconsumer_operator.spark.failures import why_failed, why_waiting
from eventconsumer_operator.spark.native import is_local_job
from eventconsumer_operator.spark.plan import SparkPlan

_TEXT_LIMIT = 900  # of the 1024 characters of a condition's message
_LOCAL: Literal["Local"] = "Local"
_EXECUTORS: Literal["Executors"] = "Executors"


def spark_status(observed: Observed, plan: SparkPlan | None, *, started: bool) -> SparkStatus | None:
    """Spark's status; None where Spark is not enabled.

    Args:
        observed: The state before the plan was applied.
        plan: Spark's share of the plan; None if there is no plan.
        started: Whether the planned application was started.
    """
    previous, fleet = observed.consumer.status.spark, observed.fleet
    if plan is None:
        return previous
    spark = plan.spec.spark
    if spark is None or not spark.enabled:
        return None
    reprocess = {"reprocess": reprocess_status(observed, spark, suspended=plan.spec.suspend)}
    memory = previous or SparkStatus()
    if fleet is None:
        return memory.model_copy(update=reprocess)
    numbers = SparkStatus(
        pending_files=fleet.pending_files,
        pending_bytes=fleet.pending_bytes,
        processed_files=fleet.processed_files,
        last_commit=_commit(fleet) or memory.last_commit,
        quarantine=_quarantine(fleet) or memory.quarantine,
        watermark=_watermark(fleet),
    )
    batch = _of_batch(observed, plan, spark, started=started) if fleet.open_batch else _of_rest(observed, fleet, memory)
    return numbers.model_copy(update=reprocess | batch)


def _of_rest(observed: Observed, fleet: FleetReport, memory: SparkStatus) -> dict[str, object]:
    """Fields of the last batch while none is open. A resident driver may commit it before an operator sees it open."""
    number = fleet.committed_batch
    same = memory.last_batch == number
    commit = fleet.last_commit
    by = commit.application if commit and commit.number == number else ""
    return {
        "last_batch": number,
        "attempt": memory.attempt if same else int(number > 0),
        "last_application": by or (memory.last_application if same else ""),
        "reason": fleet.committed_reason,
        "mode": memory.mode if same else _mode_of(observed, by),
    }


def _of_batch(observed: Observed, plan: SparkPlan, spark: Spark, *, started: bool) -> dict[str, object]:
    """Fields of the open batches: the first one has the fields of the status, the later ones have a list."""
    first, *later = (_attempted(observed, plan, spark, each, started=started) for each in plan.attempts.all)
    fields: dict[str, object] = {"later_batches": [each for each, _ in later if each.attempt]}
    memory = observed.consumer.status.spark or SparkStatus()
    batch, mode = first
    if batch.attempt == 0:
        # No attempt was started yet: the fields of the batch before stay, without its failures.
        before = memory.model_copy(update={"waiting": "", "failures": 0, "last_failure": "", "next_attempt_time": None})
        return fields | before.model_dump(include=_BATCH_FIELDS)
    return fields | {
        "last_batch": batch.batch,
        "attempt": batch.attempt,
        "last_application": batch.application,
        "reason": observed.fleet.open_batch.reason if observed.fleet and observed.fleet.open_batch else "",
        "mode": mode or memory.mode,
        "waiting": batch.waiting,
        "failures": batch.failures,
        "last_failure": batch.last_failure,
        "next_attempt_time": batch.next_attempt_time,
    }


def _attempted(
    observed: Observed, plan: SparkPlan, spark: Spark, state: Attempts, *, started: bool
) -> tuple[LaterBatchStatus, Literal["", "Local", "Executors"]]:
    """The attempts at an open batch, and the place of its tasks, if known."""
    memory = memory_of(observed.consumer.status.spark, state.batch)
    now = started and plan.started_batch == state.batch
    attempt = state.start if now else state.attempt
    name = _application(observed, state, memory, attempt)
    mode = plan.mode if now else _mode_of(observed, name)
    failure = _failure_text(observed, spark, state, memory, local=mode == _LOCAL)
    status = LaterBatchStatus(
        batch=state.batch,
        attempt=attempt,
        application=name,
        waiting="" if now else _waiting(observed, plan, spark, state, memory),
        failures=state.failures,
        last_failure=failure if state.failures else "",
        next_attempt_time=None if now else state.next_time,
    )
    return status, mode


def _waiting(observed: Observed, plan: SparkPlan, spark: Spark, state: Attempts, memory: LaterBatchStatus) -> str:
    """Why the newest attempt waits for pods; after its end, why it last did."""
    newest = state.newest
    if newest and not newest.ended:
        causes = why_waiting(newest, observed, spark, plan.credential)
        return redact(messages.joined(*map(messages.waiting, causes)))[:_TEXT_LIMIT]
    return memory.waiting if memory.attempt == state.attempt else ""


def _application(observed: Observed, state: Attempts, memory: LaterBatchStatus, attempt: int) -> str:
    """Name of an attempt's application, also after its deletion; a resident driver has the name of its first batch."""
    consumer = observed.consumer
    if state.newest and attempt == state.attempt:
        return state.newest.name
    if memory.attempt == attempt:
        return memory.application
    return application_name(consumer.key, consumer.uid, state.batch, attempt)


_BATCH_FIELDS = {
    "last_batch",
    "attempt",
    "last_application",
    "reason",
    "mode",
    "waiting",
    "failures",
    "last_failure",
    "next_attempt_time",
}


def _failure_text(observed: Observed, spark: Spark, state: Attempts, memory: LaterBatchStatus, *, local: bool) -> str:
    """Why the newest attempt failed: computed while its pod exists, and kept afterwards."""
    if state.failure is None:
        return memory.last_failure
    was_reported = memory.next_attempt_time is not None and memory.attempt == state.attempt
    if was_reported and memory.last_failure and not drivers_of(state.failure.application, observed):
        return memory.last_failure
    waited = memory.waiting if memory.attempt == state.attempt else ""
    return redact(messages.failure(why_failed(state.failure, observed, spark, local=local, waited=waited)))[
        :_TEXT_LIMIT
    ]


def _mode_of(observed: Observed, name: str) -> Literal["", "Local", "Executors"]:
    for manifest in observed.applications:
        if manifest["metadata"]["name"] == name:
            return _LOCAL if is_local_job(manifest) else _EXECUTORS
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


def _watermark(fleet: FleetReport) -> WatermarkStatus | None:
    watermark = fleet.watermark
    if watermark is None or watermark.commits is None:
        return None
    return WatermarkStatus(time=watermark.commits, batch=watermark.batch)


def _quarantine(fleet: FleetReport) -> QuarantineStatus | None:
    commit = fleet.last_commit
    if commit is None or not (commit.quarantined_files or commit.quarantined_rows):
        return None
    return QuarantineStatus(
        files=commit.quarantined_files, rows=commit.quarantined_rows, message=redact(commit.quarantine)[:_TEXT_LIMIT]
    )
