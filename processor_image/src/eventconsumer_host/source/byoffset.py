"""Finds the sequence number of an event by its offset, for positions of programs that keep only offsets."""

from pydantic import ValidationError

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_host.errors import HubUnreachable, PositionRefused
from eventconsumer_host.source.first import first_from
from eventconsumer_host.source.hub import Hub

WAIT_SECONDS = 10.0


async def number_at(hub: Hub, partition: str, offset: str, epoch: int) -> int | None:
    """Sequence number of the event with this offset; None: the hub has no event with it.

    An offset is compared for equality only: the event is read, so the number is exact.

    Args:
        hub: The hub.
        partition: Its id.
        offset: As the hub returned it once; another text is at no event.
        epoch: Of the reader, which disconnects readers of the consumer group with a lower one, or none.

    Raises:
        SourceError: The hub does not respond.
    """
    try:
        wanted = Position(type=PositionType.OFFSET, offset=offset)
    except ValidationError:
        return None
    if offset.startswith("@") or (await hub.partition(partition)).is_empty:  # "@latest" is no event
        return None
    try:
        number = await hub.locate(partition, wanted, epoch) - 1
    except PositionRefused:
        return None
    return number if number >= 0 and await offset_at(hub, partition, number, epoch) == offset else None


async def offset_at(hub: Hub, partition: str, number: int, epoch: int) -> str | None:
    """Offset of the event with a sequence number; None: the hub does not have it.

    Raises:
        SourceError: The hub does not respond.
    """
    info = await hub.partition(partition)
    if not info.earliest <= number <= info.last:
        return None
    source = await hub.open(partition, number - 1, epoch, 1)
    try:
        found = await first_from(source, number, WAIT_SECONDS)
    finally:
        await source.close()
    if found is None:
        raise HubUnreachable(f"event {number} of partition {partition} did not arrive within {WAIT_SECONDS:.0f} s")
    return found.last_offset if found.first == number else None
