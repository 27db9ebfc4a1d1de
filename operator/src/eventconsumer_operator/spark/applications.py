"""Reads applications of all launchers into one record, `Application`, and finds their pods. Pure.

An application does not show whether its batch was processed: only the batch's commit record does.

The tables map each state that the Kubeflow and Apache Spark operators can report to the state of an attempt: PENDING
while no driver runs, RUNNING while one runs or may run, SUCCEEDED and FAILED when none will run again. Apache's final
states only say that the application is over; the result is in the history. A state in neither table comes from a newer
operator. It counts as PENDING, and a condition reports it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_operator.kube.manifest import (
    APACHE_APPLICATION,
    JOB,
    KUBEFLOW_APPLICATION,
    controller_uid,
    is_being_deleted,
    kind_of,
    name_of,
)
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import is_unstartable, stuck_pods


class ApplicationState(Enum):
    """State of an application."""

    PENDING = "pending"  # no pod runs yet
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class UnknownState:
    """The launcher reports a state that this operator does not know.

    Attributes:
        name: The state.
    """

    name: str


@dataclass(frozen=True)
class NoResult:
    """The application ended without a result."""


LauncherMessage = str | UnknownState | NoResult
"""Why an application failed or waits: the launcher's text, empty for none, or a fact that its status shows."""


@dataclass(frozen=True)
class Said:
    """The status of an application's object.

    Attributes:
        state: Its state.
        message: Why it failed or waits.
        finished: When it ended; None while it runs, or where the time is unknown.
    """

    state: ApplicationState
    message: LauncherMessage = ""
    finished: datetime | None = None


# The first two come before the pods of the Job have ended, which a dead node or a sidecar never confirms
# (https://kubernetes.io/docs/concepts/workloads/controllers/job/#termination-of-job-pods).
_JOB_STATES: Mapping[str, ApplicationState] = {
    "SuccessCriteriaMet": ApplicationState.SUCCEEDED,
    "FailureTarget": ApplicationState.FAILED,
    "Complete": ApplicationState.SUCCEEDED,
    "Failed": ApplicationState.FAILED,
}
DRIVER = "driver"
"""Name of the driver's container in a Job."""
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


@dataclass(frozen=True)
class Application:
    """One attempt at a batch. A resident driver then processes later batches, too.

    Attributes:
        name: Its name.
        kind: Kind of its object.
        batch: Number of its (first) batch; 0: none, or unreadable.
        attempt: Number of the attempt at the batch, from 1.
        state: Its state.
        message: Why it failed or waits, from its launcher; empty for nothing.
        started: When it was created.
        finished: When it ended; None while it runs.
        uid: Its uid.
        deleted: Whether it is being deleted and waits for its finalizers.
        resident: Digest of an application whose driver stays for later batches; empty: it ends with its batch.
    """

    name: str
    kind: Kind
    batch: int
    attempt: int
    state: ApplicationState
    message: LauncherMessage
    started: datetime | None
    finished: datetime | None
    uid: str
    deleted: bool = False
    resident: str = ""

    @property
    def ended(self) -> bool:
        """Whether it succeeded or failed."""
        return self.state in {ApplicationState.SUCCEEDED, ApplicationState.FAILED}


def application_of(manifest: Manifest) -> Application:
    """Read an application of any kind."""
    kind = kind_of(manifest)
    metadata = manifest["metadata"]
    said = READERS[kind](manifest)
    started = api_time(metadata.get("creationTimestamp"))
    # Without a time of its end an application would be kept for ever: then its creation counts.
    ended = said.state in {ApplicationState.SUCCEEDED, ApplicationState.FAILED}
    return Application(
        name=name_of(manifest),
        kind=kind,
        batch=_number(metadata, labels.LABEL_BATCH, 0),
        attempt=_number(metadata, labels.LABEL_ATTEMPT, 1),
        state=said.state,
        message=said.message,
        started=started,
        finished=(said.finished or started) if ended else None,
        uid=metadata["uid"],
        deleted=is_being_deleted(manifest),
        resident=metadata.get("annotations", {}).get(labels.ANNOTATION_RESIDENT, ""),
    )


def applications_of(observed: Observed) -> tuple[Application, ...]:
    """The applications of a resource, each as its object and its driver pods show it.

    A Job waits for all containers of its pod. The driver's own ends the attempt: a sidecar that stays, such as the
    proxy of a service mesh, does not hold up the next one.
    """
    return tuple(_by_driver(application_of(each), observed) for each in observed.applications)


def _by_driver(application: Application, observed: Observed) -> Application:
    if application.ended or application.kind != JOB:
        return application  # the Spark operators look at the driver's container themselves
    for pod in drivers_of(application, observed):
        for container in pod.get("status", {}).get("containerStatuses", []):
            if container.get("name") == DRIVER and (over := container.get("state", {}).get("terminated")):
                state = ApplicationState.FAILED if over.get("exitCode") else ApplicationState.SUCCEEDED
                finished = api_time(over.get("finishedAt")) or application.started
                return replace(application, state=state, finished=finished)
    return application


def is_lost(application: Application, observed: Observed) -> bool:
    """Whether the driver is being deleted and does not end. It may still run; storage refuses its commit then."""
    drivers = drivers_of(application, observed)
    return bool(stuck_pods(drivers, observed.now)) and all(map(is_being_deleted, drivers))


def drivers_of(application: Application, observed: Observed) -> tuple[Manifest, ...]:
    """The driver pods of an application, running or finished."""
    return tuple(pod for pod in observed.drivers if _is_of(pod, application, observed))


def executors_of(application: Application, observed: Observed) -> tuple[Manifest, ...]:
    """The existing executor pods of an application; its driver owns them."""
    uids = {pod["metadata"].get("uid") for pod in drivers_of(application, observed)}
    return tuple(pod for pod in observed.executors if controller_uid(pod) in uids)


def cannot_start(application: Application, observed: Observed) -> bool:
    """Whether the driver pod cannot start without an action, for example because of a missing image."""
    return any(is_unstartable(pod) for pod in drivers_of(application, observed))


def said_by_job(job: Manifest) -> Said:
    """Read a Job: its conditions if it has ended, else whether its pod is ready."""
    status = job.get("status", {})
    for condition in status.get("conditions", []):
        if condition.get("status") != "True":
            continue
        state, finished = _JOB_STATES.get(condition["type"]), api_time(condition.get("lastTransitionTime"))
        if state is ApplicationState.SUCCEEDED:
            return Said(state, finished=finished)
        if state is ApplicationState.FAILED:
            text = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
            return Said(state, text, finished)
    return Said(ApplicationState.RUNNING if status.get("ready") else ApplicationState.PENDING)


def said_by_kubeflow(application: Manifest) -> Said:
    """Read a SparkApplication sparkoperator.k8s.io/v1beta2."""
    status = application.get("status") or {}
    told = status.get("applicationState") or {}
    name, message = told.get("state") or "", told.get("errorMessage") or ""
    state = KUBEFLOW_STATES.get(name)
    if state is None:
        return Said(ApplicationState.PENDING, UnknownState(name))
    if state is ApplicationState.SUCCEEDED:
        return Said(state, finished=api_time(status.get("terminationTime")))
    if state is ApplicationState.FAILED:
        return Said(state, message, api_time(status.get("terminationTime")))
    return Said(state, f"{name}: {message}" if message else "")


def said_by_apache(application: Manifest) -> Said:
    """Read a SparkApplication spark.apache.org/v1."""
    status = application.get("status") or {}
    told = status.get("currentState") or {}
    name, message = told.get("currentStateSummary") or "", told.get("message") or ""
    if name in APACHE_FINAL:
        return _outcome(status, api_time(told.get("lastTransitionTime")))
    state = APACHE_STATES.get(name)
    if state is None:
        return Said(ApplicationState.PENDING, UnknownState(name))
    return Said(state, f"{name}: {message}" if message and state is ApplicationState.PENDING else "")


READERS: Mapping[Kind, Callable[[Manifest], Said]] = {
    JOB: said_by_job,
    KUBEFLOW_APPLICATION: said_by_kubeflow,
    APACHE_APPLICATION: said_by_apache,
}
"""Reads the status of each kind of application."""


def api_time(text: str | None) -> datetime | None:
    """A time in the API server's format; None for no time."""
    return datetime.fromisoformat(text) if text else None


def _number(metadata: Mapping[str, Any], label: str, absent: int) -> int:
    text = metadata.get("labels", {}).get(label)
    if text is None:
        return absent
    return int(text) if text.isascii() and text.isdigit() else 0


def _outcome(status: Mapping[str, Any], over: datetime | None) -> Said:
    """The newest result in the history."""
    history = status.get("stateTransitionHistory") or {}
    for number in sorted(history, key=_order, reverse=True):
        past = history[number]
        name = past.get("currentStateSummary", "")
        if name not in APACHE_OUTCOMES:
            continue
        finished = api_time(past.get("lastTransitionTime")) or over
        if APACHE_OUTCOMES[name] is ApplicationState.SUCCEEDED:
            return Said(ApplicationState.SUCCEEDED, finished=finished)
        text = ": ".join(part for part in (name, past.get("message") or "") if part)
        return Said(ApplicationState.FAILED, text, finished)
    return Said(ApplicationState.FAILED, NoResult(), over)


def _order(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1


def _is_of(pod: Manifest, application: Application, observed: Observed) -> bool:
    owner = controller_uid(pod)
    if application.kind == JOB or owner != observed.consumer.uid:
        return owner == application.uid
    # The launcher sets no owner: the owner in the template is the resource, and labels name the attempt.
    told = pod["metadata"].get("labels", {})
    return bool(
        told.get(labels.LABEL_BATCH) == str(application.batch)
        and told.get(labels.LABEL_ATTEMPT, "1") == str(application.attempt)
    )
