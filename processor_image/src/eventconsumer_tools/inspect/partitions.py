"""Reads the state of partitions, and completes positions, from leases, files and the hub.

An offset has no order. If no file ends at a position, one event is read from the hub to find the offset of a sequence
number or the reverse. The reader has epoch 0, so a reader of the same consumer group without an epoch is disconnected:
callers do this only where no host holds the partition's lease.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.wire.legacylease import START_OF_STREAM
from eventconsumer_host.identity.segments import first
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.partition import checkpoint
from eventconsumer_host.partition.checkpoint import walk
from eventconsumer_host.sink.chains import chains_of
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_host.source.byoffset import offset_at
from eventconsumer_host.source.hub import Hub, HubInfo
from eventconsumer_tools.inspect.consumer import OpenConsumer
from eventconsumer_tools.inspect.leases import CheckpointPosition, LeaseState, LeaseView

EPOCH = 0


class NoSuchPosition(EventConsumerError):  # noqa: N818 - the name describes the state
    """The hub and the files have no event at this position."""


@dataclass(frozen=True)
class PartitionState:
    """One partition, before a command writes anything.

    Attributes:
        partition: Its id.
        state: Of its lease.
        owner: Of its lease; empty: none.
        checkpoint: Of its lease.
        damage: Why the lease cannot be read.
        start: Where the chain of files starts; None: it has not begun.
        end: Last sequence number in a file; None: it has not begun.
        earliest: Sequence number of the first event that the hub still has.
        head: The hub's last sequence number.
    """

    partition: str
    state: LeaseState
    owner: str = ""
    checkpoint: CheckpointPosition | None = None
    damage: str = ""
    start: int | None = None
    end: int | None = None
    earliest: int = 0
    head: int = -1


def chain_of(consumer: OpenConsumer, info: HubInfo, partition: str) -> Chain:
    """A partition's files in the newest segment."""
    segment = consumer.segment or first(info, utc_now())
    return chains_of(consumer.config, info, segment, consumer.sink)(partition)


async def extent(consumer: OpenConsumer, chain: Chain, lease: LeaseView) -> tuple[int, int | None] | None:
    """Where a chain starts, and the last sequence number in it (None where a handler replaces the files).

    None where it has not begun.

    Raises:
        StorageError: A request failed.
    """
    genesis = await chain.genesis()
    if genesis is None:
        return None
    if consumer.replaced:
        return genesis.start, None
    # As if shared: these commands show checkpoints beyond the files.
    end = await walk(chain, genesis, lease.lease, shared=True)
    return genesis.start, end.next - 1


async def read_partitions(
    consumer: OpenConsumer, hub: Hub, info: HubInfo, partitions: Sequence[str]
) -> dict[str, PartitionState]:
    """The state of partitions.

    Raises:
        EventConsumerError: A request failed.
    """
    leases, now = await consumer.read_leases(), await consumer.now()
    found = {}
    for partition in partitions:
        lease = leases.get(partition) or LeaseView(Lease(partition))
        reach = await extent(consumer, chain_of(consumer, info, partition), lease)
        retained = await hub.partition(partition)
        found[partition] = PartitionState(
            partition,
            lease.state(now),
            lease.lease.owner,
            lease.position,
            lease.damage,
            reach[0] if reach else None,
            reach[1] if reach else None,
            retained.earliest,
            retained.last,
        )
    return found


async def by_number(hub: Hub, chain: Chain, number: int) -> CheckpointPosition:
    """The position of an event by its sequence number; -1 is before all events.

    Raises:
        NoSuchPosition: No file ends there, and the hub does not have that event.
        EventConsumerError: A request failed.
    """
    if number < 0:
        return CheckpointPosition(sequence_number=-1, offset=START_OF_STREAM)
    slot = await chain.last_before(number) if await chain.start() is not None else None
    if slot is not None and slot.last == number:
        return CheckpointPosition(sequence_number=number, offset=slot.last_offset)
    offset = await offset_at(hub, chain.partition, number, EPOCH)
    if offset is None:
        raise NoSuchPosition(
            f"partition {chain.partition}: the hub no longer has event {number} and no file ends with it, so its "
            "offset is unknown: use the end of a file (eventconsumer files), or specify the offset with an import"
        )
    return CheckpointPosition(sequence_number=number, offset=offset)


async def by_offset(hub: Hub, chain: Chain, offset: str) -> CheckpointPosition:
    """The position of an event by its offset.

    Raises:
        NoSuchPosition: No file ends there, and the hub has no event with that offset.
        EventConsumerError: A request failed.
    """
    if offset == START_OF_STREAM:
        return CheckpointPosition(sequence_number=-1, offset=offset)
    number = await checkpoint.by_offset(hub, chain, offset, EPOCH)
    if number is None:
        raise NoSuchPosition(
            f"partition {chain.partition}: no event of the hub has the offset {offset}, and no file ends with it: use "
            "the sequence number instead"
        )
    return CheckpointPosition(sequence_number=number, offset=offset)
