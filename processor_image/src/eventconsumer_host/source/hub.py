"""The interface of an Event Hub: its properties, and one reader per partition.

All methods raise `errors.SourceError`. A `Source` is one attached link. When it fails, it is closed and a new one is
opened: only the pump decides on retries, epochs and positions.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from eventconsumer_api.v1alpha1 import Position

if TYPE_CHECKING:  # callers that only read properties do not load Arrow
    from eventconsumer_host.source.batch import EventBatch


@dataclass(frozen=True, slots=True)
class HubInfo:
    """The properties of the hub; another `created_at` means that it was deleted and created again."""

    namespace: str
    name: str
    created_at: datetime
    partition_ids: tuple[str, ...]
    host: str = ""  # the endpoint as in the connection string, with the port if it has one


CLOCKS_DIFFER = timedelta(seconds=60)
"""Maximum difference of the clocks of brokers and hosts, see `batch.watermark`."""
_PRECISION = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """The retained range of a partition; both sequence numbers are -1 if it never had an event.

    `read_at` is when the hub read these values, by its own clock; None: the hub does not tell.
    The offset of the last event is left out: with geo-replication, it is not a valid position (LastEnqueuedOffset of
    PartitionProperties in azure-sdk-for-net).
    """

    first: int
    last: int
    last_enqueued_time: datetime
    is_empty: bool
    read_at: datetime | None = None

    @property
    def earliest(self) -> int:
        """Sequence number of the first retained event, or of the next event if no event is retained."""
        return self.last + 1 if self.is_empty else self.first

    def ends_before(self, when: datetime) -> bool:
        """Whether the last event was certainly enqueued before `when`.

        The time is compared to the second: no source says that it equals the enqueued time of the event to the
        millisecond.
        """
        return when - self.last_enqueued_time >= _PRECISION


class Source(Protocol):
    """One attached link to a partition."""

    async def receive(self, max_events: int, max_wait: float) -> "EventBatch":
        """Wait up to `max_wait` seconds for events; an empty batch if none arrived.

        Raises:
            LinkStolen: A reader with an equal or higher epoch attached.
            SourceError: The link is lost.
        """

    def hurry(self) -> None:
        """End a waiting `receive`, and do not wait in later ones: the reader is about to close."""

    async def close(self) -> None:
        """Detach; never fails."""

    async def abandon(self) -> None:
        """Detach a link that delivers no events although there are some; its connection is not used for new links."""


class Hub(Protocol):
    """An Event Hub."""

    async def describe(self) -> HubInfo:
        """Request the properties of the hub."""

    async def partition(self, partition: str) -> PartitionInfo:
        """Request the properties of a partition."""

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> Source:
        """Attach a reader with the given epoch, for the events with a sequence number above `after`."""

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """Sequence number of the first event at a time or an offset; of the next event if there is none.

        Args:
            partition: Its id.
            position: Of type EnqueuedTime (the first event at or after it) or Offset (the first event after it).
            epoch: Epoch of the reader.
        """

    async def check_consumer_group(self, partition: str) -> None:
        """Verify that the consumer group exists.

        Raises:
            HubNotFound: It does not.
        """

    async def close(self) -> None:
        """Close connections; never fails."""
