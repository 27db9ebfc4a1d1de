"""Reads the status of SparkApplications of the Kubeflow and Apache Spark operators. Pure.

The tables map each state that the two operators can report to the state of an attempt: PENDING while no driver runs,
RUNNING while one runs or may run, SUCCEEDED and FAILED when none will run again. Apache's final states only say that
the application is over; the result is in the history. A state in neither table comes from a newer operator. It counts
as PENDING, and a condition reports it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from eventconsumer_api.kinds import Manifest
from eventconsumer_operator.kube.manifest import SPARK_OPERATORS, kind_of
from eventconsumer_operator.spark.applicationstate import ApplicationState, NoResult, Said, UnknownState, moment
from eventconsumer_operator.spark.causes import NoSparkOperator

UNANSWERED = timedelta(seconds=60)
"""An application without a status after this time has no operator."""

KUBEFLOW_STATES: Mapping[str, ApplicationState] = {
    "": ApplicationState.PENDING,
    "SUBMITTED": ApplicationState.PENDING,  # the driver's pod is pending
    "RUNNING": ApplicationState.RUNNING,
    "SUCCEEDING": ApplicationState.RUNNING,  # the driver has ended; COMPLETED follows
    "COMPLETED": ApplicationState.SUCCEEDED,
    "FAILING": ApplicationState.RUNNING,  # FAILED follows
    "FAILED": ApplicationState.FAILED,
    "SUBMISSION_FAILED": ApplicationState.PENDING,  # FAILED follows: submissions are not retried
    "PENDING_RERUN": ApplicationState.PENDING,  # the spec has changed; it is submitted again
    "INVALIDATING": ApplicationState.PENDING,
    "SUSPENDING": ApplicationState.RUNNING,
    "SUSPENDED": ApplicationState.PENDING,
    "RESUMING": ApplicationState.PENDING,
    "UNKNOWN": ApplicationState.RUNNING,  # the driver's node does not answer
}
APACHE_STATES: Mapping[str, ApplicationState] = {
    "": ApplicationState.PENDING,
    "Submitted": ApplicationState.PENDING,
    "ScheduledToRestart": ApplicationState.PENDING,
    "DriverRequested": ApplicationState.PENDING,
    "DriverStarted": ApplicationState.RUNNING,
    "DriverReady": ApplicationState.RUNNING,
    "InitializedBelowThresholdExecutors": ApplicationState.RUNNING,
    "RunningHealthy": ApplicationState.RUNNING,
    "RunningWithPartialCapacity": ApplicationState.RUNNING,
    "RunningWithBelowThresholdExecutors": ApplicationState.RUNNING,
    # The result. One of APACHE_FINAL follows when the driver is gone.
    "Succeeded": ApplicationState.RUNNING,
    "Failed": ApplicationState.RUNNING,
    "SchedulingFailure": ApplicationState.RUNNING,
    "DriverEvicted": ApplicationState.RUNNING,
    "DriverStartTimedOut": ApplicationState.RUNNING,
    "DriverReadyTimedOut": ApplicationState.RUNNING,
    "ExecutorsStartTimedOut": ApplicationState.RUNNING,
}
APACHE_OUTCOMES: Mapping[str, ApplicationState] = {
    "Succeeded": ApplicationState.SUCCEEDED,
    "Failed": ApplicationState.FAILED,
    "SchedulingFailure": ApplicationState.FAILED,
    "DriverEvicted": ApplicationState.FAILED,
    "DriverStartTimedOut": ApplicationState.FAILED,
    "DriverReadyTimedOut": ApplicationState.FAILED,
    "ExecutorsStartTimedOut": ApplicationState.FAILED,
}
APACHE_FINAL = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})


def said_by_kubeflow(application: Manifest) -> Said:
    """Read a SparkApplication sparkoperator.k8s.io/v1beta2."""
    status = application.get("status") or {}
    told = status.get("applicationState") or {}
    name, message = told.get("state") or "", told.get("errorMessage") or ""
    state = KUBEFLOW_STATES.get(name)
    if state is None:
        return Said(ApplicationState.PENDING, UnknownState(name))
    if state is ApplicationState.SUCCEEDED:
        return Said(state, finished=moment(status.get("terminationTime")))
    if state is ApplicationState.FAILED:
        return Said(state, message, moment(status.get("terminationTime")))
    return Said(state, f"{name}: {message}" if message else "")


def said_by_apache(application: Manifest) -> Said:
    """Read a SparkApplication spark.apache.org/v1."""
    status = application.get("status") or {}
    told = status.get("currentState") or {}
    name, message = told.get("currentStateSummary") or "", told.get("message") or ""
    if name in APACHE_FINAL:
        return _outcome(status, moment(told.get("lastTransitionTime")))
    state = APACHE_STATES.get(name)
    if state is None:
        return Said(ApplicationState.PENDING, UnknownState(name))
    return Said(state, f"{name}: {message}" if message and state is ApplicationState.PENDING else "")


def missing_operator(application: Manifest, now: datetime) -> NoSparkOperator | None:
    """The Spark operator that does not handle an application; None where one does, or still may."""
    operator = SPARK_OPERATORS.get(kind_of(application))
    created = moment(application["metadata"].get("creationTimestamp"))
    if operator is None or application.get("status") or created is None or now - created < UNANSWERED:
        return None
    return NoSparkOperator(operator, application["metadata"]["namespace"])


def _outcome(status: Mapping[str, Any], over: datetime | None) -> Said:
    """The newest result in the history."""
    history = status.get("stateTransitionHistory") or {}
    for number in sorted(history, key=_number, reverse=True):
        past = history[number]
        name = past.get("currentStateSummary", "")
        if name not in APACHE_OUTCOMES:
            continue
        finished = moment(past.get("lastTransitionTime")) or over
        if APACHE_OUTCOMES[name] is ApplicationState.SUCCEEDED:
            return Said(ApplicationState.SUCCEEDED, finished=finished)
        text = ": ".join(part for part in (name, past.get("message") or "") if part)
        return Said(ApplicationState.FAILED, text, finished)
    return Said(ApplicationState.FAILED, NoResult(), over)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1
