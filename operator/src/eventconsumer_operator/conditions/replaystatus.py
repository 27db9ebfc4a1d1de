"""Computes status.replay and status.spark.reprocess. Pure."""

from typing import Literal, TypeVar

from pydantic import ValidationError

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.spec.spark import Spark
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.v1alpha1.status import ReplayStatus, ReprocessStatus
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.termination import BatchReplayTotals, ReplayTotals
from eventconsumer_operator.conditions import messages
from eventconsumer_operator.conditions.facts import reported_problem
from eventconsumer_operator.kube.manifest import controller_uid, name_of
from eventconsumer_operator.resource.missing import Missing, missing
from eventconsumer_operator.resource.names import replay_name, reprocess_name
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import pod_failures, termination_message
from eventconsumer_operator.spark.applications import ApplicationState, application_of
from eventconsumer_operator.spark.reprocess import known_success, reprocess_output, waits

_MESSAGE_LIMIT = 1024
_OVER = {"Failed", "Succeeded"}
_T = TypeVar("_T", bound=WireDocument)


def replay_status(observed: Observed, spec: EventConsumerSpec) -> ReplayStatus | None:
    """Progress of the replay of events; None where none is requested."""
    replay, consumer = spec.replay, observed.consumer
    if replay is None:
        return None
    name = replay_name(consumer.key, consumer.uid, replay.name)
    job = next((job for job in observed.replays if name_of(job) == name), None)
    before = consumer.status.replay
    known = before if before and before.name == replay.name else None
    if job is None:
        if known and known.state == "Succeeded":
            return known
        waiting = messages.replay_pending(None, suspended=spec.suspend)
        return ReplayStatus(name=replay.name, state="Pending", message=waiting)
    found = application_of(job)
    files, events = _written(observed, job) or (known.files if known else 0, known.events if known else 0)
    state: Literal["Running", "Succeeded", "Failed"] = "Running"
    message = _delay(observed, job)
    if found.state is ApplicationState.SUCCEEDED:
        state, message = "Succeeded", ""
    elif found.state is ApplicationState.FAILED:
        state, message = "Failed", messages.replay_failed(name, found.message)
    return ReplayStatus(name=replay.name, state=state, message=message[:_MESSAGE_LIMIT], files=files, events=events)


def _pods(observed: Observed, job: Manifest) -> list[Manifest]:
    return [pod for pod in observed.replay_pods if controller_uid(pod) == job["metadata"]["uid"]]


def _delay(observed: Observed, job: Manifest) -> str:
    """What delays a running replay; empty for nothing."""
    pods = _pods(observed, job)
    reports = [observed.replay_reports[name_of(pod)] for pod in pods if name_of(pod) in observed.replay_reports]
    problems = [reported_problem(problem) for report in reports for problem in report.problems]
    return messages.replay_running(problems, "", pod_failures(_living(pods)), _absent(observed, job))


def _absent(observed: Observed, job: Manifest) -> list[Missing]:
    """The pod of a Job, if it does not exist although it should for minutes."""
    uid = job["metadata"]["uid"]
    return [each for each in missing(observed) if each.uid == uid and each.lasts(observed.now)]


def _living(pods: list[Manifest]) -> list[Manifest]:
    return [pod for pod in pods if pod.get("status", {}).get("phase") not in _OVER]


def _written(observed: Observed, job: Manifest) -> tuple[int, int] | None:
    """Files and events so far: from the report of a running pod, or the termination message of a finished one."""
    for pod in _pods(observed, job):
        report = observed.replay_reports.get(name_of(pod))
        if report and report.fleet:
            return report.fleet.files, report.fleet.events
        for container in pod.get("status", {}).get("containerStatuses", []):
            ended = container.get("state", {}).get("terminated", {})
            if ended.get("exitCode") == 0 and (found := parse_totals(ReplayTotals, ended.get("message", ""))):
                return found.files, found.events
    return None


def reprocess_status(observed: Observed, spark: Spark, *, suspended: bool) -> ReprocessStatus | None:
    """Progress of reprocessing; None where none is requested."""
    reprocess, consumer = spark.reprocess, observed.consumer
    if reprocess is None or spark.output is None:
        return None
    name = reprocess_name(consumer.key, consumer.uid, reprocess.name)
    output = reprocess_output(spark.output.path, reprocess.name)
    job = next((job for job in observed.reprocess_jobs if name_of(job) == name), None)
    known = known_success(observed, reprocess)
    if job is None:
        if known:
            return known
        waiting = messages.replay_pending(waits(observed, reprocess), suspended=suspended)
        return ReprocessStatus(name=reprocess.name, state="Pending", message=waiting, output=output)
    found = application_of(job)
    pods = [pod for pod in observed.reprocess_pods if controller_uid(pod) == found.uid]
    living = _living(pods)
    failed = next((text for pod in reversed(pods) if pod not in living and (text := termination_message(pod))), "")
    state: Literal["Running", "Succeeded", "Failed"] = "Running"
    message = messages.replay_running((), failed, pod_failures(living), _absent(observed, job))
    batches, rows = 0, 0
    if found.state is ApplicationState.SUCCEEDED:
        state, message = "Succeeded", ""
        totals = next(filter(None, (parse_totals(BatchReplayTotals, termination_message(pod)) for pod in pods)), known)
        batches, rows = (totals.batches, totals.rows) if totals else (0, 0)
    elif found.state is ApplicationState.FAILED:
        state, message = "Failed", messages.replay_failed(name, found.message, failed)
    return ReprocessStatus(
        name=reprocess.name,
        state=state,
        message=redact(message)[:_MESSAGE_LIMIT],
        output=output,
        batches=batches,
        rows=rows,
    )


def parse_totals(kind: type[_T], text: str) -> _T | None:
    """The totals in a termination message, which the program of a pod may write; None where it is something else."""
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        return None
