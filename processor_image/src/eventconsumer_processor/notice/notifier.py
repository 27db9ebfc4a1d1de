"""Sends a notice for each file: at least once, in the order of the files of each partition.

A cursor in storage, `<prefix>/_notices.json`, says up to where the endpoint has acknowledged notices. It is written
after the acknowledgement, so a host that takes over repeats some notices and skips none. Two hosts at once repeat
notices: each write names the version that it replaces, so the slower one reads the cursor again.

The segments of a chain follow each other: the first notice of a segment is sent after the last one of the segment
before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from pydantic import AwareDatetime, Field, ValidationError

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.host_report import COUNT_MAX, NoticesReport
from eventconsumer_api.identity import RECORD_MAX_BYTES
from eventconsumer_api.model import Report
from eventconsumer_api.v1alpha1 import NoticeFormat
from eventconsumer_processor.errors import NoticeFailed
from eventconsumer_processor.metrics import Metrics
from eventconsumer_processor.notice.message import Message, Origin, message
from eventconsumer_processor.sink.slots import Chain, Slot
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, StorageError

PARTITIONS_AT_ONCE = 8
SAVE_SECONDS = 1.0  # between two writes of the cursor

log = structlog.get_logger(__name__)


class NoticesRecord(Report):
    """The content of `_notices.json`."""

    chain: str = Field(description="Identity of the chain of the files.")
    written_at: AwareDatetime = Field(description="Time of the write, by the clock of the host.")
    incarnation: str = Field(description="The segment of `next`; all notices of earlier segments are acknowledged.")
    next: dict[str, int] = Field(description="Partition id -> start of the first file without an acknowledged notice.")


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


def cursor_name(prefix: str) -> str:
    """Blob name of the cursor."""
    return f"{prefix}/_notices.json"


class Notifier:
    """The sender of one consumer's notices."""

    def __init__(
        self,
        blobs: BlobStore,
        origin: Origin,
        kind: NoticeFormat,
        post: Callable[[Message], Awaitable[None]],
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        metrics: Metrics,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a notifier; sends no request.

        Args:
            blobs: The container of the files.
            origin: The consumer.
            kind: Format of the notices.
            post: Sends one notice; raises `NoticeFailed` or `Blocked`.
            now: Wall clock, in UTC.
            clock: Seconds, for durations.
            metrics: Counts notices.
            check: Called before each notice; raises if this host must not send any more.
        """
        self._blobs = blobs
        self._origin = origin
        self._name = cursor_name(origin.prefix)
        self._kind = kind
        self._post = post
        self._now = now
        self._clock = clock
        self._metrics = metrics
        self._check = check
        self._incarnation = ""
        self._next: dict[str, int] = {}  # of that segment
        self._etag: str | None = None
        self._read = False  # whether the cursor is as in storage, apart from `_changed`
        self._changed = False
        self._saved_at = clock()
        self._saving = asyncio.Lock()
        self._failed = False  # in this round: no further notice
        self._pending = 0
        self._acknowledged_at: datetime | None = None

    @property
    def report(self) -> NoticesReport | None:
        """The report; None before the cursor was read."""
        if not self._incarnation:
            return None
        return NoticesReport(pending_events=self._pending, acknowledged_at=self._acknowledged_at)

    async def advance(self, extents: Sequence[Extent], *, begin: bool = True) -> None:
        """Send the notices of all files without an acknowledged one, until one fails.

        Args:
            extents: The segments of the chain, the newest last.
            begin: If there is no cursor, begin at the ends of the newest segment; otherwise send nothing.

        Raises:
            NoticeFailed: The endpoint did not acknowledge a notice.
            Blocked: The credential cannot be used.
            StorageError: A request failed. The next call continues.
        """
        if not self._read and not await self._learn(extents, begin=begin):
            return
        self._failed = False
        numbers = {extent.incarnation: number for number, extent in enumerate(extents)}
        try:
            for extent in extents[numbers[self._incarnation] :]:
                if extent.incarnation != self._incarnation:
                    self._incarnation, self._next, self._changed = extent.incarnation, {}, True
                await self._advance_segment(extent)
                if self._failed:  # another host wrote the cursor
                    return
        finally:
            self._count_pending(extents[numbers[self._incarnation] :])
        await self._save()

    async def _advance_segment(self, extent: Extent) -> None:
        limit = asyncio.Semaphore(PARTITIONS_AT_ONCE)

        async def follow(partition: str, end: int | None) -> None:
            async with limit:
                await self._follow(extent, partition, end)

        behind = [(name, end) for name, end in extent.next.items() if end is None or self._next.get(name, -1) < end]
        tasks = [asyncio.create_task(follow(*each)) for each in behind]
        try:
            results = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
        failures = [result for result in results if isinstance(result, BaseException)]
        # The cursor is written although notices failed: otherwise a new leader repeats those that succeeded.
        if failures:
            await self._save()
            raise max(failures, key=_weight)

    async def _follow(self, extent: Extent, partition: str, end: int | None) -> None:
        """Send the notices of one partition, in order; one that fails is sent again in the next round."""
        chain = extent.chain(partition)
        position = self._next.get(partition)
        if position is None:
            position = await chain.start()
            if position is None:
                return  # no host has opened the partition yet
            self._next[partition] = position
        while (end is None or position < end) and not self._failed:
            slot = await chain.at(position)
            if slot is None:
                if end is None:
                    return
                raise Damaged(f"file {chain.path(position)} is missing, so its notice cannot be sent: restore it")
            if not slot.tombstone:  # the content of a pruned file does not exist any more
                await self._send(extent.incarnation, partition, slot)
            self._next[partition] = position = slot.last + 1
            self._changed = True
            if self._clock() - self._saved_at >= SAVE_SECONDS:
                await self._save()

    async def _send(self, incarnation: str, partition: str, slot: Slot) -> None:
        self._check()
        try:
            await self._post(message(self._kind, self._origin, incarnation, partition, slot))
        except EventConsumerError as error:
            refused = isinstance(error, NoticeFailed) and error.only_this
            self._failed |= not refused
            self._metrics.notices.labels("refused" if refused else "failed").inc()
            raise
        self._metrics.notices.labels("acknowledged").inc()
        self._acknowledged_at = self._now()

    async def _learn(self, extents: Sequence[Extent], *, begin: bool) -> bool:
        """Read the cursor, or begin one; returns whether there is one."""
        blob = await self._blobs.read(self._name, RECORD_MAX_BYTES)
        self._etag = blob.info.etag if blob else None
        record = self._parsed(blob.data) if blob else None
        if record is not None and record.chain == self._origin.chain:
            if record.incarnation not in {extent.incarnation for extent in extents}:
                raise Damaged(
                    f"the cursor of notices, blob {self._name}, names a segment that this host does not know. If no "
                    f"host registers with it soon, restore its record in _segments/; as the last resort, {_REMEDY}"
                )
            # What this host knows to be acknowledged counts, too.
            known = self._next if record.incarnation == self._incarnation else {}
            self._incarnation = record.incarnation
            self._next = {**record.next, **{name: max(at, record.next.get(name, at)) for name, at in known.items()}}
            self._read = True
            return True
        if not begin:
            return False
        newest = extents[-1]
        self._incarnation = newest.incarnation
        self._next = {name: end for name, end in newest.next.items() if end is not None}
        self._read = self._changed = True
        await self._save()
        log.info("notices begin with the next files", partitions=len(self._next))
        return self._read

    def _parsed(self, data: bytes) -> NoticesRecord:
        try:
            return NoticesRecord.model_validate_json(data)
        except ValidationError:
            raise Damaged(f"cannot parse the cursor of notices, blob {self._name}: {_REMEDY}") from None

    async def _save(self) -> None:
        """Write the cursor if it changed. If another host wrote it, this round ends, and the next one reads it again.

        Raises:
            StorageError: It was not written, or the outcome is unknown: the next round reads it again.
        """
        async with self._saving:
            if not self._changed or not self._read:
                return
            record = NoticesRecord(
                chain=self._origin.chain,
                written_at=self._now(),
                incarnation=self._incarnation,
                next=dict(sorted(self._next.items())),
            )
            data = record.model_dump_json(by_alias=True, indent=1).encode()
            self._changed, self._saved_at = False, self._clock()
            try:
                self._etag = await self._blobs.put(self._name, data, if_match=self._etag, if_absent=self._etag is None)
            except StorageError as error:
                self._read, self._changed, self._failed = False, True, True
                if not isinstance(error, Conflict):
                    raise

    def _count_pending(self, extents: Sequence[Extent]) -> None:
        """Count the sequence numbers in files without an acknowledged notice, as far as they are known."""
        pending = 0
        for extent in extents:
            known = self._next if extent.incarnation == self._incarnation else {}
            pending += sum(max(0, end - known[name]) for name, end in extent.next.items() if end and name in known)
        self._pending = min(pending, COUNT_MAX)


_REMEDY = "delete it, and notices begin with the files that are written after that"


def _weight(failure: BaseException) -> int:
    """The failure to report: what ends the leadership, then storage, then the endpoint, then a single notice."""
    if isinstance(failure, NoticeFailed):
        return 0 if failure.only_this else 1
    if isinstance(failure, Blocked):
        return 1
    return 2 if isinstance(failure, StorageError) else 3
