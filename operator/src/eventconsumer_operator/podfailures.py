"""Why pods do not start, as text for people. Pure.

Only what will not pass by itself counts: a container that is being created is no failure, an image that is not there
is.
"""

from collections.abc import Iterable, Iterator

from eventconsumer_operator.manifest import Manifest, is_being_deleted, name_of

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
        why = ended.get("message") or ended.get("reason", "")
        return f"the container ended with exit code {ended.get('exitCode')} ({why}); kubectl logs --previous shows why"
    return str(waiting.get("message") or f"image {container.get('image')}")
