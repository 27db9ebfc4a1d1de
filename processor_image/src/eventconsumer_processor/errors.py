"""The host's errors.

    HostError
    ├── Blocked             a person must change something: carries the Problem that /status shows
    ├── StorageError        a storage call failed: status and code of the answer
    │   ├── NotFound        404: no such blob or container
    │   ├── Conflict        409, 412: a condition did not hold, or a lease is in the way
    │   ├── Refused         400: storage will never take this request, a bad container name for one
    │   ├── Damaged         a blob of this consumer cannot be read: something else changed it
    │   ├── Unauthorized    401, 403, or no token: the credential is refused
    │   └── Unavailable     no answer, 429 or 5xx: try again; the request may or may not have been applied
    ├── SourceError         a link or a hub request failed
    │   ├── HubNotFound     no such hub, consumer group or partition
    │   ├── HubUnauthorized the credential is refused
    │   ├── HubUnreachable  no connection, a time-out, or a lost link: open it again
    │   │   └── PositionRefused the partition ends before the position asked for
    │   └── LinkStolen      a reader with an equal or higher epoch attached: stop, never retry
    ├── LeaseInvalid        the body of a lease blob cannot be read
    ├── LeaseLost           the partition belongs to another host now: stop at once, commit nothing
    ├── ChainEnded          `hub accept` ended the chain: go on in the next segment
    └── Fenced              a file of a higher epoch is in the chain: this host is a zombie, halt

Messages are redacted where the error is built, so whatever a library put into its own message can be shown and logged.
"""

# ruff: noqa: N818 - the names say what happened

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_report import Problem
from eventconsumer_api.redaction import redact


class HostError(Exception):
    """Base of all errors of the host; the message holds no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(redact(message))


class Blocked(HostError):
    """Something that a person must change.

    Attributes:
        problem: The field, what is wrong and what to do.
    """

    def __init__(self, field: str, reason: Reason, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.problem = Problem(field=field, reason=reason, message=redact(message))


class StorageError(HostError):
    """A storage call failed.

    Attributes:
        status: HTTP status, 0 where there was no answer.
        code: The service's error code, such as LeaseIdMissing; empty where there is none.
        retry_after: Seconds that the service asks to wait before the next try; 0 where it does not say.
    """

    def __init__(self, message: str, status: int = 0, code: str = "", retry_after: float = 0) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class NotFound(StorageError):
    """No such blob or container."""


class Conflict(StorageError):
    """A condition did not hold, or a lease is in the way."""


class Refused(StorageError):
    """Storage will never take this request."""


class Damaged(StorageError):
    """A blob of this consumer cannot be read: something else changed it."""


class Unauthorized(StorageError):
    """The credential is refused."""


class Unavailable(StorageError):
    """No answer, throttled or a server error; whether the request was applied is unknown."""


class SourceError(HostError):
    """A link or a hub request failed."""


class HubNotFound(SourceError):
    """No such hub, consumer group or partition."""


class HubUnauthorized(SourceError):
    """The hub refuses the credential."""


class HubUnreachable(SourceError):
    """No connection, a time-out, or a lost link."""


class PositionRefused(HubUnreachable):
    """The partition ends before the position that a link was to start at."""


class LinkStolen(SourceError):
    """A reader with an equal or higher epoch attached."""


class LeaseInvalid(HostError):
    """The body of a lease blob cannot be read."""


class LeaseLost(HostError):
    """The partition belongs to another host now."""


class Fenced(HostError):
    """A file of a higher epoch is in the chain."""


class ChainEnded(HostError):
    """The chain was ended; it goes on in the next segment."""

    def __init__(self, partition: str) -> None:
        super().__init__(
            f"the files of partition {partition} were ended by kubectl eventconsumer hub accept: they go on in the "
            "next segment"
        )


class PortTaken(Exception):
    """The HTTP side's port cannot be listened on."""
