"""Maps error conditions and texts of Event Hubs to the host's errors."""

from eventconsumer_processor.errors import (
    HubNotFound,
    HubUnauthorized,
    HubUnreachable,
    LinkStolen,
    PositionRefused,
    SourceError,
)

_MISSING = ("not-found", "status code: 404", "resource-deleted", "entity-disabled")
# The position of a link is beyond the end of the partition: "The supplied offset '...' is invalid. The last offset in
# the system is '...'" (Azure/azure-event-hubs-python, issue 13).
_POSITION = "com.microsoft:argument-error"
_REFUSED = ("status code: 401", "status code: 403", "unauthorized-access", "auth-failed", "invalidsignature")


def error_for(condition: str, text: str) -> SourceError:
    """The error for an AMQP condition (may be empty) and the text of the service.

    All other conditions are `HubUnreachable`: the link must be opened again.
    """
    marks = f"{condition} {text}".lower()
    if "link:stolen" in marks:
        return LinkStolen(text)
    if condition == _POSITION:
        return PositionRefused(text)
    if any(mark in marks for mark in _MISSING):
        return HubNotFound(text)
    if any(mark in marks for mark in _REFUSED):
        return HubUnauthorized(text)
    return HubUnreachable(text)
