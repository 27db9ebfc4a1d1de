"""Begins the next segment of a chain: the decisions of `hub accept` and `hub reposition`.

`hub accept` continues with a hub that has other events under the numbers that are in files. `hub reposition` applies a
changed `spec.startingPosition` to partitions without a file; the others continue where they are.

In every partition a seal ends the old segment, so that a host of the old segment can no longer commit there. Then the
record of the next segment is written. It contains the start of each partition: after the last event that files and hub
have in common, so that every event that is now in the hub and in no file is read once. A missing record of the leases
is restored before; without it, hosts would compare checkpoints of the old segment with the hub's events, and refuse the
leases. An interrupted run can be repeated: seals stay, and each segment number has one record.

The last common event is looked for in the newest segment first. A hub that lost all its events of that segment may
still have events in files of earlier segments, and these must not be read twice.

A partition without a file needs a new segment, too: a paused host that knows the old start could still write the first
file there, outside of a chain with another start. The seal takes this name.
"""

import io
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import EventMark, PartitionBreak, SegmentRecord
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.identity.records import lease_record, read_chain, restore_lease_record
from eventconsumer_host.identity.segments import name_of, write
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.partition import marks
from eventconsumer_host.partition.checkpoint import Resume, begin, mark_at, starting_genesis, walk, with_number
from eventconsumer_host.sink.formats import files_of
from eventconsumer_host.sink.slots import Chain, Genesis, Slot, segment_id
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.first import first_from
from eventconsumer_host.source.hub import Hub, HubInfo, PartitionInfo
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.confined.reader import Blobs, Reader, Unreadable, whole
from eventconsumer_storage.errors import Damaged
from eventconsumer_storage.lease_time import boottime

EPOCH = 0  # no host holds a lease during this command, and the epochs of hosts are higher
WAIT_SECONDS = 10.0
AT_A_TIME = 300  # events
ROWS_BYTES = 64 * 1024**2  # of the rows of a file: a million have 45 MB
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


Row = tuple[int, str, int]
"""Number, offset and enqueued time (milliseconds since 1970) of a row of a file."""
Decode = Callable[[str, Blobs], Awaitable[list[Row]]]
"""Reads the rows of a file, by its name and content."""


async def decode(name: str, content: Blobs) -> list[Row]:
    """See `Decode`. A child reads it: another program may have written it."""
    kind = "avro" if name.endswith(".avro") else "parquet"
    running = Reader().run(f"eventconsumer_tools.commands.{kind}rows:rows", [content], most=ROWS_BYTES)
    return [tuple(json.loads(row)) for row in io.BytesIO(await whole(running))]


@dataclass(frozen=True)
class Ends:
    """One partition, in its files and in the hub.

    Attributes:
        partition: Its id.
        begun: Whether it has a chain.
        files_end: The last event in files, or in the checkpoint if there are no files.
        hub_end: The hub's last event.
        earliest: The first sequence number that the hub retains.
        diverged: Whether the hub does not have `files_end`.
        common: Last sequence number at which both have the same event; -1: none, or unknown.
        common_event: The event at `common`; None: unknown.
        start: Where the next segment starts.
        slot: Where the next file of this segment would go.
        foreign: Whether another program processed events after the end of the files.
        sealed: Whether this segment has a seal.
        repositioned: Whether it has no file, and `start` is another one by `spec.startingPosition`.
    """

    partition: str
    begun: bool
    files_end: EventMark
    hub_end: EventMark
    earliest: int
    diverged: bool
    common: int
    start: int
    slot: int
    common_event: EventMark | None = None
    foreign: bool = False
    sealed: bool = False
    repositioned: bool = False

    @property
    def gone(self) -> int:
        """The number of sequence numbers in files that name other events, or no event, in the hub now."""
        return 0 if self.repositioned else max(0, self.files_end.sequence_number - self.start + 1)

    @property
    def ahead(self) -> int:
        """The number of sequence numbers from `start` to the hub's end."""
        return max(0, self.hub_end.sequence_number - self.start + 1)


@dataclass(frozen=True)
class Accepting:
    """A consumer whose hosts are stopped.

    Attributes:
        config: The configuration of its hosts.
        hub: Its hub.
        info: The hub's current properties.
        sink: The container of the files.
        lease_blobs: The container of the leases.
        segments: Of the chain, the newest last.
        leases: Leases by partition; leases that were never acquired are missing.
        decode: Reads a file, by its name and content.
        reposition: Whether partitions without a file begin at `spec.startingPosition` of now.
    """

    config: HostConfig
    hub: Hub
    info: HubInfo
    sink: BlobStore
    lease_blobs: BlobStore
    segments: Sequence[SegmentRecord]
    leases: Mapping[str, Lease]
    decode: Decode = decode
    reposition: bool = False

    async def examine(self) -> list[Ends]:
        """The ends of each partition. Read-only.

        Raises:
            SourceError: The hub did not respond.
            StorageError: A request failed, or a blob in the chain is not a file of a host.
        """
        newest = self.segments[-1]
        return [await self._examine(self._chain(partition, newest)) for partition in self.info.partition_ids]

    async def accept(self, now: datetime) -> tuple[SegmentRecord, list[Ends]]:
        """End the newest segment in every partition, and write the next one.

        Args:
            now: Wall clock.

        Returns:
            The record of the segment, and the ends of each partition when it was sealed.

        Raises:
            Conflict: Another run wrote the record at the same time.
            SourceError: The hub did not respond.
            StorageError: A request failed: run it again.
        """
        ends = [await self._end(partition) for partition in self.info.partition_ids]
        number = self.segments[-1].number + 1
        segment = SegmentRecord(
            number=number,
            segment_id=segment_id(self.info, number),
            hub=name_of(self.info),
            breaks={
                end.partition: PartitionBreak(
                    start=end.start,
                    files_end=end.files_end,
                    hub_end=end.hub_end,
                    common=end.common,
                    common_event=end.common_event,
                    repositioned=end.repositioned,
                )
                for end in ends
            },
            since=now,
        )
        await self._restore_lease_record(now)
        await write(self.sink, self.config.sink.prefix, segment)
        return segment, ends

    async def _restore_lease_record(self, now: datetime) -> None:
        chain = await read_chain(self.sink, self.config.sink.prefix)
        if chain is not None:
            store = lease_store(self.config, self.info, self.lease_blobs, boottime)
            name, account, spelling = chain.record.chain, self.sink.account, await store.spelling()
            record = lease_record(self.config, self.info, name, account, now, spelling=spelling)
            await restore_lease_record(self.lease_blobs, store.folder, record)

    def _chain(self, partition: str, segment: SegmentRecord) -> Chain:
        return files_of(self.config, self.info, segment, self.sink)[1](partition)

    def _lease(self, partition: str) -> Lease:
        return self.leases.get(partition) or Lease(partition)

    async def _end(self, partition: str) -> Ends:
        chain, lease = self._chain(partition, self.segments[-1]), self._lease(partition)
        lease = await with_number(lease, chain, self.hub, self.config)
        await begin(chain, lease, self.hub, self.config.starting_position, datetime.now(UTC))
        encode = files_of(self.config, self.info, self.segments[-1], self.sink)[0]
        empty = b"".join(encode([], partition, {}))
        end = await self._examine(chain)
        while not await chain.seal(end.slot, empty):
            end = await self._examine(chain)  # a file was written to this slot
        return end

    async def _examine(self, chain: Chain) -> Ends:
        genesis, lease = await chain.genesis(), self._lease(chain.partition)
        info = await self.hub.partition(chain.partition)
        if self.reposition and (moved := await self._repositioned(chain, genesis, lease, info)):
            return moved
        if genesis is None:
            none, end = EventMark(sequence_number=-1), marks.end_of(info)
            return Ends(chain.partition, False, none, end, info.earliest, False, -1, info.earliest, info.earliest)
        reach = await self._reach(chain, genesis, lease)
        reader = _Reader(self.hub, chain.partition, info)
        ours = reach.mark or EventMark(sequence_number=reach.expected - 1)
        same = await reader.has(reach.mark) if reach.mark else None
        if info.last < ours.sequence_number:
            same = False
        elif same is None:  # no event to compare: use the creation time
            same = reach.expected == 0 or self.info.created_at == self.segments[-1].hub.created_at
        common, common_event, start = ours.sequence_number, reach.mark if same else None, reach.expected
        if not same and ours.sequence_number >= info.earliest:
            common_event = await self._last_common(chain.partition, reader)
            common = common_event.sequence_number if common_event else -1
            # Without a common event, the hub may also have lost events from before the first file, and have others
            # under their numbers: only a start at the earliest event reads all of them.
            start = common_event.sequence_number + 1 if common_event else info.earliest
        return Ends(
            chain.partition,
            begun=True,
            files_end=ours,
            hub_end=marks.end_of(info),
            earliest=info.earliest,
            diverged=not same,
            common=common,
            start=start,
            slot=reach.next,
            common_event=common_event,
            foreign=reach.skipped is not None,
            sealed=await chain.is_sealed(reach.next),
        )

    async def _repositioned(
        self, chain: Chain, genesis: Genesis | None, lease: Lease, info: PartitionInfo
    ) -> Ends | None:
        """The ends of a partition that has begun and has no file; None: it is another one."""
        if genesis is None and chain.opening is not None:  # no host has opened it in this segment yet
            genesis = Genesis(start=chain.opening.start, before=chain.opening.before)
        if genesis is None or lease.checkpoint is not None:  # a checkpoint, also of another program, decided the start
            return None
        for segment in self.segments:
            if await self._chain(chain.partition, segment).listed():
                return None
        starting, now = self.config.starting_position, datetime.now(UTC)
        wanted = await starting_genesis(chain.partition, lease, self.hub, starting, now)
        return Ends(
            chain.partition,
            begun=True,
            files_end=EventMark(sequence_number=genesis.start - 1),
            hub_end=marks.end_of(info),
            earliest=info.earliest,
            diverged=False,
            common=wanted.before.sequence_number if wanted.before else -1,
            common_event=wanted.before,
            start=wanted.start,
            slot=genesis.start,
            sealed=await chain.is_sealed(genesis.start),
            repositioned=wanted.start != genesis.start,
        )

    async def _reach(self, chain: Chain, genesis: Genesis, lease: Lease) -> Resume:
        if self.config.processing.handler is None or self.config.processing.handler_mode is not HandlerMode.REPLACE:
            return await walk(chain, genesis, lease, shared=True)
        start = genesis.start
        position = max(start, lease.checkpoint.sequence_number + 1) if lease.checkpoint else start
        return Resume(position, mark=mark_at(chain, genesis, lease, position))

    async def _last_common(self, partition: str, reader: "_Reader") -> EventMark | None:
        """The last event that is in the files of any segment and in the hub; None: no event is in both."""
        for segment in reversed(self.segments):
            found = await last_common(self._chain(partition, segment), reader, self.decode)
            if found is not None:
                return found
        return None


async def last_common(chain: Chain, reader: "_Reader", decode: Decode) -> EventMark | None:
    """The last event that is in the files of a chain and in the hub; None: they have no event in common.

    A hub that lost its last events and received new ones has the events of the files up to some event, and other events
    after it. So the ends of files are compared by bisection, and then the rows of the file in which they diverge.

    Raises:
        SourceError: The hub did not respond.
        StorageError: A file could not be read.
    """
    slots = [slot for slot in await chain.listed() if slot.last >= reader.info.earliest]
    low, high = 0, len(slots)  # before `low`: the same; from `high` on: different
    while low < high:
        middle = (low + high) // 2
        known, at = None, middle
        for at in range(middle, high):
            known = await reader.has(slots[at].mark)
            if known is not None:  # else log compaction removed it
                break
        if known:
            low = at + 1
        else:
            high = middle
    common = slots[low - 1].mark if low else None
    for slot in slots[low:]:
        rows = await _rows(chain, slot, decode) if slot.first <= reader.info.last else {}
        last, diverged = await _last_in(slot, rows, reader)
        common = last or common
        if diverged:
            break
    return common


async def _last_in(slot: Slot, rows: Mapping[int, EventMark], reader: "_Reader") -> tuple[EventMark | None, bool]:
    """The last row of a file that the hub has, and whether the hub has a different event after it, or ends there."""
    found = None
    for event in await reader.between(slot.first, slot.last):
        ours = rows.get(event.sequence_number)
        if ours is None and slot.dropped:
            continue  # the handler may have dropped it: nothing to compare
        if ours is None or marks.same(ours, event) is False:
            return found, True
        found = event
    return found, reader.info.last <= slot.last


async def _rows(chain: Chain, slot: Slot, decode: Decode) -> dict[int, EventMark]:
    """The events of a file by their number; none if it is a tombstone."""
    if slot.tombstone:
        return {}
    content = await chain.content(slot)
    if content is None:
        raise Damaged(f"file {slot.path} is missing: restore it from a backup")
    try:
        found = await decode(slot.path, content)
    except Unreadable as error:
        raise Damaged(f"file {slot.path} cannot be read: restore it from a backup ({error})") from error
    return {number: _mark(number, offset, time) for number, offset, time in found}


class _Reader:
    """Reads events of a partition that has no other reader."""

    def __init__(self, hub: Hub, partition: str, info: PartitionInfo) -> None:
        self.info = info
        self._hub = hub
        self._partition = partition

    async def has(self, mark: EventMark) -> bool | None:
        """Whether the hub has this event; None: it has no event with this number any more, or cannot be compared.

        Raises:
            SourceError: The hub did not respond.
        """
        number = mark.sequence_number
        if number > self.info.last:
            return False
        if number < self.info.earliest:
            return None
        source = await self._hub.open(self._partition, number - 1, EPOCH, 1)
        try:
            found = await first_from(source, number, WAIT_SECONDS)
        finally:
            await source.close()
        if found is not None:
            return marks.same(mark, marks.last_of(found)) if found.first == number else None
        if number == self.info.last:  # log compaction may have removed it
            return marks.same(mark, marks.end_of(self.info))
        raise self._silent(number)

    async def between(self, first: int, last: int) -> list[EventMark]:
        """The events that the hub has from `first` to `last`, or to its end.

        Raises:
            SourceError: The hub did not respond.
        """
        first, last = max(first, self.info.earliest), min(last, self.info.last)
        found: list[EventMark] = []
        if first > last:
            return found
        source = await self._hub.open(self._partition, first - 1, EPOCH, AT_A_TIME)
        try:
            reached = first - 1
            while reached < last:
                batch = await source.receive(AT_A_TIME, WAIT_SECONDS)
                if not len(batch):
                    if self.info.last == last:  # log compaction may have removed the newest events
                        break
                    raise self._silent(reached + 1)
                found += [mark for mark in _marks(batch.rising().after(reached)) if mark.sequence_number <= last]
                reached = max(reached, batch.last)
        finally:
            await source.close()
        return found

    def _silent(self, number: int) -> HubUnreachable:
        return HubUnreachable(
            f"event {number} of partition {self._partition} did not arrive within {WAIT_SECONDS:.0f} s: run this again"
        )


def _marks(batch: EventBatch) -> list[EventMark]:
    rows = batch.rows()
    return [
        _mark(number, offset, time)
        for number, offset, time in zip(rows.sequence_numbers, rows.offsets, rows.enqueued_ms, strict=True)
    ]


def _mark(number: int, offset: str, milliseconds: int) -> EventMark:
    return EventMark(sequence_number=number, offset=offset, enqueued_time=_EPOCH + timedelta(milliseconds=milliseconds))
