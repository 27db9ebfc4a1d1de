"""What went wrong at a hub, by the conditions and texts that Event Hubs gives: the error of our tree for each."""

from eventconsumer_processor.errors import HubNotFound, HubUnauthorized, HubUnreachable, LinkStolen, SourceError

_MISSING = ("not-found", "status code: 404", "resource-deleted", "entity-disabled")
_REFUSED = ("status code: 401", "status code: 403", "unauthorized-access", "auth-failed", "invalidsignature")


def error_for(condition: str, text: str) -> SourceError:
    """The error for an AMQP condition (may be empty) and what the service says about it.

    What has no name of its own is `HubUnreachable`: the link is to be opened again.
    """
    marks = f"{condition} {text}".lower()
    if "link:stolen" in marks:
        return LinkStolen(text)
    if any(mark in marks for mark in _MISSING):
        return HubNotFound(text)
    if any(mark in marks for mark in _REFUSED):
        return HubUnauthorized(text)
    return HubUnreachable(text)
