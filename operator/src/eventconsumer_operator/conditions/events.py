"""Kubernetes Events: changes of conditions and restarts of pods, as `kubectl describe` shows them.

Events are aggregated: there is one Event object for each resource, subject and reason. When it recurs, its count, time
and message are updated, so a resource that flaps does not fill its namespace. The reasons are documented in
docs/reference/events.md. Events are best effort: a failure to write one is logged, and it is not retried.
"""

import hashlib
from dataclasses import dataclass, field

import structlog

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.labels import FIELD_MANAGER
from eventconsumer_api.shared.redaction import redact
from eventconsumer_api.shared.terminal import clean_line
from eventconsumer_api.spec.conditions import ConditionType, Reason
from eventconsumer_api.v1alpha1.status import Condition, EventConsumerStatus
from eventconsumer_operator.conditions.messages import restart_event
from eventconsumer_operator.errors import Gone, OperatorError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.api import Api
from eventconsumer_operator.kube.manifest import EVENT, EVENT_CONSUMER
from eventconsumer_operator.resource.observed import Observed
from eventconsumer_operator.resource.podfailures import Restart, restarts

log = structlog.get_logger(__name__)

ANNOUNCED = {
    ConditionType.READY: "",
    ConditionType.STALLED: "True",
    ConditionType.SPARK_HEALTHY: "False",
    ConditionType.DATA_GAP: "True",
    ConditionType.BODIES_UNREADABLE: "True",
}
"""Conditions whose changes are Events, and the status that is a warning; empty: none is."""
_MESSAGE_LIMIT = 1024


@dataclass(frozen=True)
class News:
    """The content of an Event.

    Attributes:
        subject: A condition's type, or Pod.
        reason: One of the documented reasons.
        warning: Whether its type is Warning; else Normal.
        message: Its message.
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
        if condition.type not in ANNOUNCED:
            continue
        warning = _is_warning(condition)
        if condition.type is not ConditionType.READY and not warning and not (before and _is_warning(before)):
            continue  # a good state is an Event only after a warning
        if before is None or (before.status, before.reason) != (condition.status, condition.reason):
            result.append(_of_condition(condition, warning=warning))
    return result


def _is_warning(condition: Condition) -> bool:
    # Quarantined files stay unprocessed although processing continues.
    return condition.status == ANNOUNCED[condition.type] or condition.reason == Reason.SPARK_QUARANTINED


def _of_condition(condition: Condition, *, warning: bool) -> News:
    return News(condition.type, condition.reason, warning, f"{condition.type}: {condition.message}")


def _of_restart(restart: Restart) -> News:
    return News("Pod", restart.reason, True, restart_event(restart))


@dataclass
class _Memory:
    """Events of one resource that were written: counts by Event name, and identities of restarts."""

    counts: dict[str, int] = field(default_factory=dict)
    restarts: frozenset[str] = frozenset()

    def new_restarts(self, recent: tuple[Restart, ...]) -> list[Restart]:
        """Those that were not recent before; they are remembered."""
        before, self.restarts = self.restarts, frozenset(each.identity for each in recent)
        return [each for each in recent if each.identity not in before]


class Recorder:
    """Writes Events and counts them. After a restart of the operator, counts are read from the API server."""

    def __init__(self, api: Api) -> None:
        """Write with `api`."""
        self._api = api
        self._memory: dict[Key, _Memory] = {}

    def forget(self, key: Key) -> None:
        """Forget a resource that was deleted."""
        self._memory.pop(key, None)

    async def record(self, observed: Observed, status: EventConsumerStatus) -> None:
        """Write Events for changes since the previous status, and for restarts without an Event."""
        memory = self._memory.setdefault(observed.consumer.key, _Memory())
        recent = restarts(observed.pods, observed.now)
        unrecorded = memory.new_restarts(recent)
        for news in (*changes(observed.consumer.status, status), *map(_of_restart, unrecorded)):
            try:
                await self._announce(observed, news, memory.counts)
            except OperatorError as error:
                key = observed.consumer.key
                log.warning(
                    "failed to write a Kubernetes event; the conditions hold the same information",
                    namespace=key.namespace,
                    name=key.name,
                    reason=str(news.reason),
                    error=str(error),
                )

    async def _announce(self, observed: Observed, news: News, counts: dict[str, int]) -> None:
        manifest = event(observed, news)
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        again = {field: manifest[field] for field in ("type", "message", "lastTimestamp")}
        if name not in counts:
            if await self._api.create(manifest) is not None:
                counts[name] = 1
                return
            # An earlier operator process wrote it.
            found = await self._api.merge(EVENT, namespace, name, again)
            counts[name] = found.get("count") or 1
        try:
            await self._api.merge(EVENT, namespace, name, again | {"count": counts[name] + 1})
            counts[name] += 1
        except Gone:
            # The API server deletes Events after an hour.
            await self._api.create(manifest)
            counts[name] = 1


def event(observed: Observed, news: News) -> Manifest:
    """The Event as it is first written."""
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
        "message": clean_line(redact(news.message))[:_MESSAGE_LIMIT],
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }
