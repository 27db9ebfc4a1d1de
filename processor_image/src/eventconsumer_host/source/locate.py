"""Resolves a time or an offset to a sequence number, with a link to the hub.

The link may start before the position: see `first`. A time has an order, so events before it are skipped. An offset has
none (see `offsets`), so the event with the offset is searched among the first `NEAR` events.
"""

import calendar
from collections.abc import Awaitable, Callable
from datetime import datetime

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.source.first import first_from
from eventconsumer_host.source.hub import PartitionInfo, Source

NEAR = 100  # events; a link was seen to start 4 events early


async def locate(
    partition: str,
    position: Position,
    end: PartitionInfo,
    open_at: Callable[[str | datetime | int], Awaitable[Source]],
    seconds: float,
) -> int:
    """See `Hub.locate`: opens a link at the position and reads its first events.

    If the offset is not found, the result is the first event of the link: it may be too early, but it skips none.

    Args:
        partition: Its id.
        position: Of type EnqueuedTime or Offset.
        end: The properties of the partition.
        open_at: Attaches a reader at an offset, a time, or after a sequence number; its first event is the one there,
            or else the next one, or an earlier one.
        seconds: How long to wait for an event.
    """
    by_time = position.type is PositionType.ENQUEUED_TIME
    where = position.enqueued_time if by_time else position.offset
    assert where is not None  # noqa: S101 - the schema sees to it
    if end.is_empty or (isinstance(where, datetime) and end.ends_before(where)):
        return end.last + 1
    source = await open_at(where)
    try:
        if isinstance(where, datetime):
            found = await _at_time(source, milliseconds(where), end.last, seconds)
        else:
            found = await _after_offset(source, where, end.last, seconds)
    finally:
        await source.close()
    if found is None and isinstance(where, datetime) and where > end.last_enqueued_time:
        # Less than a second after the last event: the properties may give whole seconds, so its own time decides.
        source = await open_at(end.last - 1)
        try:
            last = await first_from(source, end.last, seconds)
        finally:
            await source.close()
        return end.last + 1 if last is not None and last.last_enqueued_ms < milliseconds(where) else end.last
    if found is None:
        raise HubUnreachable(f"partition {partition} delivered no event at {where} within {seconds:.0f} s")
    return found


async def _at_time(source: Source, enqueued_ms: int, last: int, seconds: float) -> int | None:
    """The first event that was enqueued at this time or later; None: the link delivers none."""
    while len(batch := await source.receive(1, seconds)):
        if batch.last_enqueued_ms >= enqueued_ms:
            return batch.last
        if batch.last >= last:
            return batch.last + 1
    return None


async def _after_offset(source: Source, offset: str, last: int, seconds: float) -> int | None:
    """The event after the one with this offset, or the first event of the link; None: the link delivers none."""
    first: int | None = None
    for _ in range(NEAR):
        batch = await source.receive(1, seconds)
        if not len(batch):
            break
        if batch.last_offset == offset:
            return batch.last + 1
        if first is None:
            first = batch.first
        if batch.last >= last:
            break
    return first


def milliseconds(when: datetime) -> int:
    """A time as Event Hubs compares it: whole milliseconds since 1970, UTC."""
    return calendar.timegm(when.utctimetuple()) * 1000 + when.microsecond // 1000
