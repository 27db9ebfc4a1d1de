"""Causes of attempts that fail and of applications that do not start. `conditions.messages` has the sentences."""

from dataclasses import dataclass

from eventconsumer_operator.resource.podfailures import PodFailure
from eventconsumer_operator.spark.applications import LauncherMessage


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
    """The attempt exceeded spec.spark.timeoutSeconds."""

    seconds: int
    local: bool


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
    NotCommitted | CannotStart | TimedOut | DriverOutOfMemory | ExecutorOutOfMemory | DriverDisrupted
    | HeapExhausted | WorkerLost | DriverError | DriverExited | LauncherFailure
)  # fmt: skip
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
    """No driver pod exists, and nothing says why. `application` is its kind and name, as kubectl takes them."""

    application: str


@dataclass(frozen=True)
class ContainerNotCreated:
    """The driver's container is not created; `secret` and `key` name the sink's credential, empty for none."""

    secret: str
    key: str


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
class Executors:
    """The executors of an attempt that runs.

    Attributes:
        running: How many run.
        wanted: spec.spark.executor.instances.
        out_of_memory: An executor that exceeded its memory limit; None: none did.
        pods: Executor pods that do not start.
    """

    running: int
    wanted: int
    out_of_memory: ExecutorOutOfMemory | None = None
    pods: tuple[PodFailure, ...] = ()
