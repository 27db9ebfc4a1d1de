"""Why pods do not start and why they were restarted, as text for people. Pure.

A failure is what will not pass by itself: a container that is being created is none, an image that is not there is
one. A restart is over when it is seen; it is told for a while, with what would prevent the next one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from eventconsumer_api.conditions import PodReason
from eventconsumer_api.kinds import Manifest
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
_MESSAGE_LIMIT = 300
RECENT = timedelta(minutes=10)
# A host is ready within seconds of its start; to pull an image or to add a node takes longer.
SLOW = timedelta(minutes=3)
# How a container ends that was told to: by itself, by SIGTERM, or by SIGKILL at the end of its grace time.
_STOPPED_CODES = {0, 137, 143}
_POD_REASONS = {"Evicted", "NodeLost", "NodeShutdown", "Terminated", "Preempting"}
_DISRUPTIONS = {
    "DeletionByTaintManager": PodReason.NODE_LOST,
    "EvictionByEvictionAPI": PodReason.EVICTED,
    "PreemptionByScheduler": PodReason.EVICTED,
    "TerminationByKubelet": PodReason.EVICTED,
}


@dataclass(frozen=True)
class Restart:
    """A pod's container ended, or the pod is made to go.

    Attributes:
        pod: Name of the pod.
        identity: The same for the same restart, however often it is seen.
        reason: What happened.
        message: What happened and what would prevent it, for people.
    """

    pod: str
    identity: str
    reason: PodReason
    message: str


def is_unstartable(pod: Manifest) -> bool:
    """Whether a container of the pod cannot start, for a reason that does not pass by itself."""
    containers = pod.get("status", {}).get("containerStatuses", [])
    waiting = (container.get("state", {}).get("waiting", {}).get("reason") for container in containers)
    return not is_being_deleted(pod) and any(reason in _WAITING_FAILURES for reason in waiting)


def pod_failures(pods: Iterable[Manifest]) -> tuple[str, ...]:
    """One sentence for each distinct reason, naming the first pod that has it and how many share it."""
    found: dict[str, list[tuple[str, str]]] = {}
    for pod in sorted(pods, key=name_of):
        if is_being_deleted(pod):
            continue
        for reason, message in _failures(pod):
            found.setdefault(reason, []).append((name_of(pod), message))
            break
    return tuple(_sentence(reason, affected) for reason, affected in sorted(found.items()))


def out_of_memory(pod: Manifest) -> bool:
    """Whether a container of the pod ended because it needed more memory than its limit."""
    return any(ended.get("reason") == "OOMKilled" for ended in _terminated(pod))


def termination_message(pod: Manifest) -> str:
    """What a container said when it ended; empty for nothing."""
    return next((text for ended in _terminated(pod) if (text := ended.get("message", "").strip())), "")


def disruption(pod: Manifest) -> str:
    """What made the pod go, where that was not its owner: a drained node, say; empty for nothing."""
    status = pod.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            return str(condition.get("message") or condition.get("reason", ""))
    return f"{status['reason']}: {status.get('message', '')}" if status.get("reason") in _POD_REASONS else ""


def _terminated(pod: Manifest) -> Iterator[Manifest]:
    for container in pod.get("status", {}).get("containerStatuses", []):
        if ended := container.get("state", {}).get("terminated"):
            yield ended


def slow_pods(pods: Iterable[Manifest], now: datetime) -> tuple[str, ...]:
    """One sentence about the pods that have not been ready for long, and are none of `pod_failures`.

    Their status does not say why; the kubelet's events do, and the operator may not read those.
    """
    slow = [
        (name_of(pod), since)
        for pod in sorted(pods, key=name_of)
        if (since := _unready_since(pod)) and now - datetime.fromisoformat(since) >= SLOW
    ]
    if not slow:
        return ()
    name, since = slow[0]
    others = f" (and {len(slow) - 1} more)" if len(slow) > 1 else ""
    return (f"pod {name}{others} is not ready since {since}: kubectl describe pod {name} shows why",)


def _unready_since(pod: Manifest) -> str:
    """Since when a pod is not ready, as the API server writes times; empty: it is, or says why not, or it goes."""
    conditions = {condition["type"]: condition for condition in pod.get("status", {}).get("conditions", [])}
    ready = conditions.get("Ready", {})
    if ready.get("status") == "True" or is_being_deleted(pod) or any(_failures(pod)):
        return ""
    return str(ready.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp", ""))


def restarts(pods: Iterable[Manifest], now: datetime) -> tuple[Restart, ...]:
    """What made pods end within the last minutes, by pod name."""
    return tuple(
        restart
        for pod in sorted(pods, key=name_of)
        for when, restart in (*_ended(pod), *_disrupted(pod))
        if now - when <= RECENT
    )


def restart_texts(found: Iterable[Restart]) -> tuple[str, ...]:
    """One sentence for each distinct reason of restarts."""
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for restart in found:
        by_reason.setdefault(restart.reason, []).append((restart.pod, restart.message))
    return tuple(_sentence(reason, affected) for reason, affected in sorted(by_reason.items()))


def _sentence(reason: str, affected: list[tuple[str, str]]) -> str:
    name, message = affected[0]
    others = f" (and {len(affected) - 1} more)" if len(affected) > 1 else ""
    return f"pod {name}{others}: {reason}: {message[:_MESSAGE_LIMIT]}"


def _failures(pod: Manifest) -> Iterator[tuple[str, str]]:
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        yield status.get("reason", "Failed"), status.get("message", "the pod ended")
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            yield condition.get("reason", "Unschedulable"), condition.get("message", "no node takes the pod")
    for container in status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _WAITING_FAILURES:
            yield waiting["reason"], _explain(container, waiting)


def _explain(container: Manifest, waiting: Manifest) -> str:
    ended = container.get("lastState", {}).get("terminated", {})
    if waiting["reason"] == "CrashLoopBackOff" and ended:
        # "back-off 5m0s restarting …" counts up and explains nothing; how the last run ended does.
        if ended.get("reason") == "OOMKilled":
            return _OUT_OF_MEMORY
        why = ended.get("message") or ended.get("reason", "")
        return f"the container ended with exit code {ended.get('exitCode')} ({why}); kubectl logs --previous shows why"
    return str(waiting.get("message") or f"image {container.get('image')}")


_OUT_OF_MEMORY = (
    "the container needed more memory than its limit and was killed: raise spec.pods.resources.limits.memory"
)


def _ended(pod: Manifest) -> Iterator[tuple[datetime, Restart]]:
    """Containers that ended and were started again."""
    for container in pod.get("status", {}).get("containerStatuses", []):
        ended = container.get("lastState", {}).get("terminated")
        if not ended or not ended.get("finishedAt"):
            continue
        reason, message = _why_ended(ended)
        identity = f"{pod['metadata'].get('uid')}/{container.get('restartCount')}/{ended['finishedAt']}"
        yield datetime.fromisoformat(ended["finishedAt"]), Restart(name_of(pod), identity, reason, message)


def _why_ended(ended: Manifest) -> tuple[PodReason, str]:
    code = ended.get("exitCode")
    if ended.get("reason") == "OOMKilled":
        return PodReason.OUT_OF_MEMORY, _OUT_OF_MEMORY
    if code in _STOPPED_CODES:
        # Nobody but the kubelet tells a host to end while its pod stays.
        return PodReason.PROBE_FAILED, (
            f"the kubelet stopped the container (exit code {code}), as it does when the liveness probe fails: "
            "kubectl logs --previous shows what kept it from answering; if it lacked processor time, raise "
            "spec.pods.resources.requests.cpu"
        )
    why = ended.get("message") or ended.get("reason") or "no reason given"
    return PodReason.EXITED, (
        f"the container ended with exit code {code} ({why[:100]}): kubectl logs --previous shows why"
    )


def _disrupted(pod: Manifest) -> Iterator[tuple[datetime, Restart]]:
    """Pods that something other than their owner makes go."""
    status = pod.get("status", {})
    for condition in status.get("conditions", []):
        reason = _DISRUPTIONS.get(condition.get("reason", ""))
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True" and reason:
            what = condition.get("message") or status.get("message") or condition["reason"]
            identity = f"{pod['metadata'].get('uid')}/{condition['reason']}"
            remedy = (
                "its partitions move when the pod is certainly gone: bring the node back, or delete its Node object"
                if reason is PodReason.NODE_LOST
                else "another pod takes its place; raise its requests in spec.pods.resources if the node ran short"
            )
            when = datetime.fromisoformat(condition["lastTransitionTime"])
            yield when, Restart(name_of(pod), identity, reason, f"{what}: {remedy}")
