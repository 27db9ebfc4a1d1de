"""Maps the error conditions and status codes of Event Hubs to the host's errors.

Only an AMQP condition, or the status code of `$cbs` and `$management`, decides. The description never does: it contains
names that users choose, such as the name of the hub. So do Microsoft's clients:
https://github.com/Azure/azure-sdk-for-net/blob/main/sdk/eventhub/Azure.Messaging.EventHubs/src/Amqp/AmqpError.cs
"""

from eventconsumer_processor.errors import (
    HubBusy,
    HubNotFound,
    HubUnauthorized,
    HubUnreachable,
    LinkStolen,
    PositionRefused,
    SourceError,
)

# AMQP 1.0, sections 2.8.15 to 2.8.18; those of the vendor: the source above, and `NO_RETRY_ERRORS` of azure-eventhub.
_CONDITIONS: dict[str, type[SourceError]] = {
    "amqp:link:stolen": LinkStolen,
    "amqp:not-found": HubNotFound,
    "amqp:resource-deleted": HubNotFound,
    "com.microsoft:entity-disabled": HubNotFound,
    "amqp:unauthorized-access": HubUnauthorized,
    "com.microsoft:auth-failed": HubUnauthorized,
    "com.microsoft:server-busy": HubBusy,
    # Usually the position of a link; `causes.is_about_position` tells the others apart, for messages.
    "com.microsoft:argument-error": PositionRefused,
    "com.microsoft:georeplication:invalid-offset": PositionRefused,
}
_STATUS: dict[int, type[SourceError]] = {
    401: HubUnauthorized,
    403: HubUnauthorized,
    404: HubNotFound,
    503: HubBusy,
}


def error_for(condition: str, text: str, status: int | None = None) -> SourceError:
    """The error for a condition, or for a status code if the condition says nothing.

    All others are `HubUnreachable`: the link must be opened again.

    Args:
        condition: The AMQP condition; may be empty.
        text: The error's text.
        status: The status code of a response; None for links and connections.
    """
    return (_CONDITIONS.get(condition) or _STATUS.get(status or 0, HubUnreachable))(text, condition, status)
