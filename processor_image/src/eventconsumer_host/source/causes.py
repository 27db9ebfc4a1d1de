"""The cause and the remedy for the errors of Event Hubs, as `eventconsumer_storage.causes` has them for storage. Pure.

Conditions: AMQP 1.0, sections 2.8.15 to 2.8.18, and those of the vendor, which learn.microsoft.com/java/api/
com.azure.core.amqp.exception.amqperrorcondition describes; the status code of each: `ConditionStatusMapper` of @azure/
core-amqp. Quotas: learn.microsoft.com/azure/event-hubs/event-hubs-quotas.

A description selects only words for the user, never what a host does. It is compared with phrases that no name of a
hub, a consumer group or a policy can have, because they have spaces or a colon. Sources of the phrases:
learn.microsoft.com/azure/event-hubs/event-hubs-ip-filtering (401, "Ip has been prevented to connect"), and issues
9601 and 15607 of Azure/azure-sdk-for-js (ExpiredToken, also where a clock is behind by hours).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from eventconsumer_api.spec.conditions import Reason
from eventconsumer_host.errors import HubBusy, HubUnauthorized, PositionRefused, SourceError


class HubField(StrEnum):
    """What of the resource the user may have to change."""

    HUB = "name"
    GROUP = "consumerGroup"
    NAMESPACE = "fullyQualifiedNamespace"
    CREDENTIAL = "credential"


@dataclass(frozen=True, slots=True)
class HubCause:
    """Why Event Hubs refuses a request.

    Attributes:
        text: The cause; it completes "Event Hubs refuses a request because …".
        remedy: What the user can do.
        reason: The reason of the condition.
        place: Its field.
    """

    text: str
    remedy: str
    reason: Reason
    place: HubField


_SERVICE = "the host retries; if this lasts, check Azure's service health, and give Azure's support the tracking id"

CAUSES: Mapping[str, HubCause] = {
    "com.microsoft:entity-disabled": HubCause(
        "the Event Hub is disabled",
        "set its status to Active, in its properties in the portal or by az eventhubs eventhub update --status Active",
        Reason.EVENT_HUB_REFUSED,
        HubField.HUB,
    ),
    "amqp:resource-limit-exceeded": HubCause(
        "a quota is used up",
        "stop other readers of this consumer group (at most 5 for each partition), or other connections of the "
        "namespace, or use a higher tier",
        Reason.EVENT_HUB_REFUSED,
        HubField.GROUP,
    ),
    "amqp:not-allowed": HubCause(
        "the namespace or its tier does not allow it",
        "read its text, and change the tier or the setting that it names",
        Reason.EVENT_HUB_REFUSED,
        HubField.HUB,
    ),
    "com.microsoft:argument-error": HubCause(
        "it refuses an argument", "correct the value that its text names", Reason.EVENT_HUB_REFUSED, HubField.HUB
    ),
    "com.microsoft:argument-out-of-range": HubCause(
        "it refuses an argument", "correct the value that its text names", Reason.EVENT_HUB_REFUSED, HubField.HUB
    ),
    "amqp:internal-error": HubCause(
        "it has an internal error", _SERVICE, Reason.EVENT_HUB_UNREACHABLE, HubField.NAMESPACE
    ),
    "com.microsoft:timeout": HubCause(
        "it did not complete the request in time", _SERVICE, Reason.EVENT_HUB_UNREACHABLE, HubField.NAMESPACE
    ),
    "com.microsoft:server-busy": HubCause(
        "it limits the requests of this namespace",
        "add throughput units, or reduce the number of readers; the host waits and retries",
        Reason.EVENT_HUB_UNREACHABLE,
        HubField.HUB,
    ),
}
_STATUS: Mapping[int, HubCause] = {
    403: HubCause(
        "the credential lacks the right Listen, or a quota of the namespace is used up",
        "grant the right, or stop other readers and connections",
        Reason.EVENT_HUB_UNAUTHORIZED,
        HubField.CREDENTIAL,
    ),
    408: CAUSES["com.microsoft:timeout"],
    500: CAUSES["amqp:internal-error"],
    503: CAUSES["com.microsoft:server-busy"],
}
# Of errors about a credential, which share one condition and one status.
_PHRASES: Mapping[str, HubCause] = {
    "Ip has been prevented to connect": HubCause(
        "its network rules do not admit this cluster",
        "admit the cluster's subnet, address or private endpoint in the networking settings of the namespace",
        Reason.EVENT_HUB_UNREACHABLE,
        HubField.NAMESPACE,
    ),
    "ExpiredToken:": HubCause(
        "the token has expired, although hosts use new ones: the clock of the node is wrong, or the signature in the "
        "Secret has expired",
        "set the node's time (NTP), or create a new signature",
        Reason.EVENT_HUB_UNAUTHORIZED,
        HubField.CREDENTIAL,
    ),
    "the shared access signature has expired": HubCause(  # says this host: cbs.ready_made
        "the signature in the Secret has expired",
        "create a new one, and put it into the Secret",
        Reason.EVENT_HUB_UNAUTHORIZED,
        HubField.CREDENTIAL,
    ),
    "InvalidSignature:": HubCause(
        "the key is wrong, or was renewed",
        "copy the connection string from the portal into the Secret again",
        Reason.EVENT_HUB_UNAUTHORIZED,
        HubField.CREDENTIAL,
    ),
}


def cause_of(error: SourceError) -> HubCause | None:
    """The cause of a failed request; None if nothing tells it, or a class of errors has its own message."""
    text = str(error)
    if isinstance(error, HubUnauthorized):
        found = next((cause for phrase, cause in _PHRASES.items() if phrase in text), None)
        return found or (_STATUS[403] if error.status == 403 else None)
    if isinstance(error, PositionRefused) and is_about_position(error):
        return None
    busy = CAUSES["com.microsoft:server-busy"] if isinstance(error, HubBusy) else None
    return CAUSES.get(error.condition) or _STATUS.get(error.status or 0) or busy


def is_about_position(error: PositionRefused) -> bool:
    """Whether a refused argument is the position of the link, as far as the text tells: others are possible.

    "The supplied offset '…' is invalid. The last offset in the system is '…'" (Azure/azure-event-hubs-python, issue
    13), and the same about sequence numbers.
    """
    text = str(error).lower()
    named = "the supplied offset" in text or "the supplied sequence number" in text
    return named or error.condition != "com.microsoft:argument-error"
