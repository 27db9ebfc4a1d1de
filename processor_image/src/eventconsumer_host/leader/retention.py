"""Removes old files by `spec.sink.retention`: in the leading host, or in the probe while no host runs, in steps.

A cursor in storage, `<prefix>/_retention.json`, says up to where the files of each partition may be removed. Each step
writes the cursor first, and then replaces the files before it by tombstones:

    1. put `_retention.json` with the new cursor, only if it has not changed since it was read
    2. remove the files from the Delta table, if there is one
    3. replace them by tombstones

A host that is killed in between leaves files before the cursor. The next step, of this host or of a later leader,
removes them before it moves the cursor. Two leaders at once cannot both move the cursor from one place, and to replace
a file again changes nothing. The totals of the removed files are in the cursor's blob, so they change with it.

Only files of the newest segment are removed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog
from pydantic import AwareDatetime, Field, ValidationError

from eventconsumer_api.errors import Blocked
from eventconsumer_api.shared.model import Report
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import Retention as Limits
from eventconsumer_api.wire.document import WireDocument
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import RetentionReport
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES
from eventconsumer_host.batch.log import BatchLog, BatchState
from eventconsumer_host.batch.report import count
from eventconsumer_host.leader.lag import Measure
from eventconsumer_host.leader.stage import Stage
from eventconsumer_host.leader.tail import Follower, Tail
from eventconsumer_host.leader.task import FIRST_SECONDS, Task, View
from eventconsumer_host.lease.model import Lease
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.notice.cursor import cursor_name, parsed, places_of
from eventconsumer_host.prune.rules import OldFile, Standing, Window, choose, reason_to_keep
from eventconsumer_host.prune.tombstones import (
    AT_A_TIME,
    CapturedContent,
    Doomed,
    remove_content,
    replace_with_tombstone,
)
from eventconsumer_host.sink.slots import Slot
from eventconsumer_host.table.delta import TablePartition, TableState
from eventconsumer_host.table.log import TableLog, invalid
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.confined.reader import Confined, Reader
from eventconsumer_storage.errors import Conflict, Damaged

FIELD = "spec.sink.retention"
FILES_IN_STEP = 500  # that are looked at in one step, all partitions
MOST = 1000  # files that one version removes from the table
PAUSE_SECONDS = 600.0  # between two looks for files that are due
MORE_SECONDS = 1.0  # the same, if more files are due than one step removes

T = TypeVar("T")

log = structlog.get_logger(__name__)


class KeptFiles(Report):
    """The files of one partition: those that retention removes, and those that it keeps."""

    next: int = Field(description="Start of the first file that is kept; files before it may be removed at any time.")
    done: int = Field(description="Start of the first file that may not have been removed yet.")
    counted: int | None = Field(default=None, description="`bytes` counts the files from `next` up to this start.")
    bytes: int = Field(default=0, description="Size of these files.")


class Removed(Report):
    """Totals of the files that retention removed, all partitions and segments."""

    files: int = 0
    events: int = 0
    bytes: int = 0


class RetentionRecord(WireDocument):
    """The content of `_retention.json`."""

    chain: str = Field(description="Identity of the chain of the files.")
    written_at: AwareDatetime = Field(description="Time of the write, by the clock of the host.")
    segment_id: str = Field(description="The segment of `partitions`.")
    partitions: dict[str, KeptFiles] = Field(default={}, description="By partition id.")
    removed: Removed = Removed()


def record_name(prefix: str) -> str:
    """Blob name of the cursor."""
    return f"{prefix}/_retention.json"


@dataclass(frozen=True)
class Needs:
    """The readers that still need files of the newest segment.

    Attributes:
        committed: Partition -> start of the first file in no committed batch; None: no batch needs a file.
        frozen: Partition -> start of the first file in no batch.
        excluded: Paths of files that committed batches excluded.
        noticed: Partition -> start of the first file without an acknowledged notice; None: no notice needs a file.
        keep_uncommitted: As in the spec.
    """

    committed: Mapping[str, int] | None = None
    frozen: Mapping[str, int] | None = None
    excluded: frozenset[str] = frozenset()
    noticed: Mapping[str, int] | None = None
    keep_uncommitted: bool = True

    def standing(self, partition: str, slot: Slot, lease: Lease | None, covered: int | None) -> Standing:
        """PURE: the state of a file for them.

        Args:
            partition: Of the file.
            slot: The file.
            lease: Of the partition; None: there is none.
            covered: The last sequence number that the Delta table covers; None: there is no table.
        """
        checkpoint = lease.checkpoint.sequence_number if lease and lease.checkpoint else -1
        committed, noticed = True, True
        if self.committed is not None and slot.start >= self.committed.get(partition, -1):
            in_batch = slot.start < (self.frozen or {}).get(partition, -1)
            committed = not (self.keep_uncommitted or in_batch)
        if self.noticed is not None and self.keep_uncommitted:
            noticed = slot.start < self.noticed.get(partition, -1)
        registered = covered is None or slot.start <= covered
        return Standing(slot.last <= checkpoint, committed, self.is_excluded(slot), registered, noticed)

    def is_excluded(self, slot: Slot) -> bool:
        """Whether a file stays for ever because its batch excluded it."""
        return self.keep_uncommitted and slot.path in self.excluded


@dataclass(frozen=True)
class _View:
    """The oldest files of a partition, and the first one that stays if all of these go.

    Attributes:
        window: The files that may be removed.
        times: Commit times of them and of the file after them; None where a file was removed before.
        held: Why the file after them is kept although it is due; empty: it is not due.
    """

    window: Window
    times: Sequence[datetime | None]
    held: str = ""

    def oldest(self, chosen: int) -> datetime | None:
        """Commit time of the oldest file that is kept if so many go; None: unknown."""
        return next((time for time in self.times[chosen:] if time is not None), None)


class _Once:
    """The table, which is read at most once in a step, and only if a file is due."""

    def __init__(self, read: Callable[[], Coroutine[Any, Any, TableState | None]]) -> None:
        self._read = read
        self._reading: asyncio.Task[TableState | None] | None = None

    async def get(self) -> TableState | None:
        """The table; None: there is none. Raises as `FileRetention._table_now`."""
        self._reading = self._reading or asyncio.create_task(self._read())
        return await self._reading


@dataclass(frozen=True)
class _Due:
    """The files that are due in a step.

    Attributes:
        before: Files that were committed before this time are due; None: age does not count.
        excess: Size of the kept files above the limit, bytes.
        most: The greatest number of files of one partition.
        needs: The readers that still need files.
        table: The Delta table.
    """

    before: datetime | None
    excess: int
    most: int
    needs: Needs
    table: _Once


class FileRetention:
    """Retention of one consumer's files."""

    def __init__(
        self,
        blobs: BlobStore,
        config: HostConfig,
        limits: Limits,
        chain: str,
        tail: Tail,
        *,
        batches: BatchLog,
        metrics: Metrics,
        now: Callable[[], datetime],
        confined: Confined | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Create; sends no request.

        Args:
            blobs: The container of the files.
            config: The consumer.
            limits: `spec.sink.retention`.
            chain: Identity of the chain.
            tail: The files, whose ends are known.
            batches: The Spark batches.
            metrics: Counts removed files.
            now: Wall clock, in UTC.
            confined: Reads what others may have written into the table; None: a child process.
            check: Called before each change; raises if this host must not write any more.
        """
        self.more = False  # whether files are due that the last step did not look at
        self._blobs = blobs
        self._config = config
        self._limits = limits
        self._chain = chain
        self._segment = tail.newest
        self._segment_ids = frozenset(segment.segment_id for segment in tail.segments)
        self._batches = batches
        self._metrics = metrics
        self._now = now
        self._check = check
        self._name = record_name(config.sink.prefix)
        self._table = TableLog(blobs, config.sink.prefix, confined or Reader())
        self._record: RetentionRecord | None = None
        self._etag: str | None = None
        self._excluded: tuple[int, frozenset[str]] = (0, frozenset())  # by batches up to this number
        self._oldest: datetime | None = None
        self._excess = 0
        self._held = ""

    @property
    def report(self) -> RetentionReport | None:
        """The report; None before the first step."""
        if self._record is None:
            return None
        removed = self._record.removed
        return RetentionReport(
            files=count(removed.files),
            events=count(removed.events),
            bytes=count(removed.bytes),
            oldest_file_time=self._oldest,
            excess_bytes=count(self._excess),
            held=self._held,
        )

    async def step(self, partitions: Sequence[str], leases: Mapping[str, Lease], state: BatchState) -> None:
        """Complete the last step, and remove the files that are due, at most `FILES_IN_STEP`.

        Args:
            partitions: All partition ids.
            leases: By partition.
            state: The Spark batches.

        Raises:
            Blocked: The table does not allow it.
            StorageError: A request failed; the next call continues.
        """
        try:
            await self._step(partitions, leases, state)
        except Conflict as error:
            log.info("another host moved the cursor of retention", error=str(error))
        except Blocked as error:
            why = f"old files are not removed: {error.problem.message}"
            raise Blocked(FIELD, Reason.RETENTION_BLOCKED, why) from error

    async def _step(self, partitions: Sequence[str], leases: Mapping[str, Lease], state: BatchState) -> None:
        self.more = False
        record = self._record or await self._learn()
        needs = await self._needs(state)
        record = await self._complete(record, needs)
        entries = await self._each(partitions, lambda partition: self._entry(record, partition))
        kept = {name: entry for name, entry in entries.items() if entry is not None}
        limit = self._limits.bytes
        excess = 0 if limit is None else max(0, sum(entry.bytes for entry in kept.values()) - limit)
        before = None if self._limits.days is None else self._now() - timedelta(days=self._limits.days)
        most = max(1, FILES_IN_STEP // max(1, len(kept)))
        due = _Due(before, excess, most, needs, _Once(self._table_now))
        views = await self._each(list(kept), lambda name: self._view(name, kept[name], leases.get(name), due))
        chosen = choose({name: each.window for name, each in views.items()}, before, excess)
        going = {name: views[name].window.files[:number] for name, number in chosen.items()}
        record = moved(record, kept, going)
        if (record.partitions, record.removed) != (self._known.partitions, self._known.removed):
            await self._put(record)
        await self._complete(record, needs)
        gone = sum(file.size for files in going.values() for file in files if not file.skipped)
        self._excess = max(0, excess - gone)
        self._oldest = min((t for n, v in views.items() if (t := v.oldest(chosen.get(n, 0)))), default=None)
        self._held = next((each.held for each in views.values() if each.held), "")
        self.more = any(
            views[name].window.cut and number == len(views[name].window.files) for name, number in chosen.items()
        )

    @property
    def _known(self) -> RetentionRecord:
        assert self._record is not None  # noqa: S101 - read before
        return self._record

    async def _each(self, partitions: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Ask for each partition, some at a time; the first failure ends all."""
        limit = asyncio.Semaphore(AT_A_TIME)

        async def one(partition: str) -> T:
            async with limit:
                return await ask(partition)

        found = await asyncio.gather(*map(one, partitions), return_exceptions=True)
        for failure in found:
            if isinstance(failure, BaseException):
                raise failure
        return {name: each for name, each in zip(partitions, found, strict=True) if not isinstance(each, BaseException)}

    # --- the readers that need files ---

    async def _needs(self, state: BatchState) -> Needs:
        """The readers that still need files, without the table."""
        keep = self._limits.keep_uncommitted
        needs = Needs(keep_uncommitted=keep)
        if self._config.batches is not None or state.last is not None:
            number = state.committed_number
            committed = await self._ends(state, number)
            frozen = state.last.next if state.last and state.last.segment_id == self._segment.segment_id else {}
            needs = replace(needs, committed=committed, frozen=frozen, excluded=await self._excluded_by(number))
        if self._config.notices is not None and keep:
            needs = replace(needs, noticed=await self._noticed())
        return needs

    async def _ends(self, state: BatchState, number: int) -> Mapping[str, int]:
        """Partition -> start of the first file in no committed batch."""
        if state.last is None or number == 0:
            return {}
        manifest = await self._batches.manifest(number) if state.open else state.last
        return manifest.next if manifest.segment_id == self._segment.segment_id else {}

    async def _excluded_by(self, number: int) -> frozenset[str]:
        """Paths of the files that committed batches up to this one excluded."""
        known, paths = self._excluded
        if number > known:
            paths |= await self._batches.excluded(number, known)
            self._excluded = number, paths
        return paths

    async def _noticed(self) -> Mapping[str, int]:
        """Partition -> start of the first file without an acknowledged notice."""
        name = cursor_name(self._config.sink.prefix)
        blob = await self._blobs.read(name, RECORD_MAX_BYTES)
        if blob is None:
            return {}
        try:
            record = parsed(blob.data)
        except ValidationError:
            raise Damaged(
                f"cannot parse the cursor of notices, blob {name}: delete it, and notices begin anew"
            ) from None
        if record.chain != self._chain:
            return {}
        places = places_of(record).known.items()
        newest = {name: place for name, place in places if place.segment_id == self._segment.segment_id}
        return {name: place.next for name, place in newest.items() if place.next is not None}

    async def _table_now(self) -> TableState | None:
        """The Delta table; None: there is none.

        Raises:
            Blocked: Files cannot be removed from it, or its log is damaged.
            StorageError: A request failed.
        """
        state, _ = await self._table.read()
        if state.version < 0:
            return state if self._config.table is not None else None  # hosts have not created it yet
        if reason := state.keeps_files:
            raise invalid(reason)
        return state

    # --- the files ---

    async def _entry(self, record: RetentionRecord, partition: str) -> KeptFiles | None:
        """The files of a partition as far as they are known, with new ones counted; None: its chain has not begun."""
        follower = self._segment.follower(partition)
        entry = record.partitions.get(partition)
        if entry is None:
            start = await follower.start()
            if start is None:
                return None
            entry = KeptFiles(next=start, done=start)
        if self._limits.bytes is None:
            return entry.model_copy(update={"counted": None, "bytes": 0})
        if entry.counted is None or entry.counted < entry.next:
            entry = entry.model_copy(update={"counted": entry.next, "bytes": 0})
        return await _counted(follower, entry)

    async def _view(self, partition: str, kept: KeptFiles, lease: Lease | None, due: "_Due") -> _View:
        """The oldest files of a partition that may be removed.

        Args:
            partition: Its id.
            kept: Where its kept files begin.
            lease: Of the partition.
            due: The files that are due.
        """
        follower, place = self._segment.follower(partition), TablePartition(self._segment.segment_id, partition)
        files: list[OldFile] = []
        times: list[datetime | None] = []
        size, held = 0, ""
        slot = await follower.file(kept.next, fresh=True)
        while slot is not None and len(files) < due.most:
            skipped = slot.tombstone or due.needs.is_excluded(slot)
            if not skipped:
                if size >= due.excess and (due.before is None or slot.committed_at >= due.before):
                    break
                table = await due.table.get()
                covered = None if table is None else _covered(table, self._chain, place)
                if held := reason_to_keep(due.needs.standing(partition, slot, lease, covered)):
                    break
            following = await follower.file(slot.last + 1, fresh=True)
            if following is None:
                break
            content = slot.size or slot.removed
            files.append(OldFile(following.start, slot.committed_at, content, slot.count, skipped))
            times.append(None if skipped else slot.committed_at)
            size += 0 if skipped else content
            slot = following
        cut = len(files) >= due.most
        times.append(slot.committed_at if slot is not None and not slot.tombstone else None)
        return _View(Window(files, cut), times, held)

    async def _complete(self, record: RetentionRecord, needs: Needs) -> RetentionRecord:
        """Remove the files before the cursor that still exist; returns the record that says so.

        Raises:
            Blocked: The table does not allow it.
            StorageError: A request failed.
        """
        waiting = {name: each for name, each in record.partitions.items() if each.done < each.next}
        left = [
            (partition, slot)
            for partition, kept in waiting.items()
            for slot in await _between(self._segment.follower(partition), kept.done, kept.next)
            if not needs.is_excluded(slot) and not (slot.tombstone and slot.path == self._name_of(partition, slot))
        ]
        for at in range(0, len(left), MOST):
            await self._remove(left[at : at + MOST])
        if waiting:
            done = {name: each.model_copy(update={"done": each.next}) for name, each in record.partitions.items()}
            record = record.model_copy(update={"partitions": done})
            await self._put(record)
        return record

    async def _remove(self, files: Sequence[tuple[str, Slot]]) -> None:
        """Remove files, at most `MOST`, from the table, and then replace them."""
        now, limit, segment = self._now(), asyncio.Semaphore(AT_A_TIME), self._segment

        async def one(partition: str, slot: Slot) -> None:
            async with limit:
                self._check()
                if slot.tombstone:  # a host ended before it removed the content
                    await remove_content(self._blobs, CapturedContent(slot.path, slot.etag))
                    return
                name = self._name_of(partition, slot)
                inside = slot.path == name  # else the slot is a record that names the file
                file = Doomed(
                    name, slot.etag if inside else "", None if inside else CapturedContent(slot.path, slot.etag)
                )
                if not await replace_with_tombstone(self._blobs, file, now):
                    log.warning("a file changed and was not removed", file=name)
                    return
                segment.follower(partition).replaced(slot.start)
                self._metrics.retention_files.inc()
                self._metrics.retention_bytes.inc(slot.size)

        self._check()
        names = (self._name_of(partition, slot) for partition, slot in files)
        await self._table.remove([name.removeprefix(self._table.root) for name in names], now, self._check)
        for failure in await asyncio.gather(*(one(*file) for file in files), return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    def _name_of(self, partition: str, slot: Slot) -> str:
        """Blob name of a slot, which is not that of its events if the slot is a record."""
        return self._segment.follower(partition).chain.path(slot.start)

    # --- the cursor ---

    async def _learn(self) -> RetentionRecord:
        """Read the cursor."""
        blob = await self._blobs.read(self._name, RECORD_MAX_BYTES)
        self._etag = blob.info.etag if blob else None
        newest = self._segment.segment_id
        record = RetentionRecord(chain=self._chain, written_at=self._now(), segment_id=newest)
        if blob is not None:
            try:
                found = RetentionRecord.model_validate_json(blob.data)
            except ValidationError:
                raise Damaged(
                    f"cannot parse the cursor of retention, blob {self._name}: delete it, and hosts write it again"
                ) from None
            if found.chain == self._chain and found.segment_id not in self._segment_ids:
                raise Damaged(
                    f"the cursor of retention, blob {self._name}, names a segment that this host does not know: the "
                    "host registers with it soon, or another program wrote the blob"
                )
            if found.chain == self._chain:
                record = found
            if found.segment_id != newest:
                record = record.model_copy(update={"segment_id": newest, "partitions": {}})
        self._record = record
        return record

    async def _put(self, record: RetentionRecord) -> None:
        """Write the cursor.

        Raises:
            StorageError: It was not written, or the outcome is unknown, or another host wrote it: the next step reads
                it again.
        """
        self._check()
        record = record.model_copy(update={"written_at": self._now()})
        data = record.to_json(indent=1).encode()
        self._record = None
        self._etag = await self._blobs.put(self._name, data, if_match=self._etag, if_absent=self._etag is None)
        self._record = record


def moved(
    record: RetentionRecord, kept: Mapping[str, KeptFiles], going: Mapping[str, Sequence[OldFile]]
) -> RetentionRecord:
    """PURE: the record after the cursor passes these files.

    Args:
        record: Before.
        kept: Partitions with their files as they are known now.
        going: Partition -> files that are removed or skipped, from the cursor on.
    """
    partitions = dict(record.partitions)
    removed = record.removed
    for name, entry in kept.items():
        files = going.get(name, ())
        last = entry.next if not files else files[-1].end
        size = sum(file.size for file in files)
        partitions[name] = entry.model_copy(update={"next": last, "bytes": max(0, entry.bytes - size)})
        gone = [file for file in files if not file.skipped]
        removed = Removed(
            files=removed.files + len(gone),
            events=removed.events + sum(file.events for file in gone),
            bytes=removed.bytes + sum(file.size for file in gone),
        )
    return record.model_copy(update={"partitions": dict(sorted(partitions.items())), "removed": removed})


async def _counted(follower: Follower, entry: KeptFiles) -> KeptFiles:
    """The same files, with new ones counted."""
    position, size = entry.counted or entry.next, entry.bytes
    async for slot in follower.files(position):
        position, size = slot.last + 1, size + slot.size + slot.removed
    return entry.model_copy(update={"counted": position, "bytes": size})


def _covered(table: TableState, chain: str, place: TablePartition) -> int:
    """The last sequence number of a partition that the table covers; -1: none."""
    covered = table.covered(chain, place)
    return -1 if covered is None else covered


async def _between(follower: Follower, start: int, end: int) -> list[Slot]:
    """The files from one start up to another."""
    slots: list[Slot] = []
    position = start
    while position < end and (slot := await follower.file(position, fresh=True, look=True)) is not None:
        slots.append(slot)
        position = slot.last + 1
    return slots


class RetentionTask(Task):
    """Removes old files."""

    name = "remove old files"

    def __init__(self, stage: Stage, measure: Measure, limits: Limits, seconds: float = PAUSE_SECONDS) -> None:
        """Create; sends no request.

        Args:
            stage: The surroundings.
            measure: The measurement: all batches are known after the first one.
            limits: `spec.sink.retention`.
            seconds: Between two looks for files that are due.
        """
        self._measure = measure
        self._seconds = seconds
        self._retention = FileRetention(
            stage.blobs,
            stage.config,
            limits,
            stage.chain,
            stage.tail,
            batches=stage.batches,
            metrics=stage.metrics,
            now=stage.now,
            confined=stage.confined,
            check=stage.check,
        )

    @property
    def pause(self) -> float:
        """See `LeaderTask`."""
        if self._measure.fleet is None:
            return FIRST_SECONDS
        return MORE_SECONDS if self._retention.more else self._seconds

    async def step(self, view: View) -> None:
        """See `LeaderTask`."""
        if self._measure.fleet is not None:
            await self._retention.step(view.partitions, view.leases, self._measure.state)

    def report(self) -> Mapping[str, object]:
        """See `LeaderTask`."""
        return {"retention": self._retention.report}
