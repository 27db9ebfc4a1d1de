"""Registers new files in the table, in chain order in each partition, all partitions in one commit.

Any number of committers may run at once: see `delta`. A committer takes the files after those that the table covers
(`tail` finds them), and commits them. What the table covers is only known from the table's log, so a committer that was
killed, or whose answer was lost, needs no other record.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from uuid import uuid4

import structlog

from eventconsumer_api.wire.host_report import COUNT_MAX, TableReport
from eventconsumer_host.leader.stage import Stage
from eventconsumer_host.leader.tail import Follower, LookPace, Segment, Tail
from eventconsumer_host.leader.task import Task, View
from eventconsumer_host.sink.slots import Slot
from eventconsumer_host.table import checkpoint
from eventconsumer_host.table.delta import TableCommit, TablePartition, TableState, new_table
from eventconsumer_host.table.log import TableLog, invalid
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.confined.reader import Confined
from eventconsumer_storage.errors import StorageError

FILES_AT_ONCE = 5000  # in one commit: about 2 MB
QUIET_SECONDS = 60.0  # after a file; until then, further ones are looked for although the hub had no event before
LOOKS_AT_ONCE = 16  # requests
CHECKPOINT_VERSIONS = 100  # between two checkpoints of a small table
CHECKPOINT_FILES = 1000  # files of the table for each further version between two checkpoints
LOG_VERSIONS = 100_000  # in the log at most, and those up to a checkpoint: a listing of them takes 20 requests

log = structlog.get_logger(__name__)


class Committer:
    """The committer of one consumer's table."""

    def __init__(
        self,
        blobs: BlobStore,
        prefix: str,
        chain: str,
        tail: Tail,
        *,
        now: Callable[[], datetime],
        confined: Confined,
        check: Callable[[], None] = lambda: None,
        checkpoint_versions: int = CHECKPOINT_VERSIONS,
    ) -> None:
        """Create a committer; sends no request.

        Args:
            blobs: The container of the files.
            prefix: Their folder, the root of the table.
            chain: Identity of the chain.
            tail: Its files.
            now: Wall clock, in UTC.
            confined: Reads what others may have written.
            check: Called before each commit; raises if this host must not write any more.
            checkpoint_versions: Versions between two checkpoints of a small table.
        """
        self._log = TableLog(blobs, prefix, confined)
        self._chain = chain
        self._tail = tail
        self._now = now
        self._check = check
        self._checkpoint_versions = checkpoint_versions
        self._state: TableState | None = None
        self._checkpoint = -1  # version of the last checkpoint that is known or was tried
        self._waiting: dict[TablePartition, deque[Slot]] = {}  # files that the table does not cover, without a hole
        self._ended: set[str] = set()  # old segments that the table covers
        self._committed_at: datetime | None = None

    async def advance(self, partitions: Sequence[str]) -> None:
        """Register all files that are known, and create the table if there is none.

        Args:
            partitions: All partition ids.

        Raises:
            Blocked: The table is damaged, or needs another writer.
            StorageError: A request failed; files may be registered. The next call continues.
        """
        if self._state is None:
            self._state, self._checkpoint = await self._log.read()
        if self._state.version < 0:
            await self._commit(new_table(str(uuid4()), self._now()))
        while True:
            await self._look(partitions)
            registration = self._next()
            if registration is None:
                break
            await self._commit(registration.content(self._log.root, self._now()))
        self._ended.update(segment.segment_id for segment in self._tail.segments[:-1])
        await self._write_checkpoint()

    @property
    def report(self) -> TableReport | None:
        """The report of the table; None before its log was read."""
        state = self._state
        if state is None or state.version < 0:
            return None
        waiting = [slot for slots in self._waiting.values() for slot in slots]
        kept = state.log_retention
        return TableReport(
            version=min(state.version, COUNT_MAX),
            files=self._total("files"),
            events=self._total("events"),
            pending_files=len(waiting),
            pending_events=min(sum(slot.count for slot in waiting), COUNT_MAX),
            oldest_pending_time=min((slot.committed_at for slot in waiting), default=None),
            committed_at=self._committed_at,
            log_retention_seconds=None if kept is None else kept.total_seconds(),
        )

    def _total(self, what: str) -> int:
        total = self._state.total(self._chain, what) if self._state else 0
        return min(max(total, 0), COUNT_MAX)

    async def _look(self, partitions: Sequence[str]) -> None:
        limit = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def look(segment: Segment, partition: str) -> None:
            async with limit:
                await self._take(segment, partition)

        wanted = [segment for segment in self._tail.segments if segment.segment_id not in self._ended]
        looks = (look(segment, partition) for segment in wanted for partition in partitions)
        results = await asyncio.gather(*looks, return_exceptions=True)
        for failed in (result for result in results if isinstance(result, BaseException)):
            raise failed

    async def _take(self, segment: Segment, partition: str) -> None:
        """Take the files of a partition after the last one that waits."""
        follower = segment.follower(partition)
        place = TablePartition(segment.segment_id, partition)
        waiting = self._waiting.setdefault(place, deque())
        position = waiting[-1].last + 1 if waiting else await self._position(place, follower)
        if position is None:
            return  # no host has opened the partition yet
        async for slot in follower.files(position, look=segment is not self._tail.newest):
            waiting.append(slot)

    async def _position(self, place: TablePartition, follower: Follower) -> int | None:
        """The sequence number from which on the table has no events; None if the chain has not begun."""
        assert self._state is not None  # noqa: S101 - read before
        covered = self._state.covered(self._chain, place)
        return await follower.start() if covered is None else covered + 1

    def _next(self) -> TableCommit | None:
        """The next commit; None: nothing is left to register.

        Raises:
            Blocked: The table needs another writer.
        """
        assert self._state is not None  # noqa: S101 - read before
        chosen: dict[TablePartition, tuple[Slot, ...]] = {}
        left = FILES_AT_ONCE
        for place, waiting in self._waiting.items():
            if waiting and left:
                chosen[place] = tuple(waiting)[:left]
                left -= len(chosen[place])
        if not chosen:
            return None
        if reason := self._state.unsupported:
            raise invalid(
                f"hosts do not write to a table with {reason}: remove it from the table in {self._log.root}, or remove "
                "spec.sink.table and let a program of your own register the files"
            )
        slots = [slot for each in chosen.values() for slot in each]
        return TableCommit(
            chain=self._chain,
            slots=chosen,
            files=self._total("files") + len(slots),
            events=self._total("events") + sum(slot.count for slot in slots),
        )

    async def _commit(self, content: bytes) -> None:
        """Write the next version, or learn what others wrote there; then forget the files that are covered."""
        assert self._state is not None  # noqa: S101 - read before
        self._check()
        self._state = await self._log.commit(self._state, content)
        self._committed_at = self._now()
        for place, waiting in self._waiting.items():
            covered = self._state.covered(self._chain, place)
            while waiting and covered is not None and waiting[0].start <= covered:
                waiting.popleft()

    async def _write_checkpoint(self) -> None:
        state = self._state
        assert state is not None  # noqa: S101 - read before
        versions = max(self._checkpoint_versions, self._total("files") // CHECKPOINT_FILES)
        if state.version - self._checkpoint < versions:
            return
        self._checkpoint = state.version  # after a failure, the next attempt is as far away as after a success
        self._check()
        try:
            await checkpoint.write(self._log, state.version)
            if (kept := state.log_retention) is not None:
                await checkpoint.remove_old_versions(self._log, self._now() - kept, state.version - LOG_VERSIONS)
        except (StorageError, ValueError) as error:  # readers need more requests meanwhile
            log.warning("failed to write a checkpoint of the table, or to remove old versions", error=str(error))


class TableTask(Task):
    """Registers new files."""

    name = "register files in the table"

    def __init__(self, stage: Stage, seconds: float, checkpoint_versions: int = CHECKPOINT_VERSIONS) -> None:
        """Create; sends no request.

        Args:
            stage: The surroundings.
            seconds: Between two commits.
            checkpoint_versions: Versions between two checkpoints of a small table.
        """
        self._tail = stage.tail
        self._seconds = seconds
        self._committer = Committer(
            stage.blobs,
            stage.prefix,
            stage.chain,
            stage.tail,
            now=stage.now,
            confined=stage.confined,
            check=stage.check,
            checkpoint_versions=checkpoint_versions,
        )

    @property
    def pause(self) -> float:
        """See `LeaderTask`."""
        return self._seconds

    async def step(self, view: View) -> None:
        """See `LeaderTask`. Where the hub has events that no file has, each step looks for a file."""
        await self._tail.follow(view, LookPace(0.0, QUIET_SECONDS))
        await self._committer.advance(view.partitions)

    def report(self) -> Mapping[str, object]:
        """See `LeaderTask`."""
        return {"table": self._committer.report}

    async def rest(self, view: View) -> None:
        """See `LeaderTask`. If that fails, a later leader does it."""
        await self.step(view)
