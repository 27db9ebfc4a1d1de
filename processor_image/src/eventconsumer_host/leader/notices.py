"""Sends a notice for each file: at least once, in the order of the files of each partition.

Partitions are independent: each goes through its own files, segment after segment, and a failure delays only the
notices behind it. `cursor` says up to where they are acknowledged, `pace` when to try again.

The end of a segment is known from storage: `hub accept` seals a partition behind its last file before it writes the
record of the next segment. A file that is missing is thereby never mistaken for the end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from random import Random
from typing import Protocol

import structlog

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.v1alpha1 import NoticeFormat
from eventconsumer_api.wire.host_config import NoticesConfig
from eventconsumer_api.wire.host_report import COUNT_MAX, NoticesReport, Problem
from eventconsumer_host import problems
from eventconsumer_host.errors import NoticeFailed
from eventconsumer_host.leader.lag import Measure
from eventconsumer_host.leader.stage import Stage
from eventconsumer_host.leader.tail import Follower, Segment, Tail
from eventconsumer_host.leader.task import Task, View
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.notice import pace
from eventconsumer_host.notice.cursor import Cursor, NoticePosition, NoticePositions
from eventconsumer_host.notice.message import NoticeMessage, Origin, message
from eventconsumer_host.notice.pace import Failing, Failure
from eventconsumer_host.sink.slots import Slot
from eventconsumer_storage.errors import Damaged, StorageError

PARTITIONS_AT_ONCE = 8
LOOK_SECONDS = 1.0  # between two looks for files without a notice, which send no request if there is none
_READ, _SAVE = "read cursor", "write cursor"  # in place of a partition

log = structlog.get_logger(__name__)


class NoticeReceiver(Protocol):
    """The receiver of notices; see `notice.endpoint`."""

    async def post(self, message: NoticeMessage) -> None:
        """Send a notice; raises `NoticeFailed` or `Blocked`."""

    async def close(self) -> None:
        """Close connections."""


def waiting(newest: Segment, partitions: Sequence[str], places: NoticePositions, *, look: bool) -> list[str]:
    """PURE: the partitions that may have files without an acknowledged notice.

    Args:
        newest: The newest segment of the chain.
        partitions: All partition ids.
        places: Up to where notices are acknowledged.
        look: Files that are not known count, too.
    """
    ends = newest.ends

    def may_have(partition: str) -> bool:
        place = places.of(partition)
        if place.segment_id != newest.segment_id:
            return True
        end = ends.get(partition, -1)  # absent: no host has opened the partition yet
        return look or end > (-1 if place.next is None else place.next)

    return sorted(name for name in {*places.known, *partitions} if may_have(name))


class Notifier:
    """The sender of one consumer's notices."""

    def __init__(
        self,
        origin: Origin,
        kind: NoticeFormat,
        post: Callable[[NoticeMessage], Awaitable[None]],
        cursor: Cursor,
        tail: Tail,
        *,
        look: bool = False,
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
            tail: The files.
            look: Look for files that are not known, too; and begin no cursor.
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
        self._tail = tail
        self._look = look
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

    async def step(self, partitions: Sequence[str]) -> None:
        """Take the results of the last step, and start to send the notices that are due.

        Args:
            partitions: All partition ids.

        Raises:
            LeaseLost: This host must not send any more.
        """
        self._check()
        await self._collect()
        await self._start(partitions)

    async def advance(self, partitions: Sequence[str]) -> None:
        """Send the notices of each partition until its last file, or until one fails.

        Args:
            partitions: All partition ids.

        Raises:
            LeaseLost: This host must not send any more.
        """
        try:
            await self._start(partitions)
            while self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=LOOK_SECONDS)
                await self._collect()
            await self._save(last=True)
        finally:
            self.cancel()

    async def _start(self, partitions: Sequence[str]) -> None:
        """Start to send the notices of each partition that has some and is due."""
        segments, newest = self._tail.segments, self._tail.newest
        ends = {name: NoticePosition(newest.segment_id, end) for name, end in newest.ends.items()}
        first = None if self._look else NoticePositions(newest.segment_id, ends)
        if not pace.due([_READ], self._failing, (), self._clock()):
            return
        try:
            known = await self._cursor.read([each.segment_id for each in segments], first)
        except StorageError as error:
            self._failed(_READ, error)
            return
        self._over(_READ)
        await self._save()
        places = self._cursor.places
        if not known or places is None or _SAVE in self._failing:
            return
        names = waiting(newest, partitions, places, look=self._look)
        for name in self._failing.keys() - {*names, _READ, _SAVE}:  # another host has sent them
            self._over(name)
        self._oldest = {name: time for name, time in self._oldest.items() if name in names}
        for name in pace.due(names, self._failing, self._tasks, self._clock()):
            self._tasks[name] = asyncio.create_task(self._send_all(name))
        self._count_pending()

    async def _collect(self) -> None:
        """Take the results of partitions that are at their end or failed, and write the cursor."""
        for name, task in [(name, task) for name, task in self._tasks.items() if task.done()]:
            del self._tasks[name]
            task.result()
        await self._save()
        self._count_pending()

    def cancel(self) -> None:
        """Stop to send."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _send_all(self, partition: str) -> None:
        """Send the notices of one partition, in order, until one fails."""
        try:
            while _SAVE not in self._failing and (found := await self._next(partition)) is not None:
                segment, slot = found
                after = NoticePosition(segment.segment_id, slot.last + 1)
                if not slot.tombstone:  # the content of a pruned file does not exist any more
                    self._oldest[partition] = slot.committed_at
                    async with self._slots:
                        if not self._cursor.has_passed(partition, after):  # another host has sent it meanwhile
                            await self._send(segment.segment_id, partition, slot)
                self._cursor.move(partition, after)
                self._oldest.pop(partition, None)
                self._over(partition)
        except (NoticeFailed, StorageError, Blocked) as error:
            self._failed(partition, error)

    async def _next(self, partition: str) -> tuple[Segment, Slot] | None:
        """The first file of a partition without an acknowledged notice; None: there is none yet.

        Raises:
            Damaged: A file is missing, or is not a file of the chain.
            StorageError: A request failed.
        """
        segments = self._tail.segments
        names = [segment.segment_id for segment in segments]
        while (places := self._cursor.places) is not None:
            place = places.of(partition)
            number = names.index(place.segment_id)
            segment, later = segments[number], segments[number + 1 :]
            follower, position = segment.follower(partition), place.next
            if position is None:
                position = await follower.start()
            slot = None if position is None else await self._file(follower, position, later)
            if slot is not None:
                return segment, slot
            if not later:
                return None
            self._cursor.move(partition, NoticePosition(later[0].segment_id))
        return None

    async def _file(self, follower: Follower, position: int, later: Sequence[Segment]) -> Slot | None:
        """The file at a position; None: the segment has no further file now."""
        slot = await follower.file(position, look=self._look or bool(later))
        if slot is not None:
            return slot
        chain = follower.chain
        if later:
            # A partition that the hub of the next segment does not have was not sealed.
            opening = later[0].follower(chain.partition).chain.opening
            ended = opening is None or await chain.is_sealed(position)
        else:
            ended = follower.end is None or position >= follower.end
        if not ended:
            raise Damaged(f"file {chain.path(position)} is missing, so its notice cannot be sent: restore it")
        return None

    async def _send(self, segment_id: str, partition: str, slot: Slot) -> None:
        self._check()
        try:
            await self._post(message(self._kind, self._origin, segment_id, partition, slot))
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

    def _count_pending(self) -> None:
        """Count the sequence numbers in files without an acknowledged notice, as far as they are known."""
        places, pending = self._cursor.places, 0
        if places is None:
            return
        for segment in self._tail.segments:
            for name, end in segment.ends.items():
                place = places.of(name)
                if place.segment_id == segment.segment_id and place.next is not None:
                    pending += max(0, end - place.next)
        self._pending = min(pending, COUNT_MAX)


class NoticesTask(Task):
    """Sends notices about new files."""

    name = "send notices"
    pause = LOOK_SECONDS

    def __init__(
        self,
        stage: Stage,
        measure: Measure,
        config: NoticesConfig,
        cursor: Cursor,
        *,
        endpoint: Callable[[NoticesConfig], NoticeReceiver],
        lead: Callable[[], AbstractAsyncContextManager[bool]],
    ) -> None:
        """Create; sends no request.

        Args:
            stage: The surroundings.
            measure: The measurement: notices begin after the first one.
            config: `spec.sink.notices`.
            cursor: What this host knows to be acknowledged.
            endpoint: Opens the receiver.
            lead: Takes the leader lease in a host that stops; yields whether this host may act.
        """
        self._stage = stage
        self._measure = measure
        self._config = config
        self._endpoint = endpoint
        self._cursor = cursor
        self._lead = lead
        self._receiver: NoticeReceiver | None = None
        self._notifier: Notifier | None = None

    async def step(self, view: View) -> None:
        """See `LeaderTask`."""
        self._notifier = self._notifier or self._begin()
        if self._measure.fleet is not None:  # the ends of the files are known
            await self._notifier.step(view.partitions)

    def _begin(self, *, look: bool = False) -> Notifier:
        stage = self._stage
        self._receiver = self._receiver or self._endpoint(self._config)
        origin = Origin(stage.blobs.url, stage.prefix, stage.chain, stage.info.name)
        return Notifier(
            origin,
            self._config.format,
            self._receiver.post,
            self._cursor,
            stage.tail,
            look=look,
            now=stage.now,
            clock=stage.clock,
            rng=stage.rng,
            metrics=stage.metrics,
            check=stage.check,
        )

    def report(self) -> Mapping[str, object]:
        """See `LeaderTask`."""
        return {"notices": self._notifier.report if self._notifier else None}

    def problems(self) -> list[Problem]:
        """See `LeaderTask`."""
        failure = self._notifier.problem if self._notifier else None
        return [problems.of(self._stage.config, problems.SINK, failure)] if failure else []

    async def rest(self, view: View) -> None:
        """See `LeaderTask`. Only if no other host leads; if that fails, a later leader sends them."""
        async with self._lead() as leads:
            if leads:
                await self._begin(look=True).advance(view.partitions)

    async def end(self) -> None:
        """See `LeaderTask`."""
        if self._notifier:
            self._notifier.cancel()
        if self._receiver:
            await self._receiver.close()
