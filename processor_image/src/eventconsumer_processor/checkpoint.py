"""Where a partition goes on: its checkpoint is only a hint, the chain of files is the truth.

On open, a host starts at the checkpoint and follows the chain to its end, adopting files that an earlier owner
committed without writing its checkpoint. Where nothing is decided yet, the starting position is resolved to a sequence
number once, for all hosts, by the genesis record; nothing is ever read from "the latest" directly.
"""

from dataclasses import dataclass

from eventconsumer_api.v1alpha1 import PositionType, StartingPosition
from eventconsumer_processor.lease.model import Checkpoint, Lease
from eventconsumer_processor.sink.slots import Chain, Slot
from eventconsumer_processor.source.hub import Hub


@dataclass(frozen=True, slots=True)
class Resume:
    """The end of a partition's chain."""

    next: int  # expected sequence number of the next event
    last: Slot | None = None  # the last file found beyond the checkpoint
    epoch: int = -1  # highest epoch among those files

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint that the files found allow."""
        return Checkpoint(self.last.last_offset, self.last.last) if self.last else None


async def resume(chain: Chain, lease: Lease, hub: Hub, starting: StartingPosition) -> Resume:
    """Find where to go on.

    Raises:
        StorageError: A request failed, or a blob in the chain is not a file of ours.
        SourceError: The starting position could not be resolved.
    """
    begin = await chain.start()
    if begin is None:
        begin = await chain.begin(await _starting(chain.partition, lease, hub, starting))
    if lease.checkpoint is None:
        return follow(begin, {slot.start: slot for slot in await chain.listed()})
    found: dict[int, Slot] = {}
    start = position = max(begin, lease.checkpoint.sequence_number + 1)
    while slot := await chain.at(position):
        found[position] = slot
        position = slot.last + 1
    return follow(start, found)


def follow(start: int, slots: dict[int, Slot]) -> Resume:
    """Follow a chain through the slots known, by their start."""
    end = Resume(start)
    while slot := slots.get(end.next):
        end = Resume(slot.last + 1, slot, max(end.epoch, slot.epoch))
    return end


async def _starting(partition: str, lease: Lease, hub: Hub, starting: StartingPosition) -> int:
    if lease.checkpoint is not None:  # drained by another program on the same lease before
        return lease.checkpoint.sequence_number + 1
    info = await hub.partition(partition)
    return info.earliest if starting.type is PositionType.EARLIEST else info.last + 1
