"""Why attempts at a batch failed or do not start. Pure.

The causes are spread over the launcher's object, the driver pod, its termination message and the executor pods. The
most specific one counts: first the party that ended the attempt, then the termination message, then the exit code.
`conditions.messages` has the sentences.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.spark import Spark
from eventconsumer_api.wire.host_config import Credential
from eventconsumer_operator.kube.manifest import JOB, SPARK_OPERATORS, describe, is_being_deleted, kind_of
from eventconsumer_operator.resource.missing import missing
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import (
    PodFailure,
    StuckPod,
    disruption,
    out_of_memory,
    pod_failures,
    stuck_pods,
    termination_message,
)
from eventconsumer_operator.resource.programs import required_objects
from eventconsumer_operator.spark.applications import (
    Application,
    ApplicationState,
    LauncherMessage,
    api_time,
    drivers_of,
    executors_of,
)
from eventconsumer_operator.spark.attempts import POD_GRACE, Failure, FailureKind, work_began
from eventconsumer_operator.spark.native import is_local_job

UNANSWERED = timedelta(seconds=60)
"""An application without a status after this time has no operator."""
_EXECUTORS_GRACE = timedelta(seconds=180)  # the driver starts before it requests any
_CREATION_GRACE = timedelta(minutes=5)  # pulling a large image to a new node takes minutes
_OVER = {"Failed", "Succeeded"}
_HEAP = re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit|MemoryError")
_LOST = re.compile(r"ExecutorLostFailure|exit code 137|OOMKilled|Python worker exited unexpectedly")


@dataclass(frozen=True)
class DriverLog:
    """Where the log of a driver is.

    Attributes:
        application: Name of the application.
        is_job: Whether it is a Job; else a SparkApplication.
    """

    application: str
    is_job: bool


@dataclass(frozen=True)
class NotCommitted:
    """The attempt succeeded, and the batch has no commit."""

    log: DriverLog


@dataclass(frozen=True)
class CannotStart:
    """The driver pods do not start."""

    pods: tuple[PodFailure, ...]


@dataclass(frozen=True)
class TimedOut:
    """The attempt exceeded spec.spark.timeoutSeconds.

    Attributes:
        seconds: That limit.
        local: Whether the tasks ran in the driver.
        waited: Why the attempt waited for pods until its end; empty: its pods ran.
    """

    seconds: int
    local: bool
    waited: str = ""


@dataclass(frozen=True)
class DriverOutOfMemory:
    """The driver pod exceeded its memory limit; `memory` is spec.spark.driver.memory."""

    memory: str


@dataclass(frozen=True)
class ExecutorOutOfMemory:
    """An executor pod exceeded its memory limit; `memory` is spec.spark.executor.memory."""

    memory: str


@dataclass(frozen=True)
class DriverDisrupted:
    """The cluster terminated the driver pod; `text` is the cluster's explanation."""

    text: str


@dataclass(frozen=True)
class DriverLost:
    """The driver pod is being deleted and does not end."""

    pod: StuckPod


@dataclass(frozen=True)
class HeapExhausted:
    """The driver's termination message reports an exhausted heap.

    Attributes:
        text: The termination message.
        local: Whether the tasks ran in the driver.
        driver_memory: spec.spark.driver.memory.
        executor_memory: spec.spark.executor.memory.
    """

    text: str
    local: bool
    driver_memory: str
    executor_memory: str


@dataclass(frozen=True)
class WorkerLost:
    """The driver's termination message reports a lost executor or Python worker.

    Attributes:
        text: The termination message.
        local: Whether the tasks ran in the driver.
        executor_memory: spec.spark.executor.memory.
    """

    text: str
    local: bool
    executor_memory: str


@dataclass(frozen=True)
class DriverError:
    """The driver's termination message, which names cause and remedy itself."""

    text: str


@dataclass(frozen=True)
class DriverExited:
    """The driver exited with an error and without a termination message."""

    exit_code: int
    log: DriverLog


@dataclass(frozen=True)
class LauncherFailure:
    """Only the launcher says why: its message, or none."""

    message: LauncherMessage
    log: DriverLog


FailureCause = (
    NotCommitted
    | CannotStart
    | TimedOut
    | DriverOutOfMemory
    | ExecutorOutOfMemory
    | DriverDisrupted
    | DriverLost
    | HeapExhausted
    | WorkerLost
    | DriverError
    | DriverExited
    | LauncherFailure
)
"""Why an attempt failed."""


@dataclass(frozen=True)
class NoSparkOperator:
    """No Spark operator handles the SparkApplication.

    Attributes:
        operator: Name of the Spark operator.
        namespace: Namespace of the SparkApplication.
    """

    operator: str
    namespace: str


@dataclass(frozen=True)
class LauncherWaits:
    """The launcher says why no driver pod exists."""

    message: LauncherMessage


@dataclass(frozen=True)
class PodRejected:
    """No driver pod exists.

    Attributes:
        application: Kind and name of the application, as kubectl takes them.
        refusal: What the API server answered to the Job controller; empty: nothing says why.
    """

    application: str
    refusal: str = ""


@dataclass(frozen=True)
class ContainerNotCreated:
    """The driver's container is not created.

    Attributes:
        secret: Secret of the sink's credential; empty: none.
        key: Key in it.
        needs: ConfigMaps and Secrets that the program's volumes need, such as `ConfigMap shop`.
    """

    secret: str
    key: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoExecutors:
    """No executor runs. With some of them a batch only takes longer.

    Attributes:
        wanted: spec.spark.executor.instances.
        pods: Executor pods that do not start.
    """

    wanted: int
    pods: tuple[PodFailure, ...]


WaitingCause = NoSparkOperator | LauncherWaits | PodRejected | CannotStart | ContainerNotCreated | NoExecutors
"""Why an application does not start."""


@dataclass(frozen=True)
class RunningExecutors:
    """The executors of an attempt that runs.

    Attributes:
        running: How many run.
        wanted: spec.spark.executor.instances.
        scaled: Whether fewer are normal: spec.spark.executor.minInstances is set.
        out_of_memory: An executor that exceeded its memory limit; None: none did.
        pods: Executor pods that do not start.
        absent: Executor pods that do not exist although they should for minutes.
    """

    running: int
    wanted: int
    scaled: bool = False
    out_of_memory: ExecutorOutOfMemory | None = None
    pods: tuple[PodFailure, ...] = ()
    absent: int = 0


def why_failed(failure: Failure, observed: Observed, spark: Spark, *, local: bool, waited: str = "") -> FailureCause:
    """The cause of a failed attempt; `waited`: why it waited for pods when it was last observed."""
    application = failure.application
    drivers = drivers_of(application, observed)
    log = DriverLog(application.name, is_job=application.kind == JOB)
    if failure.cause is FailureKind.NO_COMMIT:
        return NotCommitted(log)
    if failure.cause is FailureKind.CANNOT_START:
        return CannotStart(pod_failures(drivers))
    if failure.cause is FailureKind.LOST and (stuck := stuck_pods(drivers, observed.now)):
        return DriverLost(stuck[0])
    said_by_launcher = application.message.partition(":")[0] if isinstance(application.message, str) else ""
    reasons = {said_by_launcher, *(pod.get("status", {}).get("reason") for pod in drivers)}
    if failure.cause is FailureKind.TOO_LONG or "DeadlineExceeded" in reasons:
        return TimedOut(spark.timeout_seconds, local, waited)  # the first cause: the time limit only ends the wait
    if any(map(out_of_memory, drivers)):
        return DriverOutOfMemory(spark.driver.memory)
    if any(map(out_of_memory, executors_of(application, observed))):
        return ExecutorOutOfMemory(spark.executor.memory)
    if found := next(filter(None, map(disruption, drivers)), ""):
        return DriverDisrupted(found)
    if said := next(filter(None, map(termination_message, drivers)), ""):
        return _said_by_driver(said, spark, local=local)
    code = _exit_code(drivers)
    return DriverExited(code, log) if code else LauncherFailure(application.message, log)


def _said_by_driver(said: str, spark: Spark, *, local: bool) -> FailureCause:
    if _HEAP.search(said):
        return HeapExhausted(said, local, spark.driver.memory, spark.executor.memory)
    return WorkerLost(said, local, spark.executor.memory) if _LOST.search(said) else DriverError(said)


def _exit_code(drivers: Iterable[Manifest]) -> int:
    codes = (
        int(container.get("state", {}).get("terminated", {}).get("exitCode") or 0)
        for pod in drivers
        for container in pod.get("status", {}).get("containerStatuses", [])
    )
    return next(filter(None, codes), 0)


def why_waiting(
    application: Application, observed: Observed, spark: Spark, credential: Credential
) -> tuple[WaitingCause, ...]:
    """Why an application does not start; empty where it has started, or may still start."""
    return tuple(_waits(application, observed, spark, credential))


def _waits(
    application: Application, observed: Observed, spark: Spark, credential: Credential
) -> Iterator[WaitingCause]:
    age = observed.now - (work_began(application, observed.fleet) or observed.now)
    if application.deleted or age <= POD_GRACE:
        return
    found = next((each for each in observed.applications if each["metadata"]["uid"] == application.uid), None)
    if found and (operator := missing_operator(found, observed.now)):
        yield operator
        return
    drivers = drivers_of(application, observed)
    if not drivers and application.state is ApplicationState.PENDING:
        if application.message:
            yield LauncherWaits(application.message)
        elif found:
            refusals = (each.cause for each in missing(observed) if each.uid == application.uid)
            yield PodRejected(describe(found), next(refusals, ""))
        return
    living = [pod for pod in drivers if pod.get("status", {}).get("phase") not in _OVER]
    failures = pod_failures(living)
    if failures:
        yield CannotStart(failures)
    elif age > _CREATION_GRACE and any(_is_creating(pod) for pod in living):
        yield ContainerNotCreated(credential.secret, credential.key, required_objects(spark.application))
    has_executors = found is not None and not is_local_job(found)
    if has_executors and application.state is ApplicationState.RUNNING and age > _EXECUTORS_GRACE:
        yield from _without_executors(application, observed, spark)


def _is_creating(pod: Manifest) -> bool:
    containers = pod.get("status", {}).get("containerStatuses", [])
    return any(each.get("state", {}).get("waiting", {}).get("reason") == "ContainerCreating" for each in containers)


def _without_executors(application: Application, observed: Observed, spark: Spark) -> Iterator[NoExecutors]:
    """Reported only where no executor runs: with fewer than requested a batch only takes longer."""
    executors = [pod for pod in executors_of(application, observed) if not is_being_deleted(pod)]
    if any(pod.get("status", {}).get("phase") in {"Running", "Succeeded"} for pod in executors):
        return
    waiting = [pod for pod in executors if pod.get("status", {}).get("phase") not in _OVER]
    yield NoExecutors(spark.executor.instances, pod_failures(waiting))


def executors(application: Application, observed: Observed, spark: Spark) -> RunningExecutors | None:
    """The executors of an application; None where it has none yet."""
    found = [pod for pod in executors_of(application, observed) if not is_being_deleted(pod)]
    if not found:
        return None
    age = observed.now - (work_began(application, observed.fleet) or observed.now)
    is_fixed = spark.executor.min_instances is None and not application.resident
    return RunningExecutors(
        running=sum(pod.get("status", {}).get("phase") == "Running" for pod in found),
        wanted=spark.executor.instances,
        scaled=spark.executor.min_instances is not None,
        out_of_memory=ExecutorOutOfMemory(spark.executor.memory) if any(map(out_of_memory, found)) else None,
        pods=pod_failures(pod for pod in found if pod.get("status", {}).get("phase") == "Pending"),
        absent=max(0, spark.executor.instances - len(found)) if is_fixed and age > _EXECUTORS_GRACE else 0,
    )


def missing_operator(application: Manifest, now: datetime) -> NoSparkOperator | None:
    """The Spark operator that does not handle an application; None where one does, or still may."""
    operator = SPARK_OPERATORS.get(kind_of(application))
    created = api_time(application["metadata"].get("creationTimestamp"))
    if operator is None or application.get("status") or created is None or now - created < UNANSWERED:
        return None
    return NoSparkOperator(operator, application["metadata"]["namespace"])
