"""Every sentence of the status and of Kubernetes Events, from typed facts. Pure.

From top to bottom: hosts, partitions, progress, pods, restarts, lost events, Spark, replays, reprocessing. The messages
name the thing, the cause and the remedy. docs/reference/conditions.md shows all of them with examples.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from eventconsumer_api.kube import labels
from eventconsumer_api.shared.plurals import plural
from eventconsumer_api.spec.conditions import PodReason, Reason
from eventconsumer_api.v1alpha1.status import QuarantineStatus
from eventconsumer_operator.conditions.facts import BodyErrors, HostProblem, LostEvents, Silent
from eventconsumer_operator.resource.missing import CAUSE_LIMIT, Missing
from eventconsumer_operator.resource.podfailures import (
    PodCause,
    PodFailure,
    PodStage,
    Restart,
    StuckPod,
    UnreadyPod,
)
from eventconsumer_operator.spark.applications import LauncherMessage, NoResult, UnknownState
from eventconsumer_operator.spark.facts import (
    AnotherRuns,
    AttemptEnded,
    AttemptFollows,
    AttemptRuns,
    Behind,
    Creating,
    FailedAttempts,
    OpenBatch,
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

NO_ACTION = "No action required"
AS_SPECIFIED = "All resources match the spec"
SPEC_AWAITED = "waiting for a valid spec"
FIX_AWAITED = "waiting for a fix of the problem that condition Stalled describes"
IDLE = "Idle: all events are written to files; hosts are scaled to zero until new events arrive"
NO_LAG = "all events are written to files"
NO_PROBE_REPORT = "the probe has not reported yet"
NO_HOST_REPORT = "no host has reported yet"
NO_GAP = "no events expired before they were written"
NO_COLUMNS = "spec.sink.body sets no columns"
BODIES_FIT = "all bodies in the files of the last ten minutes fit their columns"
SPARK_DISABLED = "Spark is not enabled in the spec"

_EXIT_LIMIT = 100  # of a container's own words in the message of its restart
_ERRORS_SHOWN = 3  # of bodies, in a condition
_KILLED = 137
_NO_LIMIT = re.compile(r"must\s+specify\s[^:]*limits\.cpu")  # of a quota
_OF_DRIVER = ("spec.spark.driver", "spec.spark.driver.cpuLimit")
# Fields with the size of a pod, and with its limit of CPU, by component; others have those of hosts.
_SIZES = {labels.COMPONENT_SPARK: _OF_DRIVER, labels.COMPONENT_REPROCESS: _OF_DRIVER}
_OUT_OF_MEMORY = "the container exceeded its memory limit and was killed: raise spec.pods.resources.limits.memory"


def joined(*parts: str) -> str:
    """Parts of one message; empty ones are left out."""
    return "; ".join(filter(None, parts))


# --- hosts and partitions ------------------------------------------------------------------------------------------


def off(reason: Reason) -> str:
    """Why no hosts are wanted."""
    if reason is Reason.SUSPENDED:
        return "spec.suspend is true"
    if reason is Reason.CONSUMER_GROUP_IN_USE:
        return "an older EventConsumer reads the consumer group"
    return "spec.scaling.mode is Fixed and spec.scaling.replicas is 0"


def no_hosts(reason: Reason) -> str:
    """HostsAvailable and Ready, where the spec sets zero hosts."""
    return f"{off(reason)}: no hosts run"


def not_reading(reason: Reason) -> str:
    """Draining, where the spec sets zero hosts."""
    return f"{off(reason)}: no events are read"


def unknown(reason: Reason | None) -> str:
    """What only hosts know, where none has reported; `reason`: the spec sets zero hosts."""
    return f"{off(reason)}: unknown while no host runs" if reason else NO_HOST_REPORT


def consumer_group_in_use(name: str) -> str:
    """An older EventConsumer of the namespace reads the same hub in the same consumer group."""
    return (
        f"spec.eventHub.consumerGroup: EventConsumer {name} of this namespace, which is older, reads this Event Hub in "
        "this consumer group: create an EventConsumer with another consumer group and delete this one, or suspend or "
        f"delete {name}"
    )


def hosts_ready(count: int, desired: int) -> str:
    """Ready hosts."""
    return f"{count} of {desired} hosts are ready"


def no_pod(hosts_set: str) -> str:
    """No host pod exists."""
    return f"no host pod exists yet; if this lasts, kubectl describe statefulset {hosts_set} shows the cause"


def hosts_up_to_date(count: int, desired: int) -> str:
    """Hosts of the newest template, during a rolling update."""
    return f"{count} of {desired} hosts are up to date"


def hosts_leaving(leaving: int, existing: int) -> str:
    """Surplus hosts."""
    return f"{leaving} of {existing} hosts are handing over their partitions"


def partitions_read(owned: int, total: int) -> str:
    """Partitions that hosts read."""
    return f"{owned} of {total} partitions are read"


def host_problem(problem: HostProblem) -> str:
    """A problem that hosts report: their text, with the field to change, and the hosts if others do not have it."""
    text = f"{problem.field}: {problem.text}"
    if not problem.is_local:
        return text
    count = f"{len(problem.hosts)} of {problem.reporting} hosts"
    since = f" since {_utc(problem.since)}" if problem.since else ""
    return f"{count} ({_and_others(problem.hosts[0], len(problem.hosts))}){since}: {text}"


def hosts_silent(silent: Silent) -> str:
    """Hosts are ready, and no leading host answers the operator."""
    if not silent.hosts:
        return (
            f"hosts answer, and none of them has led since {_utc(silent.since)}: lag and batches are unknown: kubectl "
            "logs of the host pods shows the cause"
        )
    return (
        f"pod {_and_others(silent.hosts[0], len(silent.hosts))} is ready and has not answered the operator since "
        f"{_utc(silent.since)}: let NetworkPolicies allow the operator to reach port {labels.HOST_PORT} of the hosts; "
        "the log of the operator shows refused reports"
    )


def probe_silent(probe: str, since: datetime) -> str:
    """The probe does not tell the lag, so nobody would see new events."""
    return (
        f"the probe has not reported the lag of all partitions since {_utc(since)}, so a host runs in its place: "
        f"kubectl describe statefulset/{probe} and kubectl logs {probe}-0 show the cause"
    )


# --- pods ----------------------------------------------------------------------------------------------------------


def pods_failing(failures: Iterable[PodFailure]) -> str:
    """Pods that do not start: one sentence per reason, with the first pod and the number of others."""
    return _by_reason((failure.reason, failure.pod, _pod_cause(failure)) for failure in failures)


def _pod_cause(failure: PodFailure) -> str:
    match failure.cause:
        case PodCause.OUT_OF_MEMORY:
            return _OUT_OF_MEMORY
        case PodCause.CRASHED:
            code = failure.exit_code
            return f"the container exited with code {code} ({failure.text}); kubectl logs --previous shows the cause"
        case PodCause.UNSCHEDULABLE:
            return failure.text or "no node fits the pod"
        case PodCause.WAITING:
            return failure.text or f"image {failure.image}"
        case PodCause.INPUT_MISSING:
            return f"{failure.text}: create it, or correct env and envFrom in the spec; the pod then starts by itself"
        case PodCause.ENDED:
            return failure.text or "the pod ended"


def pods_missing(found: Missing) -> str:
    """Pods that do not exist: how many, since when, why, and the remedy."""
    count = f"{found.expected - found.existing} of {found.expected}"
    begin = f"{found.owner}: {count} pods have been missing since {_utc(found.since)}"
    if not found.cause:
        return (
            f"{begin}: most likely a quota or an admission policy refuses them, or the service account does not exist: "
            f"kubectl describe {found.owner} shows the cause"
        )
    return f"{begin}: {refusal(found.cause, found.component)}"


def refusal(cause: str, component: str) -> str:
    """Why the API server refuses a pod, and the remedy."""
    field, limit = _SIZES.get(component, ("spec.pods.resources", "spec.pods.resources.limits.cpu"))
    if _NO_LIMIT.search(cause):
        remedy = f"set {limit}"
    elif "quota" in cause:
        remedy = f"raise the quota, or lower {field}"
    else:
        remedy = f"change the policy, or {field}"
    return f"the API server refuses it: {cause[:CAUSE_LIMIT]}: {remedy}"


def pods_unready(pods: tuple[UnreadyPod, ...]) -> str:
    """Pods that are not ready: the first one, since when, and how far its start is; empty for none."""
    if not pods:
        return ""
    first = pods[0]
    needs = f"; its volumes need {' and '.join(first.needs)}: create what is missing" if first.needs else ""
    more = f": kubectl describe pod {first.pod} shows the cause{needs}" if first.slow else ""
    return (
        f"pod {_and_others(first.pod, len(pods))} has not been ready since {first.since}: {_stage(first.stage)}{more}"
    )


def _stage(stage: PodStage) -> str:
    match stage:
        case PodStage.UNSCHEDULED:
            return "not yet scheduled: if this lasts, check that the scheduler of the cluster runs"
        case PodStage.CREATING:
            return "its container is being created"
        case PodStage.RUNNING:
            return "its container runs, and the host is not ready yet"


def stuck(found: StuckPod) -> str:
    """A pod that is being deleted and does not end."""
    where = f"node {found.node}" if found.node else "its node"
    return f"pod {found.pod} is being deleted and has not ended since {_utc(found.since)}: {where} does not answer"


def pods_stuck(pods: tuple[StuckPod, ...], outdated: bool) -> str:
    """Host pods that are being deleted and do not end.

    Args:
        pods: The pods, at least one.
        outdated: Whether hosts have an older template: a rolling update ends at a pod that does not end.
    """
    first = pods[0]
    node = first.node or "NODE"
    more = f" (and {len(pods) - 1} more)" if len(pods) > 1 else ""
    below = "; hosts with lower numbers keep the former spec until then" if outdated else ""
    return (
        f"{stuck(first)}{more}; another pod replaces it. Bring the node back; or, where it is confirmed to be off, "
        f"kubectl delete node {node}, or kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:"
        f"NoExecute, or kubectl delete pod {first.pod} --force{below}"
    )


def restart(found: Restart) -> str:
    """A restart of a pod, without the pod's name."""
    match found.reason:
        case PodReason.OUT_OF_MEMORY:
            return _OUT_OF_MEMORY
        case PodReason.KILLED:
            return (
                f"the container was killed (exit code {found.exit_code}): by a user or its node, or by the kubelet if "
                "it did not end after a failed liveness probe: kubectl describe pod shows Killing and Unhealthy events "
                "of the kubelet; kubectl logs --previous shows the last log entries"
            )
        case PodReason.PROBE_FAILED:
            return (
                f"the kubelet stopped the container (exit code {found.exit_code}), most likely because its liveness "
                "probe failed: kubectl logs --previous shows the cause; if the container lacked CPU time, raise "
                "spec.pods.resources.requests.cpu"
            )
        case PodReason.EXITED:
            why = (found.text or "no reason given")[:_EXIT_LIMIT]
            return f"the container exited with code {found.exit_code} ({why}): kubectl logs --previous shows the cause"
        case PodReason.NODE_LOST:
            return (
                f"{found.text}: other hosts take over its partitions when its leases expire: bring the node back, or, "
                "where it is confirmed to be off, delete its Node object"
            )
        case PodReason.EVICTED:
            return (
                f"{found.text}: another pod replaces it; if the node ran short of resources, raise the requests in "
                "spec.pods.resources"
            )


def restart_event(found: Restart) -> str:
    """The Kubernetes Event of a restart."""
    return f"pod {found.pod}: {restart(found)}"


def pods_restarted(restarts: Iterable[Restart]) -> str:
    """Recent restarts: one sentence per reason, with the first pod and the number of others."""
    return _by_reason((each.reason.value, each.pod, restart(each)) for each in restarts)


def _by_reason(found: Iterable[tuple[str, str, str]]) -> str:
    """Reason, pod and cause, by reason."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for reason, pod, cause in found:
        groups.setdefault(reason, []).append((pod, cause))
    return "; ".join(
        f"pod {_and_others(pods[0][0], len(pods))}: {reason}: {pods[0][1][:CAUSE_LIMIT]}"
        for reason, pods in sorted(groups.items())
    )


def _utc(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _and_others(name: str, count: int) -> str:
    return f"{name} (and {count - 1} more)" if count > 1 else name


# --- lost events ---------------------------------------------------------------------------------------------------


def events_lost(lost: LostEvents) -> str:
    """Events that expired before they were written to a file."""
    newest = ""
    if lost.newest is not None:
        ranges = "; ".join(f"partition {partition}: {ranges}" for partition, ranges in lost.newest)
        newest = f" (newest: {ranges or 'in files before the last batch'})"
    now = f" (now {lost.acknowledged})" if lost.acknowledged else ""
    return (
        f"{lost.events} events were lost: they expired in the Event Hub before they were written to a file{newest}: "
        "raise the retention, or the number of hosts, then set spec.acknowledgedGapEvents to "
        f"{lost.events}{now}"
    )


def gap_acknowledged(lost: LostEvents) -> str:
    """DataGap, where a user has acknowledged all lost events."""
    return f"{lost.events} events were lost, all acknowledged by spec.acknowledgedGapEvents"


# --- bodies --------------------------------------------------------------------------------------------------------


def bodies_unreadable(found: BodyErrors) -> str:
    """Bodies of events in new files that do not fit the columns of bodies; errors have no values of them."""
    shown = [f"{plural(events, 'event')}: {error}" for error, events in found.events[:_ERRORS_SHOWN]]
    if others := sum(events for _, events in found.events[_ERRORS_SHOWN:]):
        shown.append(f"{plural(others, 'event')}: other errors")
    return (
        "spec.sink.body: bodies of new events do not fit their columns, which are null: "
        f"{joined(*shown)}; the newest file with one is {found.file}. Correct the publisher, or add a column of the "
        "right type with another name; kubectl eventconsumer errors lists the events"
    )


# --- Spark ---------------------------------------------------------------------------------------------------------


def batch_steps(batches: Sequence[OpenBatch]) -> str:
    """What happens with the open batches now: the first one, and the number of the later ones."""
    first, *later = batches
    running = sum(isinstance(batch.step, AttemptRuns) for batch in later)
    return joined(
        f"{_batch(first)}: {_step(first.step)}",
        executors(first.executors) if first.executors else "",
        f"later batches: {running} of {len(later)} are processed, up to batch {later[-1].number}" if later else "",
    )


def no_batch(resident: str) -> str:
    """No batch is open; `resident` is the application of a driver that waits for one, or empty."""
    return joined("no batch is open", f"the resident driver {resident} waits for the next batch" if resident else "")


def unconfirmed(text: str, since: datetime) -> str:
    """The last message of SparkHealthy, while no leading host reports."""
    note = f"not confirmed since {_utc(since)}, because no leading host reports: "
    return text if text.startswith(note) else note + text


def _batch(batch: OpenBatch) -> str:
    return f"batch {batch.number} ({plural(batch.files, 'file')})"


def _step(step: Step) -> str:
    match step:
        case AttemptRuns(attempt, application, starting, resident):
            by = "by the resident driver " if resident else ""
            return f"attempt {attempt} {'starts' if starting else 'runs'}: {by}{application}"
        case AnotherRuns(application):
            return f"waiting for {application} to end"
        case Suspended():
            return "spec.suspend is true: no attempt is started"
        case Creating():
            return "the application is being created"
        case AttemptFollows(attempt, time):
            return f"attempt {attempt} follows at {_utc(time)}"
        case AttemptEnded(attempt, application):
            return f"attempt {attempt}: {application}"


def executors(found: RunningExecutors) -> str:
    """Executors of the attempt in progress."""
    lost = failure(found.out_of_memory) if found.out_of_memory else ""
    most = f"at most {found.wanted}" if found.scaled else found.wanted
    absent = f"{plural(found.absent, 'executor pod')} missing: the driver log shows the cause, such as a quota"
    return joined(
        f"{found.running} of {most} executors are running",
        lost,
        pods_failing(found.pods),
        absent if found.absent else "",
    )


def batch_failing(batch: OpenBatch, failed: FailedAttempts) -> str:
    """Failed attempts at an open batch, and what happens now."""
    count = f"attempt {failed.last} failed ({failed.count} of {failed.limit} in a row)"
    return f"spec.spark: {_batch(batch)}: {count}: {failed.why}; {_step(batch.step)}"


def failure(cause: FailureCause) -> str:  # noqa: PLR0912 - one case per cause
    """Why an attempt failed (also status.spark.lastFailure)."""
    match cause:
        case NotCommitted(log):
            return (
                "the program ended without a commit of the batch: a program of your own must end with run_batch or "
                f"commit_batch; {_log(log)}"
            )
        case CannotStart(pods):
            return pods_failing(pods)
        case TimedOut(seconds, _, waited) if waited:
            return f"{waited}; so the attempt did not end within spec.spark.timeoutSeconds ({seconds})"
        case TimedOut(seconds, local):
            more = "spec.spark.driver.cores" if local else "spec.spark.executor.instances"
            return (
                f"the attempt did not end within spec.spark.timeoutSeconds ({seconds}): raise it, make batches smaller "
                f"(spec.spark.batch), or raise {more}"
            )
        case DriverOutOfMemory(memory):
            return (
                "the driver exceeded the memory limit of its pod and was killed (OOMKilled): raise "
                f"spec.spark.driver.memory (now {memory})"
            )
        case ExecutorOutOfMemory(memory):
            return f"an executor was killed (OOMKilled): {_more_executor_memory(memory)}"
        case DriverLost(pod):
            return f"the driver {stuck(pod)}; storage refuses a commit of this attempt after the next one has begun"
        case DriverDisrupted(text):
            return f"the cluster terminated the driver pod: {text}"
        case HeapExhausted(text, True, driver_memory, _):
            return (
                f"{text}: raise spec.spark.driver.memory (now {driver_memory}), or make batches smaller "
                "(spec.spark.batch)"
            )
        case HeapExhausted(text, _, driver_memory, executor_memory):
            return f"{text}: {_more_executor_memory(executor_memory)} or spec.spark.driver.memory (now {driver_memory})"
        case WorkerLost(text, True, _):
            return f"{text}: raise spec.spark.driver.memory"
        case WorkerLost(text, _, executor_memory):
            return f"{text}: {_more_executor_memory(executor_memory)}"
        case DriverError(text):
            return text
        case DriverExited(code, log) if code == _KILLED:
            return f"the driver was killed (exit code {code}), by a user or by its node: {_log(log)}"
        case DriverExited(code, log):
            return f"the driver exited with code {code}: {_log(log)}"
        case LauncherFailure(message, log):
            return f"{launcher(message) or 'no reason given'}: {_log(log)}"


def _more_executor_memory(memory: str) -> str:
    return f"raise spec.spark.executor.memory (now {memory})"


def _log(log: DriverLog) -> str:
    if log.is_job:
        return f"kubectl logs job/{log.application} shows more"
    return f"the driver log of {log.application} shows more"


def launcher(message: LauncherMessage) -> str:
    """What the launcher says; empty for nothing."""
    match message:
        case UnknownState(name):
            return f"state {name} is not known to this operator"
        case NoResult():
            return "the application ended without a result"
        case str():
            return message


def batch_waiting(batch: OpenBatch, application: WaitingApplication) -> str:
    """An application that does not start."""
    return f"spec.spark: {_batch(batch)}: {application.name}: {joined(*map(waiting, application.causes))}"


def waiting(cause: WaitingCause) -> str:
    """Why an application does not start."""
    match cause:
        case NoSparkOperator(operator, namespace):
            return (
                f"no Spark operator handles it: install the {operator} Spark operator and let it watch namespace "
                f"{namespace}, or set spec.spark.launcher: Native"
            )
        case LauncherWaits(message):
            return launcher(message)
        case PodRejected(_, why) if why:
            return f"no driver pod exists: {refusal(why, labels.COMPONENT_SPARK)}"
        case PodRejected(application):
            return (
                "no driver pod exists: a quota or an admission policy rejects it, or the namespace has no service "
                f"account {labels.SPARK_SERVICE_ACCOUNT}; kubectl describe {application} and kubectl get "
                "resourcequota,serviceaccount show the cause"
            )
        case CannotStart(pods):
            return pods_failing(pods)
        case ContainerNotCreated(secret, key, needs):
            exists = f"Secret {secret} with key {key} exists, and that " if secret else ""
            volumes = f"; its volumes need {' and '.join(needs)}: create what is missing" if needs else ""
            return f"the driver's container is not created yet: check that {exists}the image can be pulled{volumes}"
        case NoExecutors(wanted, pods):
            return f"0 of {wanted} executors are running: " + (
                pods_failing(pods)
                or "the driver log shows the cause; where a quota rejects them, raise it, lower spec.spark.executor, "
                "set spec.spark.executor.cpuLimit if it limits CPU, or set spec.spark.mode: Local"
            )


def spark_behind(behind: Behind) -> str:
    """More files are pending than one batch takes."""
    more = (
        "spec.spark.driver.cores, or set spec.spark.mode: Executors"
        if behind.local
        else f"spec.spark.executor.instances (now {behind.executors})"
    )
    return (
        "more files are pending than one batch takes (status.spark.pendingFiles): files arrive faster than Spark "
        f"processes them. Raise {more}, or spec.spark.batch"
    )


def quarantined(found: QuarantineStatus) -> str:
    """Files and events that were left out."""
    files, rows = plural(found.files, "file"), plural(found.rows, "event")
    return f"left out so far: {files}, {rows} in other files; {found.message}"


# --- status.replay and status.spark.reprocess -------------------------------------------------------------------------


def replay_pending(wait: ReprocessWait | None, *, suspended: bool) -> str:
    """Why the Job of a replay or of reprocessing does not exist."""
    if suspended:
        return "spec.suspend is true"
    match wait:
        case None:
            return "the Job is being created"
        case ReprocessWait(committed=None):
            return "waiting for a host of this version to report the committed batches"
        case ReprocessWait(last, committed):
            return (
                f"batch {last} (spec.spark.reprocess.to) is not committed yet; the last committed batch is {committed}"
            )


def replay_running(
    problems: Iterable[HostProblem], failed: str, pods: Iterable[PodFailure], absent: Iterable[Missing] = ()
) -> str:
    """What delays a replay or reprocessing; empty for nothing.

    Args:
        problems: Problems that its host reports.
        failed: The termination message of the last failed attempt; empty for none.
        pods: Its pods that do not start.
        absent: Its pod, if it does not exist although it should for minutes.
    """
    attempt = f"an attempt failed: {failed}" if failed else ""
    return joined(*map(host_problem, problems), attempt, pods_failing(pods), *map(pods_missing, absent))


def replay_failed(job: str, message: LauncherMessage, failed: str = "") -> str:
    """The Job of a replay or of reprocessing failed.

    Args:
        job: Its name.
        message: What it says.
        failed: The termination message of the last failed attempt; empty for none.
    """
    return (
        f"{joined(launcher(message), failed)}; kubectl logs job/{job} shows the cause. When the Job is gone, a new Job "
        "continues where this one stopped"
    )
