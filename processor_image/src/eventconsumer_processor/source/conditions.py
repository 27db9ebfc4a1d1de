"""Maps error conditions and texts of Event Hubs to the host's errors."""

import re

from eventconsumer_processor.errors import (
    HubNotFound,
    HubUnauthorized,
    HubUnreachable,
    LinkStolen,
    PositionRefused,
    SourceError,
)

_MISSING = ("not-found", "status code: 404", "resource-deleted", "entity-disabled")
# The text as published by users: Azure/azure-event-hubs-spark issue 315, Azure/azure-sdk-for-java issue 10215.
_BEYOND = re.compile(r"the supplied (sequence number|offset) '[^']*' is invalid\. the last \1 in the system is")
_REFUSED = ("status code: 401", "status code: 403", "unauthorized-access", "auth-failed", "invalidsignature")


def error_for(condition: str, text: str) -> SourceError:
    """The error for an AMQP condition (may be empty) and the text of the service.

    All other conditions are `HubUnreachable`: the link must be opened again.
    """
    marks = f"{condition} {text}".lower()
    if "link:stolen" in marks:
        return LinkStolen(text)
    if _BEYOND.search(marks):
        return PositionRefused(text)
    if any(mark in marks for mark in _MISSING):
        return HubNotFound(text)
    if any(mark in marks for mark in _REFUSED):
        return HubUnauthorized(text)
    return HubUnreachable(text)
