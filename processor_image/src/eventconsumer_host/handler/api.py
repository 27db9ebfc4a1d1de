"""The handler API: the class that a user writes, and the objects that it receives.

A handler is a class named by `spec.processing.handler` as `package.module:Class`, in an image built FROM the processor
image:

    from eventconsumer_host.handler import Batch, CloseReason, EventProcessor, PartitionContext

    class Orders(EventProcessor):
        async def open(self, context: PartitionContext) -> None: ...
        async def process_events(self, context: PartitionContext, batch: Batch) -> Rows | None: ...
        async def close(self, context: PartitionContext, reason: CloseReason) -> None: ...

Guarantees:

- Each partition that a host owns has its own instance, created without arguments. An instance gets one call at a time.
  Instances of different partitions share one event loop: an `async def` method must await and never block. A `def`
  method runs in a thread of its instance and may block.
- With `processing.handlerMode: Transform`, `process_events` returns a `pyarrow.Table` with a row for each event that is
  kept. The rows go to the files in place of the events, exactly once. In the other modes it returns nothing.
- If `process_events` returns, all events of the batch are done. If it raises, none is, and the batch is passed again:
  see `handling`. Successful calls are in rising order of sequence numbers, without holes except for dead letters.
- A dead letter that a user passes again (`deadletters redrive`) comes between two batches, alone, in a batch whose
  `redriven` is true. Its sequence number is lower than those of earlier calls.
- At least once: after a crash, a lost lease or a failure, events since the last checkpoint are passed again. A handler
  that needs exactly once stores `context.partition_id` and the sequence number of the event together with its result.
- `open` is called before the first batch, `close` after the last one. A process that is killed calls no `close`.
"""

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, TypeVar, overload

from structlog.typing import FilteringBoundLogger

from eventconsumer_host.source.lastenqueued import LastEnqueued
from eventconsumer_host.source.rows import EventRows

if TYPE_CHECKING:
    import pyarrow as pa

    Rows: TypeAlias = pa.Table | pa.RecordBatch
    """Rows that a handler returns in mode Transform. `sequence_number`, of type int64, names the event of each row, in
    the order of the batch. Columns that are `replaceable` in `eventconsumer_api.wire.file_columns` are optional, and
    replace those of the events."""

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# https://www.w3.org/TR/trace-context/#traceparent-header: version ff and ids of zeros are invalid; versions after 00
# may append fields.
_TRACEPARENT = re.compile(r"(?!ff|00-.{52}-)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_BINARY = re.compile(r'\{"\$binary":"([A-Za-z0-9+/=]*)"\}')


def __getattr__(name: str) -> object:
    """`Rows`, on first use: the probe imports this module and runs no handler, and pyarrow takes 20 MB."""
    if name != "Rows":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import pyarrow as pa

    return pa.Table | pa.RecordBatch


class CloseReason(StrEnum):
    """Why a partition is closed."""

    LEASE_LOST = "LeaseLost"  # another host owns it or will: events after the checkpoint are processed again there
    SHUTDOWN = "Shutdown"  # this host releases the partition: all processed events are checkpointed, except with
    # the checkpoint policy Handler: `close` may call `context.checkpoint()`


class TryAgain(Exception):  # noqa: N818 - a request of the handler
    """Raise it when no event is at fault, such as while a database is down: the batch is passed again until it is done.

    There is no limit of attempts, and no dead letter; every other error has `processing.handlerAttempts`.
    """


class CheckpointError(TryAgain):
    """`context.checkpoint()` wrote no checkpoint. If the handler does not catch it, the batch is passed again."""


class RejectEvents(Exception):  # noqa: N818 - an action of the handler
    """Raise it to make events of the batch dead letters at once; the other events of the batch are passed again.

    Args:
        sequence_numbers: Sequence numbers of the events to reject.
        reason: The cause, for the dead letters.
    """

    def __init__(self, sequence_numbers: Iterable[int], reason: str) -> None:
        super().__init__(reason)
        self.sequence_numbers = frozenset(sequence_numbers)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Property values are text: strings unchanged, other types as JSON, as in the files.

    Attributes:
        sequence_number: Its number in the partition; rises by one from event to event.
        offset: An opaque text of the hub.
        enqueued_time: When the hub received it, UTC.
        partition_key: The key that the publisher set; None: no key.
        body: As published; may be empty. None: the message has no body, such as a tombstone of Kafka.
        properties: Application properties. A binary, such as the value of a Kafka header, is {"$binary":"<base64>"}.
    """

    sequence_number: int
    offset: str
    enqueued_time: datetime
    partition_key: str | None
    body: bytes | None
    properties: Mapping[str, str]
    system_properties: Mapping[str, str]
    content_type: str | None
    message_id: str | None
    correlation_id: str | None

    @property
    def trace_context(self) -> dict[str, str]:
        """The trace context of the publisher: `traceparent` and, if there is one, `tracestate`; empty: none.

        It is a carrier for OpenTelemetry's `extract`. The property `traceparent` comes before `Diagnostic-Id`, as in
        Azure's SDKs, which set both. A value that is not of the form of the W3C counts as none.
        """
        texts = (_text(self.properties.get(name, "")) for name in ("traceparent", "Diagnostic-Id"))
        parent = next(filter(_TRACEPARENT.fullmatch, texts), "")
        if not parent:
            return {}
        state = _text(self.properties.get("tracestate", ""))
        return {"traceparent": parent} | ({"tracestate": state} if state else {})


class Batch(Sequence[Event]):
    """Events of one partition in sequence order: a read-only view, as events one by one or as columns.

    Iteration creates each `Event` on demand. A column, such as `batch.bodies`, creates no object per event.
    """

    __slots__ = ("_events", "_indices", "_redriven")

    def __init__(self, events: EventRows, indices: Sequence[int] | None = None, *, redriven: bool = False) -> None:
        """A view on some events of a batch.

        Args:
            events: The events of the batch.
            indices: Rising positions in `events`; absent: all.
            redriven: Whether the event was a dead letter.
        """
        self._events = events
        self._indices = range(len(events)) if indices is None else indices
        self._redriven = redriven

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
            return Batch(self._events, self._indices[index], redriven=self._redriven)
        return self._event(self._indices[index])

    def __repr__(self) -> str:
        numbers = self.sequence_numbers
        return f"<Batch of {len(self)} events{f', {numbers[0]} to {numbers[-1]}' if numbers else ''}>"

    @property
    def redriven(self) -> bool:
        """Whether the event was a dead letter and a user passes it again. Such a batch has one event."""
        return self._redriven

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
        """None: the publisher set no key."""
        return self._column(self._events.partition_keys)

    @property
    def bodies(self) -> tuple[bytes | None, ...]:
        """As published; None: the message has no body."""
        return self._column(self._events.bodies)

    @property
    def properties(self) -> tuple[dict[str, str], ...]:
        """Application properties."""
        return tuple(self._events.properties.entries(index) for index in self._indices)

    @property
    def system_properties(self) -> tuple[dict[str, str], ...]:
        """Message annotations and AMQP properties without their own column."""
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
    """A position in a partition: an event that is done."""

    sequence_number: int
    offset: str
    enqueued_time: datetime


@dataclass(slots=True)
class PartitionContext:
    """The partition of a call. All calls of an instance get the same object, which only the host changes.

    Attributes:
        namespace: Host name of the Event Hubs namespace.
        event_hub: Name of the hub.
        consumer_group: Name of the consumer group.
        partition_id: Id of the partition.
        owner: Id of this host.
        epoch: Rises with each owner of the partition: data that was written with a higher epoch is newer.
        next_sequence_number: Sequence number of the next event.
        position: The last event that this instance has processed; None: none yet.
        log: A structured logger of the host.
        last_enqueued: The last event of the partition when the hub sent an event of this batch or of the same receive;
            None unless `processing.runtimeMetrics` is true. It adds about 155 bytes per event on the wire, and gives no
            information while no events arrive: lag is not measured with it.
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
    _write: "WriteCheckpoint | None" = field(default=None, repr=False, compare=False)

    def checkpoint(self, at: Event | Position | None = None) -> Awaitable[None]:
        """Write a checkpoint: events up to it are done, and are never passed again.

        Only with `processing.handlerMode: Replace`, in `process_events` and `close`, with every checkpoint policy. With
        the policy Handler there are no other checkpoints. An `async def` method awaits it. In a `def` method the call
        returns when the checkpoint is written.

        Args:
            at: The last event that is done, of this call or of an earlier one. None: the last event of this call, in
                `close` the last one that was processed. An event below the current checkpoint changes nothing.

        Raises:
            CheckpointError: No checkpoint was written: storage does not respond, another host owns the partition, the
                event is of no such call, or the mode has no such checkpoints.
        """
        if self._write is None:
            raise CheckpointError(
                "context.checkpoint() is possible only with processing.handlerMode: Replace, and until close returns: "
                "with files, checkpoints follow the files; remove the call"
            )
        return self._write(at)

    def note_checkpoints(self, write: "WriteCheckpoint | None") -> None:
        """For the host: record how checkpoints are written; None: the handler can write none."""
        self._write = write

    def note_batch(self, last_enqueued: LastEnqueued | None) -> None:
        """For the host: record the runtime metrics of the next batch."""
        self.last_enqueued = last_enqueued

    def note_processed(self, position: Position) -> None:
        """For the host: record that all events up to `position` are processed."""
        self.next_sequence_number = position.sequence_number + 1
        self.position = position


WriteCheckpoint: TypeAlias = Callable[[Event | Position | None], Awaitable[None]]


class EventProcessor(ABC):
    """The base class of a handler, for documentation and types; any class with the same methods works.

    Each method may be `async def` or `def`.
    """

    def open(self, context: PartitionContext) -> Awaitable[None] | None:
        """Prepare the instance. After an error, a new instance is opened after a pause."""
        return None

    @abstractmethod
    def process_events(self, context: PartitionContext, batch: Batch) -> "Awaitable[Rows | None] | Rows | None":
        """Process a batch that is not empty.

        Returns:
            With mode Transform, the rows for the file; a row is an event that is kept. Otherwise nothing.

        Raises:
            TryAgain: The batch cannot be processed now and is passed again.
            RejectEvents: Some events can never be processed: they become dead letters.
            Exception: The batch is passed again, up to `processing.handlerAttempts` times; then it is divided to find
                the events that fail, which become dead letters.
        """

    def close(self, context: PartitionContext, reason: CloseReason) -> Awaitable[None] | None:
        """Release the resources of `open`. With `LEASE_LOST`, `process_events` may have been cancelled before."""
        return None


def _text(value: str) -> str:
    """The value of a property as its publisher meant it: the value of a Kafka header is a binary."""
    if (binary := _BINARY.fullmatch(value)) is None:
        return value
    try:
        return base64.b64decode(binary[1], validate=True).decode()
    except ValueError:
        return ""


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
