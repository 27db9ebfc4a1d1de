"""Maps the error conditions and status codes of Event Hubs to the host's errors.

Only an AMQP condition, or the status code of `$cbs` and `$management`, decides. The description never does: it contains
names that users choose, such as the name of the hub. So do Microsoft's clients:
https://github.com/Azure/azure-sdk-for-net/blob/main/sdk/eventhub/Azure.Messaging.EventHubs/src/Amqp/AmqpError.cs
"""

import re

from eventconsumer_host.errors import (
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
# The texts of `amqp:link:stolen` name the other reader by its `RECEIVER_NAME`, or 'nil': the comment on this property
# in azeventhubs/partition_client.go of azure-sdk-for-go; without names, Azure/azure-event-hubs-spark, issue 496.
_TAKER = re.compile(
    r"New receiver '([ -&(-~]{1,64})' with higher epoch|Receiver '([ -&(-~]{1,64})' with a higher epoch '\d+' already"
)
RECEIVER_NAME = "com.microsoft:receiver-name"
"""The link property by which the service names a reader in its texts: a symbol as the key, a string as the value.

Source: azeventhubs/partition_client.go of azure-sdk-for-go; `receiverIdPropertyName` of @azure/event-hubs."""
RECEIVER_NAME_LENGTH = 64
"""Longest name, characters. Source: ReceiverOptions.Identifier of Microsoft.Azure.EventHubs (azure-sdk-for-net)."""
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


def taker_of(error: LinkStolen) -> str:
    """The name of the reader that took a link, for people; empty: it has none, or the text has another form."""
    found = _TAKER.search(str(error))
    name = (found[1] or found[2]) if found else ""
    return "" if name == "nil" else name
