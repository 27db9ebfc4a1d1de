"""Finds out how partitions stand, and what position an incomplete one is: from leases, files and the hub. Only reads.

To turn an offset into a sequence number, or back, where no file ends there, a reader is attached to the partition for
one event. It has epoch 0, so a reader of the same consumer group without an epoch is disconnected; it is done only
where no host holds the partition's lease.
"""

from collections.abc import Sequence

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.v1alpha1 import Position as HubPosition
from eventconsumer_api.v1alpha1 import PositionType
from eventconsumer_processor.audit.leases import LeaseFacts
from eventconsumer_processor.errors import HubUnreachable
from eventconsumer_processor.identity.segments import first
from eventconsumer_processor.lease.eventprocessorhost import START_OF_STREAM
from eventconsumer_processor.lease.model import Checkpoint, Lease
from eventconsumer_processor.partition.checkpoint import walk
from eventconsumer_processor.sink.chains import chains_of
from eventconsumer_processor.sink.slots import Chain, utc_now
from eventconsumer_processor.source.hub import Hub, HubInfo
from eventconsumer_processor.tools.consumer import Consumer
from eventconsumer_processor.tools.leases import position_of, state_of
from eventconsumer_processor.tools.model import Position
from eventconsumer_processor.tools.policy import Standing

EPOCH = 0
WAIT_SECONDS = 10.0


class NoSuchPosition(EventConsumerError):  # noqa: N818 - says what it is
    """The hub and the files have no event at this position."""


def chain_of(consumer: Consumer, info: HubInfo, partition: str) -> Chain:
    """A partition's files in the newest segment."""
    segment = consumer.segment or first(info, utc_now())
    return chains_of(consumer.config, info, segment, consumer.sink)(partition)


async def extent(consumer: Consumer, chain: Chain, lease: LeaseFacts | None) -> tuple[int, int | None] | None:
    """Where a chain starts, and the last sequence number in it (None where a handler replaces the files).

    None where it has not begun.

    Raises:
        StorageError: A request failed.
    """
    start = await chain.start()
    if start is None:
        return None
    if consumer.replaced:
        return start, None
    checkpoint = None
    if lease is not None and lease.checkpoint is not None:
        checkpoint = Checkpoint(lease.offset, lease.checkpoint)
    # As if shared: a checkpoint beyond the files is what these commands are to look at.
    end = await walk(chain, start, Lease(chain.partition, checkpoint=checkpoint), shared=True)
    return start, end.next - 1


async def stand(consumer: Consumer, hub: Hub, info: HubInfo, partitions: Sequence[str]) -> dict[str, Standing]:
    """How partitions stand.

    Raises:
        EventConsumerError: A request failed.
    """
    leases, now = await consumer.read_leases(), await consumer.now()
    found = {}
    for partition in partitions:
        lease = leases.get(partition) or LeaseFacts(partition, "")
        reach = await extent(consumer, chain_of(consumer, info, partition), lease)
        retained = await hub.partition(partition)
        found[partition] = Standing(
            partition,
            state_of(lease, consumer.config.leases.layout, now),
            lease.owner or "",
            position_of(lease),
            lease.damage,
            reach[0] if reach else None,
            reach[1] if reach else None,
            retained.earliest,
            retained.last,
        )
    return found


async def by_number(hub: Hub, chain: Chain, number: int) -> Position:
    """The position of an event by its sequence number; -1 is before all events.

    Raises:
        NoSuchPosition: No file ends there, and the hub does not have that event.
        EventConsumerError: A request failed.
    """
    if number < 0:
        return Position(sequence_number=-1, offset=START_OF_STREAM)
    slot = await chain.last_before(number) if await chain.start() is not None else None
    if slot is not None and slot.last == number:
        return Position(sequence_number=number, offset=slot.last_offset)
    found = await _read(hub, chain.partition, number)
    if found is None:
        raise NoSuchPosition(
            f"partition {chain.partition}: the hub has no event {number} any more and no file ends with it, so its "
            "offset is not known: name the end of a file (eventconsumer files), or give its offset by an import"
        )
    return found


async def by_offset(hub: Hub, chain: Chain, offset: str) -> Position:
    """The position of an event by its offset.

    Raises:
        NoSuchPosition: No file ends there, and the hub has no event with that offset.
        EventConsumerError: A request failed.
    """
    if offset == START_OF_STREAM:
        return Position(sequence_number=-1, offset=offset)
    for slot in reversed(await chain.listed() if await chain.start() is not None else []):
        if slot.last_offset == offset:
            return Position(sequence_number=slot.last, offset=offset)
    wanted = HubPosition(type=PositionType.OFFSET, offset=offset)
    number = await hub.locate(chain.partition, wanted, EPOCH) - 1
    found = await _read(hub, chain.partition, number) if number >= 0 else None
    if found is None or found.offset != offset:
        raise NoSuchPosition(
            f"partition {chain.partition}: no event of the hub has the offset {offset}, and no file ends with it: name "
            "the sequence number instead"
        )
    return found


async def _read(hub: Hub, partition: str, number: int) -> Position | None:
    """One event's position; None where the hub does not have the event."""
    info = await hub.partition(partition)
    if not info.earliest <= number <= info.last:
        return None
    source = await hub.open(partition, number - 1, EPOCH, 1)
    try:
        batch = await source.receive(1, WAIT_SECONDS)
    finally:
        await source.close()
    if not len(batch):
        raise HubUnreachable(f"partition {partition} did not give event {number} within {WAIT_SECONDS:.0f} s")
    return Position(sequence_number=batch.first, offset=batch.head(1).last_offset) if batch.first == number else None
