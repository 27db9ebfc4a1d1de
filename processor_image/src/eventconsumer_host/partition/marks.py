"""Compares the hub's event at a sequence number with the event that was read before. Pure.

After a forced failover, sequence numbers may name other events (Microsoft, "Event Hubs geo-disaster recovery": events
that were not replicated are lost). Event Hubs assigns an enqueued time once, so the same number with the same time is
the same event. Offsets are compared as `source.offsets` describes.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host.source import offsets
from eventconsumer_host.source.hub import PartitionInfo

if TYPE_CHECKING:  # callers that only read properties do not load Arrow
    from eventconsumer_host.source.batch import EventBatch

# A mark without an offset may be from the properties of a partition, whose time is that of the last event
# (LastEnqueuedTime of PartitionProperties in azure-sdk-for-net). No source says that it has all digits of the event's
# x-opt-enqueued-time. A failover takes longer than a second.
PROPERTIES_MILLISECONDS = 1000


def last_of(batch: "EventBatch") -> EventMark:
    """The last event of a batch that is not empty."""
    return mark_of(batch.last, batch.last_offset, batch.last_enqueued_ms)


def mark_of(number: int, offset: str, enqueued_ms: int) -> EventMark:
    """The mark of an event, from its number, offset, and enqueued time in milliseconds since 1970."""
    time = datetime.fromtimestamp(enqueued_ms / 1000, UTC)
    return EventMark(sequence_number=number, offset=offset, enqueued_time=time)


def end_of(info: PartitionInfo) -> EventMark:
    """The last event of a partition, without its offset: Microsoft's SDKs warn not to use it as a position."""
    return EventMark(sequence_number=info.last, enqueued_time=info.last_enqueued_time if info.last >= 0 else None)


def same(ours: EventMark, theirs: EventMark) -> bool | None:
    """Whether two marks with the same sequence number are the same event; None if they cannot be compared."""
    times = ours.enqueued_time, theirs.enqueued_time
    tolerance = 0 if ours.offset and theirs.offset else PROPERTIES_MILLISECONDS
    if times[0] is not None and times[1] is not None and _milliseconds(times[0], times[1]) > tolerance:
        return False
    if offsets.differ(ours.offset, theirs.offset):
        return False
    return True if offsets.comparable(ours.offset, theirs.offset) or None not in times else None


def _milliseconds(one: datetime, other: datetime) -> int:
    return abs(round(one.timestamp() * 1000) - round(other.timestamp() * 1000))
