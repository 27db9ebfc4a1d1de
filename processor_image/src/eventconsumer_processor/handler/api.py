"""User code: the class a user writes, and what it is given.

A handler is a class named by `spec.processing.handler` as `package.module:Class`, in an image built FROM the processor
image:

    from eventconsumer_processor.handler import Batch, CloseReason, EventProcessor, PartitionContext

    class Orders(EventProcessor):
        async def open(self, context: PartitionContext) -> None: ...
        async def process_events(self, context: PartitionContext, batch: Batch) -> None: ...
        async def close(self, context: PartitionContext, reason: CloseReason) -> None: ...

What holds:

- Each partition that a host owns has an instance of its own, made without arguments; one instance gets one call at a
  time. Instances of different partitions take turns on one event loop: what waits must be awaited, never block. A
  method that is a plain `def` runs in a thread of its instance's own and may block.
- `process_events` returning means that all events of the batch are done; raising means that none is, and the batch
  comes again (see `handling`). Successful calls come in rising order of sequence numbers, without holes but for dead
  letters.
- At least once: after a crash, a lost lease or a failure, events since the last checkpoint come again. A handler that
  needs exactly once stores `context.partition_id` and the event's sequence number together with its result.
- `open` comes before the first batch, `close` after the last one; a process that is killed closes nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar, overload

from structlog.typing import FilteringBoundLogger

from eventconsumer_processor.source.lastenqueued import LastEnqueued
from eventconsumer_processor.source.rows import EventRows

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CloseReason(StrEnum):
    """Why a partition is closed."""

    LEASE_LOST = "LeaseLost"  # another host has it, or will: what was not checkpointed is processed there again
    SHUTDOWN = "Shutdown"  # this host gives the partition up in order: everything done is checkpointed


class TryAgain(Exception):  # noqa: N818 - what the handler asks for
    """Raise it when no event is at fault, as while a database is down: the batch comes again until it is done.

    It may come again for ever and makes no dead letters; every other error does, after `processing.handlerAttempts`.
    """


class RejectEvents(Exception):  # noqa: N818 - what the handler does
    """Raise it to make events of the batch dead letters at once; the others of the batch come again without them.

    Args:
        sequence_numbers: Of the events to reject.
        reason: Why, for the dead letters.
    """

    def __init__(self, sequence_numbers: Iterable[int], reason: str) -> None:
        super().__init__(reason)
        self.sequence_numbers = frozenset(sequence_numbers)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Property values are text: strings as they are, other types as JSON, just as in the files.

    Attributes:
        sequence_number: Its number in the partition; rises by one from event to event.
        offset: An opaque text of the hub.
        enqueued_time: When the hub took it, UTC.
        partition_key: What the publisher chose; None where it chose none.
        body: As published; may be empty.
    """

    sequence_number: int
    offset: str
    enqueued_time: datetime
    partition_key: str | None
    body: bytes
    properties: Mapping[str, str]
    system_properties: Mapping[str, str]
    content_type: str | None
    message_id: str | None
    correlation_id: str | None


class Batch(Sequence[Event]):
    """Events of one partition in sequence order: a read-only view, as events one by one or as columns.

    Iterating makes each `Event` as it is asked for. A column, such as `batch.bodies`, costs no object per event.
    """

    __slots__ = ("_events", "_indices")

    def __init__(self, events: EventRows, indices: Sequence[int] | None = None) -> None:
        """A view on some events of a batch.

        Args:
            events: The batch's.
            indices: Rising positions in them; absent: all.
        """
        self._events = events
        self._indices = range(len(events)) if indices is None else indices

    def __len__(self) -> int:
        return len(self._indices)

    def __iter__(self) -> Iterator[Event]:
        return map(self._event, self._indices)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> "Batch": ...
    def __getitem__(self, index: int | slice) -> "Event | Batch":
        if isinstance(index, slice):
            return Batch(self._events, self._indices[index])
        return self._event(self._indices[index])

    def __repr__(self) -> str:
        numbers = self.sequence_numbers
        return f"<Batch of {len(self)} events{f', {numbers[0]} to {numbers[-1]}' if numbers else ''}>"

    @property
    def sequence_numbers(self) -> tuple[int, ...]:
        """Rising."""
        return self._column(self._events.sequence_numbers)

    @property
    def offsets(self) -> tuple[str, ...]:
        """Opaque texts."""
        return self._column(self._events.offsets)

    @property
    def enqueued_times(self) -> tuple[datetime, ...]:
        """UTC."""
        return tuple(map(_time, self._column(self._events.enqueued_ms)))

    @property
    def partition_keys(self) -> tuple[str | None, ...]:
        """None where the publisher chose none."""
        return self._column(self._events.partition_keys)

    @property
    def bodies(self) -> tuple[bytes, ...]:
        """As published."""
        return self._column(self._events.bodies)

    @property
    def properties(self) -> tuple[dict[str, str], ...]:
        """Application properties."""
        return tuple(self._events.properties.entries(index) for index in self._indices)

    @property
    def system_properties(self) -> tuple[dict[str, str], ...]:
        """Message annotations and AMQP properties that have no column of their own."""
        return tuple(self._events.system_properties.entries(index) for index in self._indices)

    @property
    def content_types(self) -> tuple[str | None, ...]:
        """The AMQP property."""
        return self._column(self._events.content_types)

    @property
    def message_ids(self) -> tuple[str | None, ...]:
        """The AMQP property."""
        return self._column(self._events.message_ids)

    @property
    def correlation_ids(self) -> tuple[str | None, ...]:
        """The AMQP property."""
        return self._column(self._events.correlation_ids)

    def _column(self, values: Sequence[T]) -> tuple[T, ...]:
        return tuple(map(values.__getitem__, self._indices))

    def _event(self, index: int) -> Event:
        events = self._events
        return Event(
            events.sequence_numbers[index],
            events.offsets[index],
            _time(events.enqueued_ms[index]),
            events.partition_keys[index],
            events.bodies[index],
            events.properties.entries(index),
            events.system_properties.entries(index),
            events.content_types[index],
            events.message_ids[index],
            events.correlation_ids[index],
        )


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a partition: an event that is done."""

    sequence_number: int
    offset: str
    enqueued_time: datetime


@dataclass(slots=True)
class PartitionContext:
    """The partition that a call is about. It is the same object in all calls of an instance; change nothing in it.

    Attributes:
        namespace: Host name of the Event Hubs namespace.
        event_hub: Name of the hub.
        consumer_group: Name of the consumer group.
        partition_id: Id of the partition.
        owner: This host.
        epoch: How often the partition changed hands: rises with each owner, so what was written under a higher epoch is
            newer.
        next_sequence_number: Of the event that comes next.
        position: The last event that is done in this instance; None before.
        log: Writes structured lines to the host's log.
        last_enqueued: How far the partition's log had come when an event of this batch, or one received with it, was
            sent; None unless `processing.runtimeMetrics` is true. It makes each event some 155 bytes larger on the
            wire, and says nothing while no event comes: lag is not measured by it.
    """

    namespace: str
    event_hub: str
    consumer_group: str
    partition_id: str
    owner: str
    epoch: int
    next_sequence_number: int
    position: Position | None
    log: FilteringBoundLogger
    last_enqueued: LastEnqueued | None = None

    def note_batch(self, last_enqueued: LastEnqueued | None) -> None:
        """For the host: record the runtime metrics of the next batch."""
        self.last_enqueued = last_enqueued

    def note_processed(self, position: Position) -> None:
        """For the host: record that all events up to `position` are processed."""
        self.next_sequence_number = position.sequence_number + 1
        self.position = position


class EventProcessor(ABC):
    """The base of a handler, for its documentation and types; a class with the same methods will do.

    Each method may be `async def` or `def`.
    """

    def open(self, context: PartitionContext) -> Awaitable[None] | None:
        """Get ready. An error has it called again, on a new instance, after a pause."""
        return None

    @abstractmethod
    def process_events(self, context: PartitionContext, batch: Batch) -> Awaitable[None] | None:
        """Process a batch that is not empty.

        Raises:
            TryAgain: Not now: the batch comes again.
            RejectEvents: Some events can never be processed: they become dead letters.
            Exception: The batch comes again, up to `processing.handlerAttempts` times; then it is divided to find the
                events that fail, and those become dead letters.
        """

    def close(self, context: PartitionContext, reason: CloseReason) -> Awaitable[None] | None:
        """Let go of what `open` made. With `LEASE_LOST`, `process_events` may have been cancelled before."""
        return None


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
