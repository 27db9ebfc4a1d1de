"""Why pods do not start and why they were restarted, as facts. Pure.

A failure does not pass without an action: a container that is being created is no failure, a missing image is one. A
restart is reported for ten minutes, with the change that would prevent the next one. `conditions.messages` has the
sentences.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.spec.conditions import PodReason
from eventconsumer_operator.kube.manifest import is_being_deleted, name_of

_WAITING_FAILURES = {
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "CrashLoopBackOff",
}
RECENT = timedelta(minutes=10)
OVERDUE = timedelta(seconds=60)
"""A pod that is being deleted ends within its grace period, on a node that works: then the kubelet kills it."""
# A host is ready within seconds of its start; pulling an image or adding a node takes longer.
SLOW = timedelta(minutes=3)
# Default of progressDeadlineSeconds of a Deployment, after which Kubernetes reports no progress
# (kubernetes.io/docs/concepts/workloads/controllers/deployment/#progress-deadline-seconds).
STUCK = timedelta(minutes=10)
# Messages of the kubelet about a variable without a source (makeEnvironmentVariables in pkg/kubelet/kubelet_pods.go).
# The kind is in the singular or the plural. About a volume without a source, the status of a pod says nothing.
_MISSING = re.compile(r"(configmaps?|secrets?) \".*\" not found|couldn't find key .* in (ConfigMap|Secret) ")
_STOPPED_CODES = {0, 143}  # of a container that was stopped: it ended by itself or by SIGTERM
_KILLED_CODE = 137  # SIGKILL: of a user, of the node, or of the kubelet after the grace period
_POD_REASONS = {"Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting"}
_DISRUPTIONS = {
    "DeletionByTaintManager": PodReason.NODE_LOST,
    "EvictionByEvictionAPI": PodReason.EVICTED,
    "PreemptionByScheduler": PodReason.EVICTED,
    "TerminationByKubelet": PodReason.EVICTED,
}


class PodCause(Enum):
    """Cause of a pod that does not start."""

    ENDED = "ended"  # the pod has failed
    UNSCHEDULABLE = "unschedulable"  # no node fits
    WAITING = "waiting"  # the kubelet cannot start a container
    INPUT_MISSING = "input missing"  # a variable comes from a ConfigMap, a Secret or a key that does not exist
    CRASHED = "crashed"  # a container ends again and again
    OUT_OF_MEMORY = "out of memory"  # a container ends again and again because of its memory limit


@dataclass(frozen=True)
class PodFailure:
    """A pod that does not start, for a reason that does not pass without an action.

    Attributes:
        pod: Name of the pod.
        cause: What kind of failure.
        reason: The reason that Kubernetes gives, such as ImagePullBackOff.
        text: What Kubernetes or the container said; empty for nothing.
        image: Image of the container.
        exit_code: Exit code of the container's last run.
    """

    pod: str
    cause: PodCause
    reason: str
    text: str = ""
    image: str = ""
    exit_code: int | None = None


class PodStage(Enum):
    """How far the start of a pod is that is not ready."""

    UNSCHEDULED = "unscheduled"  # no scheduler has assigned a node or said why it cannot
    CREATING = "creating"  # the kubelet waits for volumes, the network or the image
    RUNNING = "running"  # the container runs


@dataclass(frozen=True)
class UnreadyPod:
    """A pod that is not ready, and whose status does not say why.

    Attributes:
        pod: Name of the pod.
        since: Since when, as the API server writes times.
        stage: How far its start is.
        slow: Whether it has not been ready for minutes.
        stuck: Whether it has not been ready for so long that an action is needed.
        needs: Objects without which its volumes cannot be mounted, such as ConfigMap shop; empty if they are mounted.
    """

    pod: str
    since: str
    stage: PodStage = PodStage.RUNNING
    slow: bool = False
    stuck: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Restart:
    """A container was restarted, or the cluster terminates the pod.

    Attributes:
        pod: Name of the pod.
        identity: Identifies the restart across reconciles.
        reason: What happened.
        text: What Kubernetes or the container said; empty for nothing.
        exit_code: Exit code of the container; None for a pod that is terminated.
    """

    pod: str
    identity: str
    reason: PodReason
    text: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class StuckPod:
    """A pod that is being deleted and does not end, because its node does not answer.

    Attributes:
        pod: Name of the pod.
        node: Name of its node; empty: unknown.
        since: When its grace period was over.
    """

    pod: str
    node: str
    since: datetime

    @property
    def ordinal(self) -> int:
        """Its ordinal, of a pod of a StatefulSet."""
        return int(self.pod.rpartition("-")[2])


def stuck_pods(pods: Iterable[Manifest], now: datetime) -> tuple[StuckPod, ...]:
    """The pods that are being deleted beyond their grace period, by name.

    No controller replaces such a pod: only the kubelet of its node, or a user, can confirm that it has ended. The
    deletionTimestamp is the end of the grace period:
    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/
    """
    return tuple(
        StuckPod(name_of(pod), pod.get("spec", {}).get("nodeName", ""), since)
        for pod in sorted(pods, key=name_of)
        if is_being_deleted(pod)
        and now - (since := datetime.fromisoformat(pod["metadata"]["deletionTimestamp"])) >= OVERDUE
    )


def ordinals(wanted: int, pods: Iterable[Manifest], now: datetime) -> int:
    """Replicas of a StatefulSet with which `wanted` pods run although some pods do not end.

    A StatefulSet does not replace a pod that is being deleted: its node may run it still. Leases and fences in storage
    make two hosts safe, so another ordinal replaces it.
    """
    replicas = wanted
    for ordinal in sorted(each.ordinal for each in stuck_pods(pods, now)):
        replicas += int(ordinal < replicas)
    return replicas


def is_unstartable(pod: Manifest) -> bool:
    """Whether a container of the pod cannot start, for a reason that does not pass without an action."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    waiting = (container.get("state", {}).get("waiting", {}).get("reason") for container in containers)
    return not is_being_deleted(pod) and any(reason in _WAITING_FAILURES for reason in waiting)


def pod_failures(pods: Iterable[Manifest]) -> tuple[PodFailure, ...]:
    """The first failure of each pod, by pod name."""
    found = (next(_failures(pod), None) for pod in sorted(pods, key=name_of) if not is_being_deleted(pod))
    return tuple(failure for failure in found if failure)


def out_of_memory(pod: Manifest) -> bool:
    """Whether a container of the pod was killed because it exceeded its memory limit."""
    return any(ended.get("reason") == "OOMKilled" for ended in _terminated(pod))


def termination_message(pod: Manifest) -> str:
    """The termination message of a container; empty for none."""
    return next((text for ended in _terminated(pod) if (text := ended.get("message", "").strip())), "")


def disruption(pod: Manifest) -> str:
    """Why the cluster, not its owner, terminated the pod (for example a drained node); empty for no disruption."""
    status = pod.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return str(condition.get("message") or condition.get("reason", ""))
    return f"{status['reason']}: {status.get('message', '')}" if status.get("reason") in _POD_REASONS else ""


def _terminated(pod: Manifest) -> Iterator[Manifest]:
    for container in pod.get("status", {}).get("containerStatuses", []):
        if ended := container.get("state", {}).get("terminated"):
            yield ended


def unready_pods(pods: Iterable[Manifest], now: datetime, needs: tuple[str, ...] = ()) -> tuple[UnreadyPod, ...]:
    """Pods that are not ready, and are none of `pod_failures`; those that have not been ready for long come first.

    Their status does not say why. The kubelet's events do, but the operator has no permission to read them.

    Args:
        pods: The pods.
        now: The time.
        needs: Objects that their volumes need.
    """
    found = []
    for pod in sorted(pods, key=name_of):
        if since := _unready_since(pod):
            age = now - datetime.fromisoformat(since)
            waits = needs if age >= SLOW and _waits_for_volumes(pod) else ()
            found.append(UnreadyPod(name_of(pod), since, _stage(pod), age >= SLOW, age >= STUCK, waits))
    return tuple(sorted(found, key=lambda each: not each.slow))


def _stage(pod: Manifest) -> PodStage:
    status = pod.get("status", {})
    if status.get("phase", "Pending") != "Pending":
        return PodStage.RUNNING
    scheduled = any(each["type"] == "PodScheduled" for each in status.get("conditions", []))
    return PodStage.CREATING if scheduled or status.get("containerStatuses") else PodStage.UNSCHEDULED


def _waits_for_volumes(pod: Manifest) -> bool:
    """Whether the kubelet has not created the container yet: it waits for volumes, the network or the image."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    return any(each.get("state", {}).get("waiting", {}).get("reason") == "ContainerCreating" for each in containers)


def is_ready(pod: Manifest) -> bool:
    """Whether the kubelet reports the pod as ready."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def ready_since(pod: Manifest) -> datetime | None:
    """Since when the kubelet reports the pod as ready; None: it is not."""
    for each in pod.get("status", {}).get("conditions", []):
        if each["type"] == "Ready" and each["status"] == "True":
            since = each.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp")
            return datetime.fromisoformat(since) if since else None
    return None


def _unready_since(pod: Manifest) -> str:
    """Since when a pod is not ready, as the API server writes times.

    Empty where the pod is ready, is being deleted, or says why it is not ready.
    """
    if is_ready(pod) or is_being_deleted(pod) or any(_failures(pod)):
        return ""
    conditions = {condition["type"]: condition for condition in pod.get("status", {}).get("conditions", [])}
    since = conditions.get("Ready", {}).get("lastTransitionTime")
    return str(since or pod["metadata"].get("creationTimestamp", ""))


def restarts(pods: Iterable[Manifest], now: datetime) -> tuple[Restart, ...]:
    """Restarts and disruptions of the last ten minutes, by pod name."""
    return tuple(
        restart
        for pod in sorted(pods, key=name_of)
        for when, restart in (*_ended(pod), *_disrupted(pod))
        if now - when <= RECENT
    )


def _failures(pod: Manifest) -> Iterator[PodFailure]:
    status, name = pod.get("status", {}), name_of(pod)
    if status.get("phase") == "Failed":
        yield PodFailure(name, PodCause.ENDED, status.get("reason", "Failed"), status.get("message", ""))
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            reason, text = condition.get("reason", "Unschedulable"), condition.get("message", "")
            yield PodFailure(name, PodCause.UNSCHEDULABLE, reason, text)
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _WAITING_FAILURES:
            yield _waiting(name, container, waiting)


def _waiting(name: str, container: Manifest, waiting: Manifest) -> PodFailure:
    reason = waiting["reason"]
    ended = container.get("lastState", {}).get("terminated", {})
    if reason == "CrashLoopBackOff" and ended:
        # The kubelet's "back-off 5m0s restarting …" explains nothing; the end of the last run does.
        if ended.get("reason") == "OOMKilled":
            return PodFailure(name, PodCause.OUT_OF_MEMORY, reason)
        text = ended.get("message") or ended.get("reason", "")
        return PodFailure(name, PodCause.CRASHED, reason, text, exit_code=ended.get("exitCode"))
    text = waiting.get("message", "")
    if reason == "CreateContainerConfigError" and _MISSING.search(text):
        return PodFailure(name, PodCause.INPUT_MISSING, reason, text)
    return PodFailure(name, PodCause.WAITING, reason, text, image=container.get("image", ""))


def _ended(pod: Manifest) -> Iterator[tuple[datetime, Restart]]:
    """Containers that ended and were started again."""
    for container in pod.get("status", {}).get("containerStatuses", []):
        ended = container.get("lastState", {}).get("terminated")
        if not ended or not ended.get("finishedAt"):
            continue
        identity = f"{pod['metadata'].get('uid')}/{container.get('restartCount')}/{ended['finishedAt']}"
        text = ended.get("message") or ended.get("reason") or ""
        restart = Restart(name_of(pod), identity, _why_ended(ended), text, ended.get("exitCode"))
        yield datetime.fromisoformat(ended["finishedAt"]), restart


def _why_ended(ended: Manifest) -> PodReason:
    if ended.get("reason") == "OOMKilled":
        return PodReason.OUT_OF_MEMORY
    if ended.get("exitCode") == _KILLED_CODE:
        return PodReason.KILLED
    # Only the kubelet stops a container while its pod stays.
    return PodReason.PROBE_FAILED if ended.get("exitCode") in _STOPPED_CODES else PodReason.EXITED


def _disrupted(pod: Manifest) -> Iterator[tuple[datetime, Restart]]:
    """Pods that the cluster, not their owner, terminates."""
    status = pod.get("status", {})
    for condition in status.get("conditions", []):
        reason = _DISRUPTIONS.get(condition.get("reason", ""))
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True" and reason:
            text = condition.get("message") or status.get("message") or condition["reason"]
            identity = f"{pod['metadata'].get('uid')}/{condition['reason']}"
            when = datetime.fromisoformat(condition["lastTransitionTime"])
            yield when, Restart(name_of(pod), identity, reason, text)
