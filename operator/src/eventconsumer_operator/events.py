"""Kubernetes Events: what `kubectl describe` shows beside the status, written when a condition changes and not before.

Events are a courtesy: losing one harms nothing, so failures to write them are logged and forgotten.
"""

import hashlib
import logging

from eventconsumer_api.conditions import ConditionType
from eventconsumer_api.labels import FIELD_MANAGER
from eventconsumer_api.status import Condition, EventConsumerStatus
from eventconsumer_operator.api import Api
from eventconsumer_operator.errors import OperatorError
from eventconsumer_operator.manifest import EVENT, EVENT_CONSUMER, Manifest
from eventconsumer_operator.observed import Observed

_log = logging.getLogger(__name__)

# Conditions people want to hear about, and the status that is a warning.
_ANNOUNCED = {ConditionType.READY: "", ConditionType.STALLED: "True", ConditionType.SPARK_HEALTHY: "False"}


def changes(previous: EventConsumerStatus, status: EventConsumerStatus) -> list[Condition]:
    """The announced conditions whose status or reason is new."""
    result = []
    for condition in status.conditions:
        before = previous.condition(condition.type)
        if condition.type not in _ANNOUNCED:
            continue
        if before is None and condition.type is not ConditionType.READY and not _is_warning(condition):
            continue  # that nothing is wrong with a new resource is no news
        if before is None or (before.status, before.reason) != (condition.status, condition.reason):
            result.append(condition)
    return result


def event(observed: Observed, condition: Condition) -> Manifest:
    """The Event that announces a condition."""
    consumer = observed.consumer
    when = observed.now.isoformat().replace("+00:00", "Z")
    identity = f"{consumer.uid}{condition.type}{condition.status}{condition.reason}{when}"
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
        "type": "Warning" if _is_warning(condition) else "Normal",
        "reason": condition.reason,
        "message": f"{condition.type}: {condition.message}"[:1024],
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }


async def record(api: Api, observed: Observed, status: EventConsumerStatus) -> None:
    """Announce what changed between the previous status and `status`."""
    for condition in changes(observed.consumer.status, status):
        try:
            await api.create(event(observed, condition))
        except OperatorError as error:
            _log.warning("%s: event %s not written: %s", observed.consumer.key, condition.reason, error)


def _is_warning(condition: Condition) -> bool:
    return condition.status == _ANNOUNCED[condition.type]
