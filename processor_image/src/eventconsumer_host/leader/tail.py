"""Follows the files of every partition, once for all tasks of the leading host.

A `Follower` knows the end of one partition's files in one segment. It is the only reader of the chain in the leading
host: tasks take the files from a position of their own, and the newest of them are in memory. What is behind by more
than `FOLLOWED` files is read with one listing instead of a request for each file.

A next file is only asked for where there may be one:

    a checkpoint, or a commit of this host, is behind the known end: at once
    the hub has events behind the known end, or does not answer: again after `LookPace.pause`
    the hub had no further event: never, apart from `LookPace.quiet` seconds after a file, in which events are expected

So a partition that is complete costs no request. Segments before the newest one have ended: `hub accept` seals them
before it writes the next one. They are read once, and have no new files.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.leader.task import View
from eventconsumer_host.sink.chains import chains_of
from eventconsumer_host.sink.slots import Chain, Slot
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.blobs import BlobStore

FOLLOWED = 20  # files of a partition that are requested one by one; more are listed
RECENT = 32  # files of a partition in memory
AT_ONCE = 16  # requests
STALE = timedelta(seconds=60)  # an older response of the hub is not used


class Follower:
    """The files of one partition in one segment, as far as they are known.

    Attributes:
        chain: The partition's chain.
        end: Start of the next file; None: no file was looked for yet.
        found: When the last file was found; None: there was none.
        looked: When a next file was last asked for, or known not to exist.
    """

    def __init__(self, chain: Chain, now: Callable[[], datetime]) -> None:
        self.chain = chain
        self.end: int | None = None
        self.found: datetime | None = None
        self.looked: datetime | None = None
        self._now = now
        self._start: int | None = None
        self._recent: deque[Slot] = deque(maxlen=RECENT)  # the last files before `end`, without a hole

    async def start(self) -> int | None:
        """The first sequence number of the chain; None if no host has opened the partition. Raises as `Chain.start`."""
        if self._start is None:
            self._start = await self.chain.start()
        return self._start

    def reach(self, position: int) -> None:
        """Record that the files end at `position` or after it."""
        if self.end is None or self.end < position:
            self.end = position
            self._recent.clear()

    async def files(self, position: int, *, look: bool = False, many: bool = False) -> AsyncGenerator[Slot, None]:
        """The files from `position` on, in order, up to the known end, or before a file that does not exist.

        Args:
            position: Start of the first file.
            look: Also look for files after the known end, which is done in any case if no end is known.
            many: There may be many: begin with a listing.

        Raises:
            StorageError: A request failed, or a blob is no file of the chain.
        """
        asked = FOLLOWED if many else 0
        look = look or self.end is None
        while True:
            slot = self._in_memory(position)
            if slot is None:
                if not look and position >= (self.end or 0):
                    return
                if asked == FOLLOWED:
                    break
                asked += 1
                slot = await self.chain.at(position)
                if slot is None:
                    self._ended(position)
                    return
            self._add(slot)
            yield slot
            position = slot.last + 1
        async for slot in self.chain.walk():
            if slot.start == position:
                self._add(slot)
                yield slot
                position = slot.last + 1
        self._ended(position)

    async def file(self, position: int, *, fresh: bool = False, look: bool = False) -> Slot | None:
        """The file at `position`; None: there is none, or none is known yet.

        Args:
            position: Its start.
            fresh: Read it again: retention may have removed its content.
            look: Also look after the known end.

        Raises:
            StorageError: The request failed, or the blob is no file of the chain.
        """
        if not fresh and (slot := self._in_memory(position)) is not None:
            return slot
        if not look and self.end is not None and position >= self.end:
            return None
        return await self.chain.at(position)

    def replaced(self, start: int) -> None:
        """Forget a file that was replaced by a tombstone, and those before it."""
        while self._recent and self._recent[0].start <= start:
            self._recent.popleft()

    def _in_memory(self, position: int) -> Slot | None:
        if not self._recent or position < self._recent[0].start:
            return None
        return next((slot for slot in self._recent if slot.start == position), None)

    def _add(self, slot: Slot) -> None:
        if self.end is not None and slot.start < self.end:
            return
        self.reach(slot.start)
        self._recent.append(slot)
        self.end, self.found = slot.last + 1, self._now()

    def _ended(self, position: int) -> None:
        if self.end is None or self.end <= position:
            self.reach(position)


class Segment:
    """The files of one segment of the chain.

    Attributes:
        segment_id: Name of their folder.
        followers: By partition, for partitions that a task has asked for.
    """

    def __init__(self, segment_id: str, chain: Callable[[str], Chain], now: Callable[[], datetime]) -> None:
        self.segment_id = segment_id
        self.followers: dict[str, Follower] = {}
        self._chain = chain
        self._now = now

    def follower(self, partition: str) -> Follower:
        """The follower of a partition."""
        if partition not in self.followers:
            self.followers[partition] = Follower(self._chain(partition), self._now)
        return self.followers[partition]

    @property
    def ends(self) -> dict[str, int]:
        """Partition -> end of its files, as far as it is known."""
        return {name: each.end for name, each in self.followers.items() if each.end is not None}


def segments_of(
    config: HostConfig, info: HubInfo, segments: Sequence[SegmentRecord], blobs: BlobStore, now: Callable[[], datetime]
) -> list[Segment]:
    """The files of each segment, the newest last; sends no request."""
    return [Segment(each.segment_id, chains_of(config, info, each, blobs), now) for each in segments]


@dataclass(frozen=True, slots=True)
class LookPace:
    """How often a task looks for files that no checkpoint names.

    Attributes:
        pause: Seconds between two looks where the hub has events behind the files, or does not answer.
        quiet: Seconds after a file in which a partition is expected to have more, whatever the hub has answered before.
    """

    pause: float
    quiet: float = 0.0


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """What the hub said of a partition: its last sequence number, and when it was asked."""

    last: int
    asked: datetime


class Tail:
    """The ends of all partitions.

    Attributes:
        segments: The segments of the chain, the newest last.
    """

    def __init__(self, segments: Sequence[Segment], now: Callable[[], datetime]) -> None:
        """Create; sends no request."""
        self.segments = segments
        self._now = now
        self._answers: dict[str, HubAnswer] = {}

    @property
    def newest(self) -> Segment:
        """The segment that has new files."""
        return self.segments[-1]

    def hear(self, partition: str, last: int, asked: datetime) -> None:
        """Take an answer of the hub: the last sequence number of a partition, and when it was requested."""
        self._answers[partition] = HubAnswer(last, asked)

    async def follow(self, view: View, pace: LookPace) -> None:
        """Find the new files of the partitions that may have some. Partitions without a known end are left out.

        Raises:
            StorageError: A request failed; the first failure, after all looks.
        """
        limit = asyncio.Semaphore(AT_ONCE)

        async def look(follower: Follower, end: int) -> None:
            async with limit:
                follower.looked = self._now()
                async for _ in follower.files(end, look=True):
                    pass

        due = [
            look(follower, follower.end)
            for partition in view.partitions
            if (follower := self.newest.follower(partition)).end is not None
            and self._is_due(partition, follower, view.reached(partition), pace)
        ]
        for result in await asyncio.gather(*due, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def _is_due(self, partition: str, follower: Follower, reached: int, pace: LookPace) -> bool:
        now, end = self._now(), follower.end or 0
        if reached > end:
            return True
        answer = self._answers.get(partition)
        if is_complete(end, follower.found, answer, now, pace.quiet):
            follower.looked = now
            return False
        if follower.looked is None:
            follower.looked = now
        return (now - follower.looked).total_seconds() >= pace.pause


def is_complete(end: int, found: datetime | None, answer: HubAnswer | None, now: datetime, quiet: float) -> bool:
    """PURE: whether a partition has no file after the known ones, and is not expected to have one soon.

    Args:
        end: Start of the next file.
        found: When the last file was found; None: there was none.
        answer: Of the hub; None: none yet.
        now: Wall clock.
        quiet: See `LookPace`.
    """
    if answer is None or now - answer.asked >= STALE or answer.last >= end:
        return False
    return found is None or (now - found).total_seconds() >= quiet
