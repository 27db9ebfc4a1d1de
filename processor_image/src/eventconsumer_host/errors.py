"""The host's errors, beside those of storage (`eventconsumer_storage.errors`) and `eventconsumer_api.errors.Blocked`.

EventConsumerError
├── SourceError         a link or a hub request failed
│   ├── HubNotFound     no such hub, consumer group or partition
│   ├── HubUnauthorized the hub rejects the credential
│   ├── HubUnreachable  no connection, a time-out, or a lost link: open it again
│   │   ├── HubBusy         the hub limits requests: wait before the next one
│   │   └── PositionRefused the hub rejects the position of a link, as beyond the end of the partition
│   └── LinkStolen      a reader with an equal or higher epoch attached: stop, never retry
├── LeaseInvalid        the body of a lease blob cannot be parsed
├── LeasesAmbiguous     there are leases of one consumer group under several spellings of its names
├── LeaseLost           another host owns the partition: stop at once, commit nothing
├── StartsLater         the partition begins at a time that has not come: wait
├── ChainEnded          `hub accept` ended the chain: continue in the next segment
├── NoticeFailed        the endpoint did not acknowledge a notice: send it again
├── Fenced              a file of a higher epoch is in the chain: this host is a zombie and must stop
└── CommandError        a command cannot run as it was called
"""

# ruff: noqa: N818 - the names describe the event

from collections.abc import Sequence
from datetime import datetime

from eventconsumer_api.errors import EventConsumerError


class SourceError(EventConsumerError):
    """A link or a hub request failed.

    Attributes:
        condition: The AMQP condition; empty if there is none.
        status: The status code of a response; None for links and connections.
    """

    def __init__(self, message: str, condition: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.condition = condition
        self.status = status


class HubNotFound(SourceError):
    """No such hub, consumer group or partition."""


class HubUnauthorized(SourceError):
    """The hub rejects the credential."""


class HubUnreachable(SourceError):
    """No connection, a time-out, or a lost link."""


class HubBusy(HubUnreachable):
    """The hub limits requests."""


class PositionRefused(HubUnreachable):
    """The hub rejects the position of a link, as beyond the end of the partition."""


class LinkStolen(SourceError):
    """A reader with an equal or higher epoch attached."""


class LeaseInvalid(EventConsumerError):
    """The body of a lease blob cannot be parsed."""


class LeasesAmbiguous(EventConsumerError):
    """There are leases of one consumer group under several spellings of its names, and no record of their owner."""

    def __init__(self, folders: Sequence[str]) -> None:
        super().__init__(
            f"leases of this consumer group exist in {len(folders)} folders whose names differ only in case, or in a "
            f"port: {' and '.join(folders)}; it is unknown which checkpoints count. Stop the programs that use them, "
            "keep a copy, and delete the blobs of all but the folder to continue from"
        )


class LeaseLost(EventConsumerError):
    """Another host owns the partition."""


class Fenced(EventConsumerError):
    """A file of a higher epoch is in the chain."""


class StartsLater(EventConsumerError):
    """The partition begins at a time that has not come.

    Attributes:
        when: The time.
    """

    def __init__(self, partition: str, when: datetime) -> None:
        super().__init__(
            f"partition {partition} begins at spec.startingPosition.enqueuedTime, {when.isoformat()}: no event has "
            "been enqueued at or after this time"
        )
        self.when = when


class ChainEnded(EventConsumerError):
    """The chain was ended; it continues in the next segment."""

    def __init__(self, partition: str) -> None:
        super().__init__(
            f"the files of partition {partition} were ended by kubectl eventconsumer hub accept: they continue in "
            "the next segment"
        )


class NoticeFailed(EventConsumerError):
    """The endpoint did not acknowledge a notice.

    Attributes:
        field: Path of the field to change.
        cause: The cause.
        retry_after: Pause that the endpoint asks for, seconds; 0: none.
        lasting: Whether a user must change something.
        only_this: Whether the endpoint may accept other notices.
    """

    def __init__(
        self, field: str, cause: str, *, retry_after: float = 0.0, lasting: bool = False, only_this: bool = False
    ) -> None:
        super().__init__(f"the endpoint of notices does not acknowledge a notice: {cause}")
        self.field = field
        self.cause = cause
        self.retry_after = retry_after
        self.lasting = lasting
        self.only_this = only_this


class CommandError(EventConsumerError):
    """A command cannot run as it was called; the message names the change."""


class PortTaken(Exception):
    """The HTTP port cannot be used."""
