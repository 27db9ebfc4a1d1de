"""Sends a notice for each file: at least once, in the order of the files of each partition.

Partitions are independent: each goes through its own files, segment after segment, and a failure delays only the
notices behind it. `cursor` says up to where they are acknowledged, `pace` when to try again.

The end of a segment is known from storage: `hub accept` seals a partition behind its last file before it writes the
record of the next segment. A file that is missing is thereby never mistaken for the end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random

import structlog

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.v1alpha1 import NoticeFormat
from eventconsumer_api.wire.host_report import COUNT_MAX, NoticesReport
from eventconsumer_host.errors import NoticeFailed
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.notice import pace
from eventconsumer_host.notice.cursor import Cursor, Place, Places
from eventconsumer_host.notice.message import Message, Origin, message
from eventconsumer_host.notice.pace import Failing, Failure
from eventconsumer_host.sink.slots import Chain, Slot
from eventconsumer_storage.errors import Damaged, StorageError

PARTITIONS_AT_ONCE = 8
LOOK_SECONDS = 1.0  # between two looks for files without a notice, which send no request if there is none
_READ, _SAVE = "read cursor", "write cursor"  # in place of a partition

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Extent:
    """The files of one segment.

    Attributes:
        incarnation: Name of their folder.
        chain: Factory of chains by partition.
        next: Partition id -> end of its files; None: unknown, look for files until there is none.
    """

    incarnation: str
    chain: Callable[[str], Chain]
    next: Mapping[str, int | None]


def waiting(extents: Sequence[Extent], places: Places) -> list[str]:
    """PURE: the partitions that may have files without an acknowledged notice.

    Args:
        extents: The segments of the chain, the newest last.
        places: Up to where notices are acknowledged.
    """
    newest = extents[-1]

    def may_have(partition: str) -> bool:
        place = places.of(partition)
        if place.incarnation != newest.incarnation:
            return True
        end = newest.next.get(partition, -1)  # absent: no host has opened the partition yet
        return end is None or end > (-1 if place.next is None else place.next)

    return sorted(name for name in {*places.known, *(name for each in extents for name in each.next)} if may_have(name))


class Notifier:
    """The sender of one consumer's notices."""

    def __init__(
        self,
        origin: Origin,
        kind: NoticeFormat,
        post: Callable[[Message], Awaitable[None]],
        cursor: Cursor,
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        rng: Random,
        metrics: Metrics,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a notifier; sends no request.

        Args:
            origin: The consumer.
            kind: Format of the notices.
            post: Sends one notice; raises `NoticeFailed` or `Blocked`.
            cursor: Up to where notices are acknowledged; it is read again.
            now: Wall clock, in UTC.
            clock: Seconds, for durations.
            rng: Varies pauses.
            metrics: Counts notices.
            check: Called before each notice; raises if this host must not send any more.
        """
        cursor.doubt()
        self._origin = origin
        self._kind = kind
        self._post = post
        self._cursor = cursor
        self._now = now
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._check = check
        self._throttle = LogThrottle(clock)
        self._slots = asyncio.Semaphore(PARTITIONS_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by partition
        self._failing: dict[str, Failing] = {}  # by partition, and that of the cursor
        self._oldest: dict[str, datetime] = {}  # partition -> commit of its first file without a notice
        self._pending: int | None = None
        self._acknowledged_at: datetime | None = None

    @property
    def report(self) -> NoticesReport | None:
        """The report; None before the cursor was read."""
        if self._pending is None:
            return None
        oldest = min(self._oldest.values(), default=None)
        age = max(0.0, (self._now() - oldest).total_seconds()) if oldest else 0.0
        return NoticesReport(
            pending_events=self._pending, pending_seconds=round(age, 1), acknowledged_at=self._acknowledged_at
        )

    @property
    def problem(self) -> Failure | None:
        """The failure that somebody must act on."""
        return pace.problem(self._failing.values(), self._clock())

    async def run(self, extents: Callable[[], Sequence[Extent]]) -> None:
        """Send notices until cancelled.

        Args:
            extents: The segments of the chain, the newest last; empty: not known yet.

        Raises:
            LeaseLost: This host must not send any more.
        """
        try:
            while True:
                self._check()
                if found := extents():
                    await self._start(found, begin=True)
                await asyncio.sleep(LOOK_SECONDS)
                await self._collect(found)
        finally:
            self._cancel()

    async def advance(self, extents: Sequence[Extent], *, begin: bool = True) -> None:
        """Send the notices of each partition until its last file, or until one fails.

        Args:
            extents: The segments of the chain, the newest last.
            begin: If there is no cursor, begin at the ends of the newest segment; otherwise send nothing.

        Raises:
            LeaseLost: This host must not send any more.
        """
        try:
            await self._start(extents, begin=begin)
            while self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=LOOK_SECONDS)
                await self._collect(extents)
            await self._save(last=True)
        finally:
            self._cancel()

    async def _start(self, extents: Sequence[Extent], *, begin: bool) -> None:
        """Start to send the notices of each partition that has some and is due."""
        newest = extents[-1]
        ends = {name: Place(newest.incarnation, end) for name, end in newest.next.items() if end is not None}
        first = Places(newest.incarnation, ends) if begin else None
        if not pace.due([_READ], self._failing, (), self._clock()):
            return
        try:
            known = await self._cursor.read([each.incarnation for each in extents], first)
        except StorageError as error:
            self._failed(_READ, error)
            return
        self._over(_READ)
        await self._save()
        places = self._cursor.places
        if not known or places is None or _SAVE in self._failing:
            return
        names = waiting(extents, places)
        for name in self._failing.keys() - {*names, _READ, _SAVE}:  # another host has sent them
            self._over(name)
        self._oldest = {name: time for name, time in self._oldest.items() if name in names}
        for name in pace.due(names, self._failing, self._tasks, self._clock()):
            self._tasks[name] = asyncio.create_task(self._follow(name, extents))
        self._count_pending(extents)

    async def _collect(self, extents: Sequence[Extent]) -> None:
        """Take the results of partitions that are at their end or failed, and write the cursor."""
        for name, task in [(name, task) for name, task in self._tasks.items() if task.done()]:
            del self._tasks[name]
            task.result()
        await self._save()
        if extents:
            self._count_pending(extents)

    def _cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _follow(self, partition: str, extents: Sequence[Extent]) -> None:
        """Send the notices of one partition, in order, until one fails."""
        try:
            while _SAVE not in self._failing and (found := await self._next(partition, extents)) is not None:
                extent, slot = found
                after = Place(extent.incarnation, slot.last + 1)
                if not slot.tombstone:  # the content of a pruned file does not exist any more
                    self._oldest[partition] = slot.committed_at
                    async with self._slots:
                        if not self._cursor.has_passed(partition, after):  # another host has sent it meanwhile
                            await self._send(extent.incarnation, partition, slot)
                self._cursor.move(partition, after)
                self._oldest.pop(partition, None)
                self._over(partition)
        except (NoticeFailed, StorageError, Blocked) as error:
            self._failed(partition, error)

    async def _next(self, partition: str, extents: Sequence[Extent]) -> tuple[Extent, Slot] | None:
        """The first file of a partition without an acknowledged notice; None: there is none yet.

        Raises:
            Damaged: A file is missing, or is not a file of the chain.
            StorageError: A request failed.
        """
        names = [extent.incarnation for extent in extents]
        while (places := self._cursor.places) is not None:
            place = places.of(partition)
            number = names.index(place.incarnation)
            extent, later = extents[number], extents[number + 1 :]
            chain, position = extent.chain(partition), place.next
            if position is None:
                position = await chain.start()
            slot = None if position is None else await self._at(chain, position, extent.next.get(partition), later)
            if slot is not None:
                return extent, slot
            if not later:
                return None
            self._cursor.move(partition, Place(later[0].incarnation))
        return None

    async def _at(self, chain: Chain, position: int, end: int | None, later: Sequence[Extent]) -> Slot | None:
        """The file at a position; None: the segment has no further file now."""
        if not later and end is not None and position >= end:
            return None
        slot = await chain.at(position)
        if slot is not None:
            return slot
        if later:
            # A partition that the hub of the next segment does not have was not sealed.
            ended = later[0].chain(chain.partition).opening is None or await chain.is_sealed(position)
        else:
            ended = end is None
        if not ended:
            raise Damaged(f"file {chain.path(position)} is missing, so its notice cannot be sent: restore it")
        return None

    async def _send(self, incarnation: str, partition: str, slot: Slot) -> None:
        self._check()
        try:
            await self._post(message(self._kind, self._origin, incarnation, partition, slot))
        except EventConsumerError as error:
            refused = isinstance(error, NoticeFailed) and error.only_this
            self._metrics.notices.labels("refused" if refused else "failed").inc()
            raise
        self._metrics.notices.labels("acknowledged").inc()
        self._acknowledged_at = self._now()

    async def _save(self, *, last: bool = False) -> None:
        """Write the cursor. While that fails no notice is sent: a host that takes over would repeat all of them."""
        if not pace.due([_SAVE], self._failing, (), self._clock()):
            return
        try:
            if await self._cursor.save(last=last):
                self._over(_SAVE)
        except StorageError as error:
            self._failed(_SAVE, error)

    def _failed(self, name: str, error: Failure) -> None:
        self._failing[name] = pace.failed(self._failing.get(name), error, self._clock(), self._rng.random())
        if times := self._throttle.again(name, str(error)):
            log.warning("failed to send a notice; retrying", of=name, error=str(error), times=times)

    def _over(self, name: str) -> None:
        self._failing.pop(name, None)
        if times := self._throttle.over(name):
            log.info("notices are acknowledged again", of=name, failures=times)

    def _count_pending(self, extents: Sequence[Extent]) -> None:
        """Count the sequence numbers in files without an acknowledged notice, as far as they are known."""
        places, pending = self._cursor.places, 0
        if places is None:
            return
        for extent in extents:
            for name, end in extent.next.items():
                place = places.of(name)
                if end is not None and place.incarnation == extent.incarnation and place.next is not None:
                    pending += max(0, end - place.next)
        self._pending = min(pending, COUNT_MAX)
