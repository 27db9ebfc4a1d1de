"""The faults that tests inject, as plain state that the protocol modules query. Pure.

This module does not change links: the protocol modules ask, for example, whether a link may send. So a fault ends when
it is removed from the state, without other steps.
"""

from dataclasses import dataclass, field

from .errors import LinkFailed

SERVER_BUSY = "com.microsoft:server-busy"
SERVICE_KINDS = ("cbs", "management")
"""The kinds of the links of services, which only a selection that names the kind selects."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of a link.

    Attributes:
        kind: ``reader`` or ``producer``; ``cbs`` or ``management`` for a link of a service.
        hub: the hub's name; empty for a link of a service.
        partition: the partition id; None for a producer to the hub.
        group: the consumer group; None for a producer.
        connection: the number of its connection.
    """

    kind: str
    hub: str
    partition: str | None
    group: str | None
    connection: int


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of links; None means any."""

    hub: str | None = None
    partition: str | None = None
    group: str | None = None
    connection: int | None = None
    kind: str | None = None

    def matches(self, endpoint: Endpoint) -> bool:
        """Whether the endpoint is selected."""
        return (
            (self.hub is None or self.hub.lower() == endpoint.hub.lower())
            and (self.partition is None or self.partition == endpoint.partition)
            and (self.group is None or self.group.lower() == (endpoint.group or "").lower())
            and (self.connection is None or self.connection == endpoint.connection)
            and (self.kind == endpoint.kind or (self.kind is None and endpoint.kind not in SERVICE_KINDS))
        )


@dataclass(slots=True)
class Refusal:
    """Attaches to refuse: ``remaining`` of them, or all if None."""

    selection: Selection
    error: LinkFailed
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Early:
    """Readers that start before their position, by ``events`` sequence numbers."""

    selection: Selection
    events: int


@dataclass(slots=True)
class CbsFault:
    """The failure of ``$cbs``: a status, or no response if the status is None."""

    status: int | None
    description: str


@dataclass(slots=True)
class Faults:
    """Every active fault.

    Attributes:
        frozen: links that get no events, although they have credit.
        late: links whose attach is answered only when this fault has ended.
        early: new readers that start before the position that they request.
        refusals: attaches to refuse with an error.
        busy: producers and new readers that get ``com.microsoft:server-busy``.
        delay: seconds to wait before each write of events and each response to a producer.
        cbs: failure of authentication, or None.
    """

    frozen: list[Selection] = field(default_factory=list)
    late: list[Selection] = field(default_factory=list)
    early: list[Early] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    busy: list[Selection] = field(default_factory=list)
    delay: float = 0.0
    cbs: CbsFault | None = None

    def is_frozen(self, endpoint: Endpoint) -> bool:
        """Whether the link must send no events."""
        return any(selection.matches(endpoint) for selection in self.frozen)

    def is_late(self, endpoint: Endpoint) -> bool:
        """Whether the attach of the link must wait."""
        return any(selection.matches(endpoint) for selection in self.late)

    def early_by(self, endpoint: Endpoint) -> int:
        """By how many sequence numbers a new reader starts before its position."""
        return max((each.events for each in self.early if each.selection.matches(endpoint)), default=0)

    def check_busy(self, endpoint: Endpoint) -> None:
        """Raises ``server-busy`` if the endpoint is throttled."""
        if any(selection.matches(endpoint) for selection in self.busy):
            raise LinkFailed(
                SERVER_BUSY, "The server is busy. Please wait before retrying the operation (fault injected)."
            )

    def check_attach(self, endpoint: Endpoint) -> None:
        """Raises the error if this attach must be refused, and counts it."""
        for refusal in self.refusals:
            if refusal.remaining != 0 and refusal.selection.matches(endpoint):
                if refusal.remaining is not None:
                    refusal.remaining -= 1
                raise refusal.error
        self.check_busy(endpoint)
