"""A replay: a host that reads retained events up to an end into its own chains, and then stops.

A replay uses the same code as any host, with its own leases and files. It sees the hub as if no events had arrived
after the end. A record beside the files (`<prefix>/_replay.json`, written only if absent) stores the end of each
partition, so a restarted replay continues to the same end, and a completed replay has nothing left to do.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import structlog
from pydantic import Field

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.host_config import ReplayConfig
from eventconsumer_api.wire.host_report import PartitionReport
from eventconsumer_api.wire.termination import ReplayTotals
from eventconsumer_host.partition.checkpoint import follow
from eventconsumer_host.sink.slots import Chain
from eventconsumer_host.source.hub import Hub, HubInfo, PartitionInfo, Source
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Damaged

if TYPE_CHECKING:
    from eventconsumer_host.source.batch import EventBatch

LOOK_SECONDS = 1.0
ASK_SECONDS = 10.0  # between two requests whether the hub still retains the missing events
_EPOCH = 0  # to find the end: no other reader uses the replay's consumer group yet
_RECORD_LIMIT = 256 * 1024

log = structlog.get_logger(__name__)


class ReplayRecord(WireDocument):
    """The content of `_replay.json`."""

    ends: dict[str, Annotated[int, Field(strict=True)]] = Field(description="Partition id -> its end, exclusive.")


class BoundedHub:
    """A `Hub` with a subset of the partitions, each up to an end (exclusive)."""

    def __init__(self, hub: Hub, ends: Mapping[str, int]) -> None:
        self.ends = ends
        self._hub = hub

    async def describe(self) -> HubInfo:
        """See `Hub`."""
        return self.narrowed(await self._hub.describe())

    def narrowed(self, info: HubInfo) -> HubInfo:
        """The hub's properties, with the partitions of the replay only."""
        return replace(info, partition_ids=tuple(part for part in info.partition_ids if part in self.ends))

    async def partition(self, partition: str) -> PartitionInfo:
        """See `Hub`."""
        info, end = await self._hub.partition(partition), self.ends[partition]
        if info.last < end:
            return info
        return replace(info, last=end - 1, is_empty=info.is_empty or info.first >= end)

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> Source:
        """See `Hub`."""
        return _BoundedSource(await self._hub.open(partition, after, epoch, prefetch), self.ends[partition])

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """See `Hub`."""
        return min(await self._hub.locate(partition, position, epoch), self.ends[partition])

    async def check_consumer_group(self, partition: str) -> None:
        """See `Hub`."""
        await self._hub.check_consumer_group(partition)

    async def close(self) -> None:
        """See `Hub`."""
        await self._hub.close()


class _BoundedSource:
    """A `Source` up to an end."""

    def __init__(self, source: Source, end: int) -> None:
        self._source = source
        self._end = end

    async def receive(self, max_events: int, max_wait: float) -> "EventBatch":
        """See `Source`."""
        batch = await self._source.receive(max_events, max_wait)
        return batch.head(int((batch.numbers < self._end).sum()))

    def hurry(self) -> None:
        """See `Source`."""
        self._source.hurry()

    async def close(self) -> None:
        """See `Source`."""
        await self._source.close()

    async def abandon(self) -> None:
        """See `Source`."""
        await self._source.abandon()


async def bounded_hub(hub: Hub, info: HubInfo, config: ReplayConfig, sink: BlobStore, prefix: str) -> BoundedHub:
    """The hub, limited to the partitions and ends of a replay.

    Raises:
        Blocked: The hub lacks a requested partition.
        EventConsumerError: The ends could not be determined or recorded.
    """
    if missing := sorted(set(config.partitions) - set(info.partition_ids)):
        raise Blocked(
            "spec.replay.partitions",
            Reason.SPEC_INVALID,
            f"the hub has no partition {', '.join(missing)}: it has {', '.join(info.partition_ids)}",
        )
    name = f"{prefix}/_replay.json"
    if (ends := await _recorded(sink, name)) is None:
        wanted = config.partitions or info.partition_ids
        found = await asyncio.gather(*(_end(hub, partition, config) for partition in wanted))
        ends = dict(zip(wanted, found, strict=True))
        try:
            await sink.put(name, ReplayRecord(ends=ends).to_json().encode(), if_absent=True)
        except Conflict:
            ends = await _recorded(sink, name) or ends
    return BoundedHub(hub, ends)


async def completed(hub: BoundedHub, reports: Callable[[], Sequence[PartitionReport]]) -> None:
    """Return when all events up to the ends were received, or were removed by retention."""
    clock = asyncio.get_running_loop().time
    missing, asked = set(hub.ends), clock()
    while missing:
        for report in reports():
            received = -1 if report.sequence_number is None else report.sequence_number
            if max(report.next_sequence_number or 0, received + 1) >= hub.ends[report.id]:
                missing.discard(report.id)
        if missing and clock() - asked >= ASK_SECONDS:
            asked = clock()
            missing -= {partition for partition in missing if await _removed(hub, partition)}
        await asyncio.sleep(LOOK_SECONDS)


async def totals(hub: BoundedHub, chain: Callable[[str], Chain]) -> ReplayTotals | None:
    """Count the files and their events; None if a partition's files do not reach its end.

    Raises:
        StorageError: A request failed.
    """
    files = events = 0
    for partition, end in hub.ends.items():
        slots = {slot.start: slot for slot in await chain(partition).listed()}
        files += len(slots)
        events += sum(slot.count for slot in slots.values())
        start = await chain(partition).start()
        if start is None or (follow(start, slots).next < end and not await _removed(hub, partition)):
            return None
    return ReplayTotals(files=files, events=events)


async def _removed(hub: BoundedHub, partition: str) -> bool:
    """Whether retention removed all events before the end."""
    try:
        return (await hub.partition(partition)).earliest >= hub.ends[partition]
    except EventConsumerError as error:
        log.warning("failed to read the properties of a partition; retrying", partition=partition, error=str(error))
        return False


async def _end(hub: Hub, partition: str, config: ReplayConfig) -> int:
    info = await hub.partition(partition)
    if config.to is None:
        return info.last + 1
    until = Position(type=PositionType.ENQUEUED_TIME, enqueued_time=config.to)
    return min(info.last + 1, await hub.locate(partition, until, _EPOCH))


async def _recorded(sink: BlobStore, name: str) -> dict[str, int] | None:
    blob = await sink.read(name, _RECORD_LIMIT)
    if blob is None:
        return None
    try:
        return parse_ends(blob.data)
    except ValueError:
        raise Damaged(f"the record of the replay, blob {name}, cannot be read: use another name") from None


def parse_ends(data: bytes) -> dict[str, int]:
    """PURE: the end of each partition in the record of a replay.

    Raises:
        ValueError: It cannot be read.
    """
    return ReplayRecord.model_validate_json(data).ends
