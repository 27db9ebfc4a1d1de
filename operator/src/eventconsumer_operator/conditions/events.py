"""Kubernetes Events: what `kubectl describe` shows beside the status, written when something changes and not before.

Aggregated: one Event object for each resource, subject and reason, whose count, time and message move on when it
recurs, so that a resource that flaps fills no namespace. The reasons are fixed and documented in
docs/reference/events.md. Events are a courtesy: losing one harms nothing, so failures to write them are logged and
forgotten.
"""

import hashlib
from dataclasses import dataclass, field

import structlog

from eventconsumer_api.conditions import ConditionType, Reason
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.labels import FIELD_MANAGER
from eventconsumer_api.redaction import redact
from eventconsumer_api.status import Condition, EventConsumerStatus
from eventconsumer_operator.errors import Gone, OperatorError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import EVENT, EVENT_CONSUMER
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import Restart, restarts

_log = structlog.get_logger(__name__)

# Conditions people want to hear about, and the status that is a warning.
_ANNOUNCED = {
    ConditionType.READY: "",
    ConditionType.STALLED: "True",
    ConditionType.SPARK_HEALTHY: "False",
    ConditionType.DATA_GAP: "True",
}
_MESSAGE_LIMIT = 1024


@dataclass(frozen=True)
class News:
    """Something to tell about a resource.

    Attributes:
        subject: What it is about: a condition's type, or Pod.
        reason: One of the documented reasons.
        warning: Whether it is bad news.
        message: For people.
    """

    subject: str
    reason: str
    warning: bool
    message: str


def changes(previous: EventConsumerStatus, status: EventConsumerStatus) -> list[News]:
    """The announced conditions whose status or reason is new."""
    result = []
    for condition in status.conditions:
        before = previous.condition(condition.type)
        if condition.type not in _ANNOUNCED:
            continue
        warning = _is_warning(condition)
        if condition.type is not ConditionType.READY and not warning and not (before and _is_warning(before)):
            continue  # that nothing is wrong is news only where something was
        if before is None or (before.status, before.reason) != (condition.status, condition.reason):
            result.append(_of_condition(condition, warning=warning))
    return result


def _is_warning(condition: Condition) -> bool:
    # Files that were left out stay out, although processing continues.
    return condition.status == _ANNOUNCED[condition.type] or condition.reason == Reason.SPARK_QUARANTINED


def _of_condition(condition: Condition, *, warning: bool) -> News:
    return News(condition.type, condition.reason, warning, f"{condition.type}: {condition.message}")


def _of_restart(restart: Restart) -> News:
    return News("Pod", restart.reason, True, f"pod {restart.pod}: {restart.message}")


@dataclass
class _Memory:
    """What was told about one resource: how often by Event name, and which restarts."""

    counts: dict[str, int] = field(default_factory=dict)
    restarts: set[str] = field(default_factory=set)


class Recorder:
    """Writes Events and counts them. What it forgets with a restart of the operator, it reads from their answers."""

    def __init__(self, api: Api) -> None:
        """Write with `api`."""
        self._api = api
        self._memory: dict[Key, _Memory] = {}

    def forget(self, key: Key) -> None:
        """There is no such resource any more."""
        self._memory.pop(key, None)

    async def record(self, observed: Observed, status: EventConsumerStatus) -> None:
        """Announce what changed between the previous status and `status`, and restarts that were not announced."""
        memory = self._memory.setdefault(observed.consumer.key, _Memory())
        recent = restarts(observed.pods, observed.now)
        untold = [restart for restart in recent if restart.identity not in memory.restarts]
        memory.restarts = {restart.identity for restart in recent}
        for news in (*changes(observed.consumer.status, status), *map(_of_restart, untold)):
            try:
                await self._announce(observed, news, memory.counts)
            except OperatorError as error:
                key = observed.consumer.key
                _log.warning(
                    "failed to write a Kubernetes event; the conditions hold the same information",
                    namespace=key.namespace, name=key.name, reason=str(news.reason), error=str(error),
                )  # fmt: skip

    async def _announce(self, observed: Observed, news: News, counts: dict[str, int]) -> None:
        manifest = event(observed, news)
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        again = {field: manifest[field] for field in ("type", "message", "lastTimestamp")}
        if name not in counts:
            if await self._api.create(manifest) is not None:
                counts[name] = 1
                return
            # An operator before this one counted.
            found = await self._api.merge(EVENT, namespace, name, again)
            counts[name] = found.get("count") or 1
        try:
            await self._api.merge(EVENT, namespace, name, again | {"count": counts[name] + 1})
            counts[name] += 1
        except Gone:
            # Events live for an hour.
            await self._api.create(manifest)
            counts[name] = 1


def event(observed: Observed, news: News) -> Manifest:
    """The Event that tells the news for the first time."""
    consumer = observed.consumer
    when = observed.now.isoformat().replace("+00:00", "Z")
    identity = f"{consumer.uid}/{news.subject}/{news.reason}"
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {
            "name": f"{consumer.key.name}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
            "namespace": consumer.key.namespace,
        },
        "involvedObject": {
            "apiVersion": EVENT_CONSUMER.api_version,
            "kind": EVENT_CONSUMER.name,
            "namespace": consumer.key.namespace,
            "name": consumer.key.name,
            "uid": consumer.uid,
        },
        "type": "Warning" if news.warning else "Normal",
        "reason": news.reason,
        "message": redact(news.message)[:_MESSAGE_LIMIT],
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }
