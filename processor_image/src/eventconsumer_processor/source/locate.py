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
    open_at: Callable[[str | datetime, bool], Awaitable[Source]],
    seconds: float,
) -> int:
    """See `Hub.locate`: opens a link at the position and reads its first event.

    Args:
        partition: Its id.
        position: Of type EnqueuedTime or Offset.
        end: The properties of the partition.
        open_at: Attaches a reader after an offset or a time; at it if the second argument is true.
        seconds: How long to wait for the event.
    """
    by_time = position.type is PositionType.ENQUEUED_TIME
    where = position.enqueued_time if by_time else position.offset
    assert where is not None  # noqa: S101 - the schema sees to it
    nothing_there = end.is_empty or (
        end.last_enqueued_time < where if isinstance(where, datetime) else end.last_offset == where
    )
    if nothing_there:
        return end.last + 1
    source = await open_at(where, by_time)
    try:
        found = await source.receive(1, seconds)
    finally:
        await source.close()
    if not len(found):
        raise HubUnreachable(f"partition {partition} delivered no event at {where} within {seconds:.0f} s")
    return found.first
