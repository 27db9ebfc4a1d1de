"""Resolves a time or an offset to a sequence number, with a link to the hub."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_processor.errors import HubUnreachable
from eventconsumer_processor.source.hub import PartitionInfo, Source


async def locate(
    partition: str,
    position: Position,
    end: PartitionInfo,
    open_at: Callable[[str | datetime], Awaitable[Source]],
    seconds: float,
) -> int:
    """See `Hub.locate`: opens a link at the position and reads its first event.

    If a time is less than a second after the last event, and the link delivers nothing, the result is the last event:
    it may be one too early, but it skips none.

    Args:
        partition: Its id.
        position: Of type EnqueuedTime or Offset.
        end: The properties of the partition.
        open_at: Attaches a reader at an offset or a time; its first event is the one there, or else the next one.
        seconds: How long to wait for the event.
    """
    by_time = position.type is PositionType.ENQUEUED_TIME
    where = position.enqueued_time if by_time else position.offset
    assert where is not None  # noqa: S101 - the schema sees to it
    if end.is_empty or (isinstance(where, datetime) and end.ends_before(where)):
        return end.last + 1
    source = await open_at(where)
    try:
        found = await source.receive(1, seconds)
    finally:
        await source.close()
    if not len(found):
        if isinstance(where, datetime) and where > end.last_enqueued_time:
            return end.last
        raise HubUnreachable(f"partition {partition} delivered no event at {where} within {seconds:.0f} s")
    return found.first + 1 if found.last_offset == where else found.first
