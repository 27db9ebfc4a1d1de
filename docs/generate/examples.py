"""Example facts: for each message of the operator, the facts from which it follows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from eventconsumer_api.kube import labels
from eventconsumer_api.spec.conditions import ConditionType, PodReason, Reason
from eventconsumer_api.v1alpha1.status import Condition, QuarantineStatus
from eventconsumer_operator.conditions import messages
from eventconsumer_operator.conditions.facts import BodyErrors, Facts, HostProblem, LostEvents, Silent
from eventconsumer_operator.errors import DependencyNotReady, SpecError
from eventconsumer_operator.resource.missing import Missing
from eventconsumer_operator.resource.podfailures import PodCause, PodFailure, PodStage, Restart, StuckPod, UnreadyPod
from eventconsumer_operator.spark.applications import NoResult, UnknownState
from eventconsumer_operator.spark.facts import (
    AnotherRuns,
    AttemptEnded,
    AttemptFollows,
    AttemptRuns,
    Behind,
    Creating,
    FailedAttempts,
    OpenBatch,
    SparkFacts,
    Step,
    Suspended,
    WaitingApplication,
)
from eventconsumer_operator.spark.failures import (
    CannotStart,
    ContainerNotCreated,
    DriverDisrupted,
    DriverError,
    DriverExited,
    DriverLog,
    DriverLost,
    DriverOutOfMemory,
    ExecutorOutOfMemory,
    FailureCause,
    HeapExhausted,
    LauncherFailure,
    LauncherWaits,
    NoExecutors,
    NoSparkOperator,
    NotCommitted,
    PodRejected,
    RunningExecutors,
    TimedOut,
    WaitingCause,
    WorkerLost,
)
from eventconsumer_operator.spark.reprocess import ReprocessWait

TIME = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
APPLICATION = "orders-b7-a2"
HOST = "orders-host-0"
LOG = DriverLog(APPLICATION, is_job=True)
RUNS = AttemptRuns(2, APPLICATION, starting=False)
STEPS: tuple[Step, ...] = (
    AttemptRuns(2, APPLICATION, starting=True),
    RUNS,
    AttemptRuns(1, "orders-b6", starting=False, resident=True),
    AnotherRuns("orders-b6-a1"),
    Suspended(),
    Creating(),
    AttemptFollows(2, TIME),
    AttemptEnded(2, APPLICATION),
)
PROBLEM = HostProblem(
    Reason.EVENT_HUB_NOT_FOUND, "spec.eventHub.name", "there is no Event Hub orders in this namespace: create it"
)
UNSCHEDULABLE = PodFailure("orders-host-1", PodCause.UNSCHEDULABLE, "Unschedulable", "0/3 nodes are available")
RESTARTS = (
    Restart(HOST, "", PodReason.OUT_OF_MEMORY),
    Restart(HOST, "", PodReason.EXITED, "Error", 1),
    Restart(HOST, "", PodReason.EXITED, "", 1),
    Restart(HOST, "", PodReason.KILLED, "Error", 137),
    Restart(HOST, "", PodReason.PROBE_FAILED, "", 143),
    Restart(HOST, "", PodReason.EVICTED, "Eviction API: evicting"),
    Restart(HOST, "", PodReason.NODE_LOST, "Taint manager: deleting due to NoExecute taint"),
)
FAILURES: tuple[PodFailure, ...] = (
    UNSCHEDULABLE,
    PodFailure(HOST, PodCause.UNSCHEDULABLE, "Unschedulable"),
    PodFailure(HOST, PodCause.WAITING, "ErrImagePull", "failed to pull image"),
    PodFailure(HOST, PodCause.WAITING, "ErrImageNeverPull", image="example/handler:1"),
    PodFailure(HOST, PodCause.INPUT_MISSING, "CreateContainerConfigError", 'secret "shop" not found'),
    PodFailure(HOST, PodCause.CRASHED, "CrashLoopBackOff", "Error", exit_code=1),
    PodFailure(HOST, PodCause.OUT_OF_MEMORY, "CrashLoopBackOff"),
    PodFailure(HOST, PodCause.ENDED, "Evicted", "the node was low on memory"),
    PodFailure(HOST, PodCause.ENDED, "Failed"),
)
CAUSES: tuple[FailureCause, ...] = (
    NotCommitted(LOG),
    CannotStart((PodFailure(f"{APPLICATION}-x", PodCause.WAITING, "ErrImagePull", "failed to pull image"),)),
    TimedOut(3600, local=True),
    TimedOut(3600, local=False),
    TimedOut(3600, local=False, waited="0 of 2 executors are running: the driver log shows the cause"),
    DriverOutOfMemory("1g"),
    ExecutorOutOfMemory("1g"),
    DriverDisrupted("Eviction API: evicting"),
    DriverLost(StuckPod(f"{APPLICATION}-x", "node-7", TIME)),
    HeapExhausted("java.lang.OutOfMemoryError: Java heap space", True, "1g", "1g"),
    HeapExhausted("java.lang.OutOfMemoryError: Java heap space", False, "1g", "1g"),
    WorkerLost("Python worker exited unexpectedly", True, "1g"),
    WorkerLost("ExecutorLostFailure", False, "1g"),
    DriverError("StorageError: container results does not exist: create it"),
    DriverExited(137, LOG),
    DriverExited(1, LOG),
    LauncherFailure("BackoffLimitExceeded: Job has reached the specified backoff limit", LOG),
    LauncherFailure(NoResult(), DriverLog(APPLICATION, is_job=False)),
    LauncherFailure("", LOG),
)
WAITS: tuple[WaitingCause, ...] = (
    NoSparkOperator("Kubeflow", "shop"),
    LauncherWaits("SUBMISSION_FAILED: failed to run spark-submit"),
    LauncherWaits(UnknownState("Migrating")),
    PodRejected(f"job/{APPLICATION}"),
    PodRejected(f"job/{APPLICATION}", 'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: driver'),
    CannotStart((PodFailure(f"{APPLICATION}-x", PodCause.WAITING, "ErrImagePull", "failed to pull image"),)),
    ContainerNotCreated("storage", "connectionString"),
    ContainerNotCreated("", ""),
    ContainerNotCreated("storage", "connectionString", ("ConfigMap shop", "Secret database")),
    NoExecutors(2, ()),
    NoExecutors(2, (PodFailure(f"{APPLICATION}-exec-1", PodCause.UNSCHEDULABLE, "Unschedulable", "no node fits"),)),
)


def _facts(**changes: object) -> Facts:
    healthy: dict[str, object] = {
        "desired": 2,
        "ready": 2,
        "existing": 2,
        "current": 2,
        "reported": True,
        "leading": True,
        "total": 8,
        "owned": 8,
    }
    return Facts(**(healthy | changes))  # type: ignore[arg-type]


def _spark(
    step: Step = RUNS,
    executors: RunningExecutors | None = None,
    failed: FailedAttempts | None = None,
    **changes: object,
) -> Facts:
    batch = OpenBatch(7, 40, step, executors, failed)
    return _facts(spark=SparkFacts(enabled=True, batches=(batch,), **changes))  # type: ignore[arg-type]


_QUARANTINE = QuarantineStatus(files=1, rows=3, message="batch 7: orders/0: not a Parquet file")
_WAITING = (WaitingApplication(APPLICATION, 7, WAITS[3:4]),)
_PARALLEL = (OpenBatch(7, 40, RUNS), OpenBatch(8, 40, RUNS), OpenBatch(9, 40, AnotherRuns(APPLICATION)))
_UNREADY = UnreadyPod("orders-host-1", "2026-01-31T12:00:00Z", PodStage.CREATING)
_QUOTA = 'pods "orders-host-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'
_NO_CPU = 'pods "orders-probe-0" is forbidden: failed quota: q: must specify limits.cpu for: probe'
_MISSING = Missing("statefulset/orders-host", "", labels.COMPONENT_HOST, 2, 1, TIME, _QUOTA)
_NO_PROBE = Missing("statefulset/orders-probe", "", labels.COMPONENT_PROBE, 1, 0, TIME, _NO_CPU)
_NO_REPLAY = Missing("job/orders-replay-1", "", labels.COMPONENT_REPLAY, 1, 0, TIME)
_DEAF = HostProblem(
    Reason.EVENT_HUB_UNREACHABLE, "spec.eventHub", "the hub did not answer for 20 s", ("orders-host-1",), 2, TIME
)
_BEFORE = Condition(
    type=ConditionType.SPARK_HEALTHY,
    status="True",
    reason=Reason.PROGRESSING,
    message=f"batch 7 (40 files): attempt 2 runs: {APPLICATION}",
    last_transition_time=TIME,
    observed_generation=1,
)
_MISFIT = "column cents: BIGINT has no exact value for this string"
_FILE = "shop/orders/segment=0123456789abcdef/partition=3/from=00000000000000000017.parquet"
_SPARK = SparkFacts(enabled=True)
_STUCK = (StuckPod("orders-host-1", "node-7", TIME), StuckPod("orders-host-3", "", TIME))
SITUATIONS: tuple[Facts, ...] = (
    _facts(),
    _facts(behind=False),
    _facts(restarts=RESTARTS[:1]),
    _facts(asleep=True, reported=False, desired=0, ready=0, existing=0, current=0),
    _facts(asleep=True, desired=0, ready=0, existing=0, current=0),
    _facts(reported=False, ready=0, existing=0, current=0, hosts_set="orders-host"),
    _facts(ready=1),
    _facts(ready=1, unready_pods=(_UNREADY,)),
    _facts(ready=1, unready_pods=(replace(_UNREADY, stage=PodStage.RUNNING),)),
    _facts(ready=0, unready_pods=(replace(_UNREADY, stage=PodStage.UNSCHEDULED, slow=True),)),
    _facts(ready=1, unready_pods=(replace(_UNREADY, slow=True, needs=("ConfigMap shop", "Secret shop")),)),
    _facts(ready=1, unready_pods=(replace(_UNREADY, slow=True, stuck=True),)),
    _facts(ready=1, missing=(_MISSING,)),
    _facts(asleep=True, reported=False, desired=0, ready=0, existing=0, current=0, missing=(_NO_PROBE,)),
    _facts(reported=False, leading=False, silent=Silent(TIME, (HOST, "orders-host-1"))),
    _facts(leading=False, silent=Silent(TIME)),
    _facts(desired=1, ready=1, existing=1, current=1, probe="orders-probe", probe_silent_since=TIME),
    _facts(owned=6),
    _facts(owned=0),
    _facts(current=1),
    _facts(existing=3),
    _facts(suspended=True, existing=0, current=0, desired=0, ready=0, reported=False),
    _facts(older_reader="billing", existing=0, current=0, desired=0, ready=0, reported=False),
    _facts(scaled_to_zero=True, existing=0, current=0, desired=0, ready=0, reported=False),
    _facts(typed=True),
    _facts(typed=True, body_errors=BodyErrors(((_MISFIT, 7), ("the body is not UTF-8", 2)), _FILE)),
    _facts(typed=True, body_errors=BodyErrors(((_MISFIT, 7), ("a", 3), ("b", 2), ("c", 1)), _FILE)),
    _facts(advice=(HostProblem(Reason.DEAD_LETTERS, "spec.processing.handler", "3 events are dead letters"),)),
    _facts(lost=LostEvents(5, (("3", "17-20,22-22"),))),
    _facts(lost=LostEvents(5)),
    _facts(lost=LostEvents(5, None, acknowledged=3)),
    _facts(lost=LostEvents(5, acknowledged=5)),
    _facts(errors=(SpecError("spec.processing.image", "example/handler:1 is not allowed"),)),
    _facts(errors=(DependencyNotReady("statefulset/orders-host is being deleted", 2.0),)),
    _facts(problems=(PROBLEM,)),
    _facts(passing=(_DEAF,)),
    _facts(owned=6, passing=(_DEAF,)),
    _facts(problems=(_DEAF,)),
    _facts(leading=False, spark=_SPARK),
    _facts(leading=False, spark=_SPARK, no_leader_since=TIME, spark_before=_BEFORE),
    _facts(leading=False, spark=_SPARK, suspended=True, existing=0, current=0, desired=0, ready=0, reported=False),
    _facts(ready=1, pod_failures=(UNSCHEDULABLE,)),
    _facts(stuck_pods=_STUCK[:1]),
    _facts(stuck_pods=_STUCK, current=1),
    _facts(spark=SparkFacts(enabled=True)),
    _facts(spark=SparkFacts(enabled=True, resident="orders-b6")),
    *(_spark(step) for step in STEPS),
    _facts(spark=SparkFacts(enabled=True, batches=_PARALLEL)),
    _spark(executors=RunningExecutors(1, 2, out_of_memory=ExecutorOutOfMemory("1g"))),
    _spark(executors=RunningExecutors(1, 4, scaled=True)),
    _spark(executors=RunningExecutors(1, 2, absent=1)),
    _spark(behind=Behind(local=True, executors=2)),
    _spark(behind=Behind(local=False, executors=2)),
    _spark(quarantine=_QUARANTINE),
    _spark(waiting=_WAITING),
    _spark(STEPS[5], failed=FailedAttempts(1, 1, 3, messages.failure(CAUSES[0]))),
    _spark(AttemptFollows(4, TIME), failed=FailedAttempts(3, 3, 3, messages.failure(CAUSES[0]))),
)
"""Facts for the conditions' own messages."""

REPLAYS: tuple[str, ...] = (
    messages.replay_pending(None, suspended=True),
    messages.replay_pending(None, suspended=False),
    messages.replay_pending(ReprocessWait(9), suspended=False),
    messages.replay_pending(ReprocessWait(9, 7), suspended=False),
    messages.replay_running([PROBLEM], "", []),
    messages.replay_running([], "StorageError: container results does not exist: create it", []),
    messages.replay_running([], "", [UNSCHEDULABLE]),
    messages.replay_running([], "", [], [_NO_REPLAY]),
    messages.replay_running([], "", [], [replace(_NO_REPLAY, cause='admission webhook "x" denied the request')]),
    messages.replay_failed("orders-replay-1", "BackoffLimitExceeded: Job has reached the specified backoff limit"),
)
PARTS: Mapping[str, Callable[[], list[str]]] = {
    "Pods that do not start": lambda: [messages.pods_failing([each]) for each in FAILURES],
    "Restarts": lambda: [messages.pods_restarted([each]) for each in RESTARTS],
    "Failed Spark attempts (also `status.spark.lastFailure`)": lambda: [messages.failure(each) for each in CAUSES],
    "Spark applications that do not start": lambda: [messages.waiting(each) for each in WAITS],
    "Replays and reprocessing (`status.replay.message`, `status.spark.reprocess.message`)": lambda: list(REPLAYS),
}
"""Parts of messages, by heading."""
