"""Checkpoints of a partition: the position from which it continues, and the times of new checkpoints.

A checkpoint is only a hint to the position; the chain of files decides.

A new owner starts at the checkpoint and follows the chain to its end: it adopts files that an earlier owner committed
without a checkpoint. For a partition without a chain, the genesis record resolves the starting position to a sequence
number once, for all hosts; no link is opened at "latest", or at a time that has not come. In a later segment, the
segment's record defines the start.

A checkpoint must be the end of a file. A checkpoint inside a file is followed forward. A checkpoint beyond the end of
the chain would skip events and is rejected, unless other programs share the leases: they have processed the events
between, which are recorded as a gap.

`CheckpointSchedule` is a pure rule on the events that are done but not checkpointed.

A checkpoint is possible only where all earlier events are safe: after a committed file or, without files, after a batch
that the handler processed. The policy decides at these moments whether to write a checkpoint:

    File, Batch   always
    Events        after `events` events since the last checkpoint
    Interval      when the oldest event since the last checkpoint was done `seconds` seconds ago

With files, Batch is the same as File: a batch is safe when its file is. After a crash, events after the checkpoint are
read again. With files this only costs time, as no event is written twice. Without files the handler processes the
events again.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

import structlog

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import (
    CheckpointPolicy,
    CheckpointRule,
    HandlerMode,
    Position,
    PositionType,
    StartingPosition,
)
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_api.wire.legacylease import START_OF_STREAM
from eventconsumer_host import problems
from eventconsumer_host.errors import ChainEnded, PositionRefused, StartsLater
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.partition import marks
from eventconsumer_host.sink.gaps import Gap, GapReason
from eventconsumer_host.sink.slots import Chain, Genesis, Slot
from eventconsumer_host.source.byoffset import number_at
from eventconsumer_host.source.causes import is_about_position
from eventconsumer_host.source.hub import CLOCKS_DIFFER, Hub, PartitionInfo

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Resume:
    """The end of a partition's chain."""

    next: int  # start of the next slot
    last: Slot | None = None  # the last file found after the checkpoint
    epoch: int = -1  # highest epoch of the files found
    skipped: Gap | None = None  # events after the chain's end that another program processed
    mark: EventMark | None = None  # the event before `expected`, to recognise the hub; None: unknown

    @property
    def expected(self) -> int:
        """Sequence number of the next event to read."""
        return self.skipped.last + 1 if self.skipped else self.next

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint at the last file found; None: no file was found."""
        return Checkpoint(self.last.last_offset, self.last.last) if self.last else None


async def enter(held: HeldLease, chain: Chain, hub: Hub, config: HostConfig) -> Lease:
    """Read the lease, and make sure that its checkpoint belongs to this segment of the chain, and has a number.

    A checkpoint of the previous segment is set back before the genesis record is written. So where a genesis record
    exists, the checkpoint belongs to this segment.

    Raises:
        Blocked: The checkpoint has only an offset, and there is no event with it.
        ChainEnded: The chain continues in the next segment.
        LeaseLost: This host does not hold the lease.
        SourceError: The hub did not respond.
        StorageError: A request failed.
    """
    if await chain.is_superseded():
        raise ChainEnded(chain.partition)
    lease, opening = await held.refresh(), chain.opening
    if opening is not None and lease.checkpoint is not None and await chain.start() is None:
        offset = opening.before.offset if opening.before else ""
        await held.rewind(Checkpoint(offset if opening.start else START_OF_STREAM, opening.start - 1))
        lease = held.lease
    placed = await with_number(lease, chain, hub, config)
    if placed.checkpoint is not None and placed.checkpoint != lease.checkpoint:
        await held.rewind(placed.checkpoint)
        lease = held.lease
    return lease


async def with_number(lease: Lease, chain: Chain, hub: Hub, config: HostConfig) -> Lease:
    """The lease, with the sequence number of its checkpoint, which is found by the offset where only that is valid.

    Once the chain has begun, a number 0 is valid (its first host found or wrote it), and files need no checkpoint: an
    unknown one is a program's that shares the leases, and its events are read, too.

    Raises:
        Blocked: There is no event with this offset.
        SourceError: The hub did not respond.
        StorageError: A request failed.
    """
    checkpoint = lease.checkpoint
    if checkpoint is None or not checkpoint.needs_offset(config.leases.layout):
        return lease
    begun, processing = await chain.start() is not None, config.processing
    replaced = processing.handler is not None and processing.handler_mode is HandlerMode.REPLACE
    if begun and (checkpoint.sequence_number >= 0 or not (replaced or config.leases.shared)):
        return lease
    found = await by_offset(hub, chain, checkpoint.offset, lease.epoch)
    if found is None and begun and not replaced:
        return lease
    if found is None:
        problem = problems.offset_not_found(config.resource, chain.partition, checkpoint.offset)
        raise Blocked(problem.field, Reason(problem.reason), problem.message)
    log.info("found the number of the checkpoint by its offset", partition=chain.partition, number=found)
    return replace(lease, checkpoint=Checkpoint(checkpoint.offset, found))


async def by_offset(hub: Hub, chain: Chain, offset: str, epoch: int) -> int | None:
    """Sequence number of an event by its offset, from the files and the hub; None: neither has such an event.

    Raises:
        SourceError: The hub did not respond.
        StorageError: A request failed.
    """
    for slot in reversed(await chain.listed() if await chain.start() is not None else []):
        if slot.last_offset == offset:
            return slot.last
    return await number_at(hub, chain.partition, offset, epoch)


def mark_at(chain: Chain, genesis: Genesis, lease: Lease, position: int) -> EventMark | None:
    """The event before `position`, from the record of segment or genesis, or the lease; None if it is unknown."""
    opening, reached = chain.opening, lease.checkpoint
    for mark in (opening.before if opening else None, genesis.before):
        if mark is not None and 0 <= mark.sequence_number == position - 1:
            return mark
    if reached is not None and 0 <= reached.sequence_number == position - 1 and reached.offset:
        return EventMark(sequence_number=reached.sequence_number, offset=reached.offset)
    return None


async def resume(
    chain: Chain, lease: Lease, hub: Hub, starting: StartingPosition, now: datetime | None, *, shared: bool = False
) -> Resume:
    """Find the end of the chain; begin the chain if necessary.

    Args:
        chain: The partition's files.
        lease: Its current lease.
        hub: For a starting position.
        starting: The starting position of a partition without a chain.
        now: See `begin`.
        shared: Whether other programs write checkpoints too.

    Raises:
        Blocked: The checkpoint would skip events.
        StartsLater: See `begin`.
        StorageError: A request failed, or a blob in the chain is not a file of this consumer.
        SourceError: The starting position could not be resolved.
    """
    return await walk(chain, await begin(chain, lease, hub, starting, now), lease, shared=shared)


async def walk(chain: Chain, genesis: Genesis, lease: Lease, *, shared: bool = False) -> Resume:
    """Find the end of an existing chain. Reads only.

    Args:
        chain: The partition's files.
        genesis: Where it starts.
        lease: Its current lease.
        shared: Whether other programs write checkpoints too.

    Raises:
        Blocked: The checkpoint would skip events.
        StorageError: A request failed, or a blob in the chain is not a file of this consumer.
    """
    start = genesis.start
    if lease.checkpoint is None or lease.checkpoint.sequence_number < start:
        found_end = follow(start, {slot.start: slot for slot in await chain.listed()})
        return found_end if found_end.last else replace(found_end, mark=mark_at(chain, genesis, lease, start))
    reached = lease.checkpoint.sequence_number
    found: dict[int, Slot] = {}
    if await chain.at(reached + 1) is None:
        before = await chain.last_before(reached)
        if before is None or before.last < reached:
            end = before.last + 1 if before else start
            if not shared:
                problem = problems.checkpoint_above_end(chain.partition, reached, end - 1)
                raise Blocked(problem.field, Reason(problem.reason), problem.message)
            epoch = before.epoch if before else -1
            skipped = Gap(end, reached, GapReason.FOREIGN)
            return Resume(end, epoch=epoch, skipped=skipped, mark=mark_at(chain, genesis, lease, reached + 1))
        found[before.start] = before
        position = before.start
    else:
        position = reached + 1
    following = found[position].last + 1 if position in found else position
    while slot := await chain.at(following):
        found[following] = slot
        following = slot.last + 1
    return follow(position, found)


def follow(start: int, slots: dict[int, Slot]) -> Resume:
    """Follow a chain through the given slots, by their start."""
    end = Resume(start)
    while slot := slots.get(end.next):
        end = Resume(slot.last + 1, slot, max(end.epoch, slot.epoch), mark=slot.mark)
    return end


async def begin(chain: Chain, lease: Lease, hub: Hub, starting: StartingPosition, now: datetime | None) -> Genesis:
    """The start of the partition's chain, decided once for all hosts.

    Args:
        chain: The partition's files.
        lease: Its current lease.
        hub: For the starting position.
        starting: The starting position.
        now: Wall clock, if the hub does not tell its time; None: no event will come, so all times have come.

    Raises:
        StartsLater: It begins at a time that has not come. Nothing is recorded, so the event is found when it has.
        StorageError: A request failed.
        SourceError: The starting position could not be resolved.
    """
    genesis = await chain.genesis()
    if genesis is not None:
        return genesis
    if chain.opening is not None:
        return await chain.begin(chain.opening.start)
    if lease.checkpoint is not None:  # another program has read the partition
        return await chain.begin(lease.checkpoint.sequence_number + 1)
    found = await starting_genesis(chain.partition, lease, hub, starting, now)
    return await chain.begin(found.start, found.before)


async def starting_genesis(
    partition: str, lease: Lease, hub: Hub, starting: StartingPosition, now: datetime | None
) -> Genesis:
    """Where the starting position is in the hub now; for `now` see `begin`.

    Raises:
        Blocked: The position does not exist.
        StartsLater: It is a time that has not come.
        SourceError: The hub did not respond.
    """
    info = await hub.partition(partition)
    if now is not None:
        _check_time(partition, starting.partitions.get(partition, starting), info, now)
    start = await _resolve(partition, lease, hub, starting, info)
    return Genesis(start, marks.end_of(info) if 0 <= info.last == start - 1 else None)


def _check_time(partition: str, wanted: Position, info: PartitionInfo, now: datetime) -> None:
    """Check that a starting time has come: an event from then on is there, or none from before can follow.

    Event Hubs documents no meaning of a time in the future, and a link only starts at a time: it does not filter
    (EventPosition.FromEnqueuedTime in azure-sdk-for-net). So the partition has no start until then.

    Raises:
        StartsLater: It has not.
    """
    when = wanted.enqueued_time
    if when is None or info.last_enqueued_time >= when:
        return
    if (info.read_at or now) < when + CLOCKS_DIFFER:
        raise StartsLater(partition, when)


async def _resolve(partition: str, lease: Lease, hub: Hub, starting: StartingPosition, info: PartitionInfo) -> int:
    wanted = starting.partitions.get(partition, starting)
    match wanted.type:
        case PositionType.LATEST:
            return info.last + 1
        case PositionType.SEQUENCE_NUMBER if wanted.sequence_number is not None:
            if wanted.sequence_number > info.last + 1:
                problem = problems.start_beyond_end(partition, wanted.sequence_number, info.last)
                raise Blocked(problem.field, Reason(problem.reason), problem.message)
            return max(info.earliest, wanted.sequence_number)
        case PositionType.ENQUEUED_TIME | PositionType.OFFSET:
            try:
                return await hub.locate(partition, wanted, lease.epoch)
            except PositionRefused as error:
                if not is_about_position(error):
                    raise
                field = "offset" if wanted.type is PositionType.OFFSET else "enqueuedTime"
                problem = problems.start_refused(partition, field, error)
                raise Blocked(problem.field, Reason(problem.reason), problem.message) from error
    return info.earliest


class CheckpointSchedule:
    """The schedule of one partition. Times are seconds of any monotonic clock."""

    def __init__(self, rule: CheckpointRule, *, replaces_files: bool) -> None:
        """Create a schedule without events.

        Args:
            rule: `processing.checkpoint`.
            replaces_files: Whether the handler replaces the files: it determines the default policy.
        """
        default = CheckpointPolicy.BATCH if replaces_files else CheckpointPolicy.FILE
        self._policy = rule.policy or default
        self._rule = rule
        self._moment = "batch" if replaces_files else "file"
        self._events = 0
        self._since: float | None = None

    @property
    def automatic(self) -> bool:
        """Whether the host writes checkpoints; otherwise only the handler does."""
        return self._policy is not CheckpointPolicy.HANDLER

    def note(self, events: int, now: float) -> None:
        """Record that events are done that no checkpoint covers."""
        if events and self._since is None:
            self._since = now
        self._events += events

    def due(self, now: float, at: Literal["file", "batch"]) -> bool:
        """Whether to write a checkpoint now.

        Args:
            now: The time.
            at: What was completed: a file or a batch. Also called while no events arrive, so that an interval ends.
        """
        if self._since is None or at != self._moment:
            return False
        match self._policy:
            case CheckpointPolicy.EVENTS:
                return self._events >= self._rule.events
            case CheckpointPolicy.HANDLER:
                return False
            case CheckpointPolicy.INTERVAL:
                return now - self._since >= self._rule.seconds
        return True

    def written(self, now: float) -> None:
        """Record that a checkpoint covers all events that are done."""
        del now  # an interval starts with the next event that is done
        self._events = 0
        self._since = None
