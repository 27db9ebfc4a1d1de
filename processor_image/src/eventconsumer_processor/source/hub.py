"""What the host needs from an Event Hub: facts about it, and a reader per partition.

All methods raise `errors.SourceError`. A `Source` is one attached link; when it fails it is closed and another one is
opened, so retries, epochs and positions are decided in one place, the pump.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from eventconsumer_api.v1alpha1 import Position

if TYPE_CHECKING:  # who only asks for facts loads no Arrow
    from eventconsumer_processor.source.batch import EventBatch


@dataclass(frozen=True, slots=True)
class HubInfo:
    """The hub as it is now; another `created_at` means that it was deleted and created again."""

    namespace: str
    name: str
    created_at: datetime
    partition_ids: tuple[str, ...]
    host: str = ""  # the endpoint as connection strings spell it, with a port where one is there


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition's retained range; both sequence numbers are -1 where it never had an event."""

    first: int
    last: int
    last_enqueued_time: datetime
    is_empty: bool
    last_offset: str = ""

    @property
    def earliest(self) -> int:
        """Sequence number of the first event that can still be read, or of the next one where there is none."""
        return self.last + 1 if self.is_empty else self.first


class Source(Protocol):
    """One attached link to a partition."""

    async def receive(self, max_events: int, max_wait: float) -> "EventBatch":
        """Wait up to `max_wait` seconds for events; an empty batch when none came.

        Raises:
            LinkStolen: A reader with an equal or higher epoch attached.
            SourceError: The link is gone.
        """

    def hurry(self) -> None:
        """End a `receive` that waits, and wait for no more: the reader is about to leave."""

    async def close(self) -> None:
        """Detach; never fails."""

    async def abandon(self) -> None:
        """Detach a link that gives nothing although there are events; what carries it is not relied on any more."""


class Hub(Protocol):
    """An Event Hub."""

    async def describe(self) -> HubInfo:
        """Ask for the hub's properties."""

    async def partition(self, partition: str) -> PartitionInfo:
        """Ask for a partition's properties."""

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> Source:
        """Attach a reader for the events with a sequence number above `after`, under the given epoch."""

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """Sequence number of the first event at a position given by time or offset; of the next one if there is none.

        Args:
            partition: Its id.
            position: Of type EnqueuedTime (the first event at or after it) or Offset (the first event behind it).
            epoch: To read with.
        """

    async def check_consumer_group(self, partition: str) -> None:
        """Make sure that the consumer group exists.

        Raises:
            HubNotFound: It does not.
        """

    async def close(self) -> None:
        """Close connections; never fails."""
