"""Writes the events of one partition to files: buffer, commit to the chain, checkpoint.

Invariant: a file is written only to the next slot of the chain, and a checkpoint only after the file that it covers is
committed. If the slot already holds another writer's file, that file is adopted: the events that it covers are dropped
from the buffer, and the next file follows it. The buffer is kept until the commit: only a few blocks of the file are in
memory at a time, and each attempt encodes them again. After the chain was ended, no file is written.
"""

import contextlib
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import structlog

from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host import problems
from eventconsumer_host.body.errors import count
from eventconsumer_host.errors import Fenced, SourceError
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.partition import holes
from eventconsumer_host.partition.buffer import Buffer
from eventconsumer_host.partition.checkpoint import CheckpointSchedule, enter, resume
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.gap_detection import report_lost_events
from eventconsumer_host.sink import gaps
from eventconsumer_host.sink.commit import commit
from eventconsumer_host.sink.content import Content
from eventconsumer_host.sink.gaps import Gap
from eventconsumer_host.sink.slots import Chain, Draft, EnqueuedRange, Slot
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_storage.errors import StorageError, Unavailable

FAILED_COMMITS = 3  # consecutive failures before a problem is reported: storage may fail at any time

log = structlog.get_logger(__name__)


class FileSink:
    """The files of one partition; a `PartitionSink`."""

    def __init__(self, deps: PumpDependencies, held: HeldLease, chain: Chain) -> None:
        self.position: int | None = None  # start of the next slot
        self.expected = 0
        self.files = 0
        self.events = 0
        self._deps = deps
        self._throttle = LogThrottle(deps.clock)
        self._held = held
        self._chain = chain
        self._problem: Problem | None = None  # commits fail
        self._buffer = Buffer()
        self._end: EventMark | None = None  # the last event in a file, or the checkpoint
        self._window = deps.clock()  # when the last file was written, for empty files
        self._failures = 0  # consecutive failures of the current commit
        self._schedule = CheckpointSchedule(deps.config.processing.checkpoint, replaces_files=False)
        self._reached: Checkpoint | None = None  # the end of the committed files, if not checkpointed yet
        self._log = log.bind(partition=chain.partition)
        self._buffered = deps.metrics.buffered.labels(chain.partition)

    def problems(self) -> list[Problem]:
        """See `PartitionSink`."""
        return [self._problem] if self._problem else []

    async def locate(self) -> None:
        """See `PartitionSink`."""
        config = self._deps.config
        lease = await enter(self._held, self._chain, self._deps.hub, config)
        end = await resume(
            self._chain,
            lease,
            self._deps.hub,
            config.starting_position,
            self._deps.start_clock(),
            shared=config.leases.shared,
        )
        if end.epoch >= lease.epoch:  # the lease blob was rebuilt: an epoch must never be used twice
            await self._held.raise_epoch(above=end.epoch)
        if end.checkpoint is not None:
            await self._held.advance(end.checkpoint)
        self._buffer.set_gaps([] if end.skipped is None else [end.skipped])  # a second `locate` may find another one
        self.position, self.expected, self._end = end.next, end.expected, end.mark

    def seconds_left(self, now: float) -> float:
        """See `PartitionSink`."""
        roll = self._deps.config.roll
        if not self._buffer and self._deps.config.files.empty_files:
            return max(0.0, self._window + roll.max_seconds - now)
        return self._buffer.seconds_left(roll, now)

    async def accept(self, batch: EventBatch, missing: list[Gap], rows: EventBatch | None = None) -> None:
        """See `PartitionSink`. Bodies are parsed once, here: each attempt to write a file encodes it again."""
        kept = batch if rows is None else rows
        if self._deps.bodies is not None and len(kept):
            kept = await self._deps.offload(self._deps.bodies.typed, kept)
            batch, rows = (kept, None) if rows is None else (batch, kept)
        self._buffer.add_gaps(missing)
        self._buffer.add(batch, self._deps.clock(), rows)
        self.expected = batch.last + 1
        self._keep()

    @property
    def mark(self) -> EventMark | None:
        """See `PartitionSink`."""
        return self._buffer.end if self._buffer else self._end

    def forget(self) -> bool:
        """See `PartitionSink`."""
        if not self._buffer:
            return False
        self.close()
        self.position = None
        return True

    async def flush(self) -> None:
        """Commit the buffer as a file, or adopt the file in its slot; then write the checkpoint."""
        self._window = self._deps.clock()
        if not self._buffer:
            await self._flush_nothing()
            return
        assert self.position is not None  # noqa: S101 - set by locate
        draft = self._draft(self.position, await self._missing(self.position), await self._statistics())
        errors = await self._errors()
        deps, partition, check = self._deps, self._chain.partition, self._held.keeper.check
        make = partial(deps.encode, self._buffer.batches, partition, self._facts(draft))
        content = Content(make, deps.offload, check)
        with deps.memory.leaving(partition):
            winner = await commit(
                self._chain,
                draft,
                content,
                check=check,
                failed=self._failed,
                rng=deps.rng,
                turn=partial(deps.memory.writing, self._buffer.size),
            )
        size = content.size
        del make, content  # they reference the events, which are in storage now
        self._failures = 0
        self._problem = None
        if winner is None:
            await self._committed(draft, size, errors)
        else:
            await self._adopt(winner)

    async def finish(self) -> None:
        """See `PartitionSink`."""
        while self._buffer:
            await self.flush()
        if self._reached is not None:
            await self._checkpoint(self._reached)

    def close(self) -> None:
        """See `PartitionSink`."""
        self._buffer.clear()
        self._keep()

    async def _flush_nothing(self) -> None:
        if self._deps.config.files.empty_files:
            try:
                await self._chain.put_empty()
            except StorageError as error:  # nothing depends on an empty file
                self._log.warning("failed to write an empty file; it carries no events", error=str(error))

    def _facts(self, draft: Draft) -> dict[str, str]:
        return draft.metadata() | {"partition": self._chain.partition, "from": str(draft.start)}

    async def _statistics(self) -> str:
        bodies = self._deps.bodies
        return "" if bodies is None else await self._deps.offload(bodies.statistics, self._buffer.batches)

    async def _errors(self) -> tuple[int, Counter[str]]:
        bodies = self._deps.bodies
        return (0, Counter()) if bodies is None else await self._deps.offload(count, self._buffer.batches)

    def _draft(self, start: int, missing: list[Gap], statistics: str) -> Draft:
        buffer, bodies = self._buffer, self._deps.bodies
        times = [batch.enqueued_ms for batch in buffer.batches]
        return Draft(
            start=start,
            first=buffer.first,
            last=buffer.last,
            count=buffer.count,
            dropped=buffer.dropped,
            epoch=self._held.lease.epoch,
            writer=self._deps.owner,
            nonce=str(uuid4()),
            last_offset=buffer.last_offset,
            last_enqueued_time=_moment(buffer.last_enqueued_ms),
            enqueued=EnqueuedRange(_moment(min(times)[0]), _moment(max(high for _, high in times))) if times else None,
            gap=gaps.text(missing),
            chain=self._deps.chain,
            columns="" if bodies is None else bodies.of_file,
            statistics=statistics,
        )

    async def _missing(self, start: int) -> list[Gap]:
        """All missing sequence numbers between `start` and the end of the buffer.

        Missing numbers outside the known gaps were attributed to log compaction when the events arrived. Retention may
        have advanced since then, so the hub is asked once more.
        """
        buffer = self._buffer
        if buffer.last + 1 - start == buffer.count + buffer.dropped + sum(map(len, buffer.gaps)):
            return buffer.gaps
        numbers = buffer.numbers
        rest = holes.rest(start, numbers, buffer.gaps)
        with contextlib.suppress(SourceError):  # then the attribution stays
            info = await self._deps.hub.partition(self._chain.partition)
            if lost := holes.removed(rest, info.earliest):
                report_lost_events(self._deps.metrics, self._chain.partition, lost)
                buffer.add_gaps(lost)
                rest = holes.rest(start, numbers, buffer.gaps)
        return [*buffer.gaps, *holes.counted(rest)]

    async def _committed(self, draft: Draft, size: int, errors: tuple[int, Counter[str]]) -> None:
        self._end = self._buffer.end
        self._buffer.clear()
        self._keep()
        self.position = draft.last + 1
        self.files += 1
        self.events += draft.count
        metrics, partition = self._deps.metrics, self._chain.partition
        metrics.files.labels(partition).inc()
        metrics.events.labels(partition).inc(draft.count)
        metrics.handler_dropped.labels(partition).inc(draft.dropped)
        metrics.bytes.labels(partition).inc(size)
        if self._deps.bodies is not None:
            total, each = errors
            metrics.body_errors.labels(partition).inc(total)
            self._deps.bodies.errors.note(each, self._chain.path(draft.start))
        if times := self._throttle.over("commit"):
            self._log.info("file commits succeed again", failures=times)
        self._log.info(
            "file committed", start=draft.start, last=draft.last, events=draft.count, dropped=draft.dropped, bytes=size
        )
        self._reached = Checkpoint(draft.last_offset, draft.last)
        now = self._deps.clock()
        self._schedule.note(draft.count + draft.dropped, now)
        if self._schedule.due(now, "file"):
            await self._checkpoint(self._reached)

    async def _adopt(self, winner: Slot) -> None:
        """Adopt another writer's file: drop the events that it covers, and continue after it.

        Raises:
            Fenced: The file has a higher epoch, so another host owns the partition.
        """
        if winner.epoch > self._held.lease.epoch:
            raise Fenced(
                f"file {winner.path} has epoch {winner.epoch}, this host has epoch {self._held.lease.epoch}: another "
                f"host owns partition {self._chain.partition}"
            )
        self._deps.metrics.adopted.labels(self._chain.partition).inc()
        self._log.warning("adopting another writer's file", path=winner.path, epoch=winner.epoch)
        self._buffer.drop_through(winner.last)
        self._keep()
        self._end = winner.mark
        self.position = winner.last + 1
        self.expected = max(self.expected, self.position)
        await self._checkpoint(Checkpoint(winner.last_offset, winner.last))

    async def _checkpoint(self, checkpoint: Checkpoint) -> None:
        try:
            await self._held.advance(checkpoint)
        except StorageError as error:  # a checkpoint is only a hint
            self._log.warning("failed to write a checkpoint; the next one covers it", error=str(error))
            return
        self._reached = None
        self._schedule.written(self._deps.clock())
        self._deps.metrics.checkpointed(self._chain.partition)

    def _failed(self, error: StorageError) -> None:
        self._deps.metrics.commit_retries.labels(self._chain.partition).inc()
        self._failures += 1
        if not isinstance(error, Unavailable) or self._failures >= FAILED_COMMITS:
            self._problem = problems.of(self._deps.config, problems.SINK, error)
        if times := self._throttle.again("commit", str(error)):
            self._log.warning("failed to commit a file; retrying", error=str(error), times=times)

    def _keep(self) -> None:
        size = self._buffer.size + self._buffer.typed_bytes
        self._deps.memory.keep(self._chain.partition, size)
        self._buffered.set(size)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
