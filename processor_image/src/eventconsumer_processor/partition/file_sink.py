"""One partition's events on their way into files: buffer, commit into the chain, checkpoint.

The invariant: a file goes only into the slot that the chain expects next, and a checkpoint is written only after the
file it covers is committed. Where another writer's file is in the slot, that file is the truth: what it covers is
dropped and draining continues behind it. The buffer stays until then: of the file itself only a few blocks are ever in
memory, and every try makes them again. Where the chain was ended, nothing more is written.
"""

import contextlib
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import numpy as np
import structlog

from eventconsumer_api.host_report import Problem
from eventconsumer_api.identity import EventMark
from eventconsumer_api.log_throttle import LogThrottle
from eventconsumer_processor import problems
from eventconsumer_processor.errors import Fenced, SourceError
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.lease.model import Checkpoint
from eventconsumer_processor.partition import holes, marks
from eventconsumer_processor.partition.buffer import Buffer
from eventconsumer_processor.partition.checkpoint import enter, resume
from eventconsumer_processor.partition.checkpoint_policy import CheckpointSchedule
from eventconsumer_processor.partition.dependencies import PumpDependencies
from eventconsumer_processor.partition.gap_detection import report_lost_events
from eventconsumer_processor.sink import gaps
from eventconsumer_processor.sink.commit import commit
from eventconsumer_processor.sink.content import Content
from eventconsumer_processor.sink.gaps import Gap
from eventconsumer_processor.sink.slots import Chain, Draft, Slot
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_storage.errors import StorageError, Unavailable

FAILED_COMMITS = 3  # in a row, before it is a problem: storage may fail at any time

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
        self._problem: Problem | None = None  # of commits
        self._buffer = Buffer()
        self._end: EventMark | None = None  # the last event in a file, or in the checkpoint
        self._window = deps.clock()  # when the last file was made: for empty files
        self._failures = 0  # of the commit at hand, in a row
        self._schedule = CheckpointSchedule(deps.config.processing.checkpoint, replaces_files=False)
        self._reached: Checkpoint | None = None  # committed, and perhaps not in a checkpoint yet
        self._log = log.bind(partition=chain.partition)
        self._buffered = deps.metrics.buffered.labels(chain.partition)

    def problems(self) -> list[Problem]:
        """See `PartitionSink`."""
        return [self._problem] if self._problem else []

    async def locate(self) -> None:
        """See `PartitionSink`."""
        lease = await enter(self._held, self._chain)
        config = self._deps.config
        end = await resume(
            self._chain,
            lease,
            self._deps.hub,
            config.starting_position,
            shared=config.leases.shared,
        )
        if end.epoch >= lease.epoch:  # the lease blob was rebuilt: an epoch must never come twice
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

    async def accept(self, batch: EventBatch, missing: list[Gap]) -> None:
        """See `PartitionSink`."""
        self._buffer.add_gaps(missing)
        self._buffer.add(batch, self._deps.clock())
        self.expected = batch.last + 1
        self._keep()

    @property
    def mark(self) -> EventMark | None:
        """See `PartitionSink`."""
        return marks.last_of(self._buffer.batches[-1]) if self._buffer else self._end

    def forget(self) -> bool:
        """See `PartitionSink`."""
        if not self._buffer:
            return False
        self.close()
        self.position = None
        return True

    async def flush(self) -> None:
        """Make the buffer a file, or adopt the file that is there instead; then the checkpoint."""
        self._window = self._deps.clock()
        if not self._buffer:
            await self._flush_nothing()
            return
        assert self.position is not None  # noqa: S101 - set by locate
        draft = self._draft(self.position, await self._missing(self.position))
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
        del make, content  # they hold the events, which are in storage now
        self._failures = 0
        self._problem = None
        if winner is None:
            await self._committed(draft, size)
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
            except StorageError as error:  # it says nothing that the next one does not say
                self._log.warning("failed to write an empty file; it carries no events", error=str(error))

    def _facts(self, draft: Draft) -> dict[str, str]:
        return draft.metadata() | {"partition": self._chain.partition, "from": str(draft.start)}

    def _draft(self, start: int, missing: list[Gap]) -> Draft:
        last = self._buffer.batches[-1]
        return Draft(
            start=start,
            first=self._buffer.first,
            last=self._buffer.last,
            count=self._buffer.count,
            epoch=self._held.lease.epoch,
            writer=self._deps.owner,
            nonce=str(uuid4()),
            last_offset=last.last_offset,
            last_enqueued_time=datetime.fromtimestamp(last.last_enqueued_ms / 1000, UTC),
            gap=gaps.text(missing),
            chain=self._deps.chain,
        )

    async def _missing(self, start: int) -> list[Gap]:
        """All that is missing between `start` and the buffer's end.

        What is in no gap was taken for compaction when it came. The hub is asked once more, now that all of it was
        seen: retention may have come farther than it had then.
        """
        buffer = self._buffer
        if buffer.last + 1 - start == buffer.count + sum(map(len, buffer.gaps)):
            return buffer.gaps
        numbers = np.concatenate([batch.numbers for batch in buffer.batches])
        rest = holes.rest(start, numbers, buffer.gaps)
        with contextlib.suppress(SourceError):  # else as it was taken for
            info = await self._deps.hub.partition(self._chain.partition)
            if lost := holes.removed(rest, info.earliest):
                report_lost_events(self._deps.metrics, self._chain.partition, lost)
                buffer.add_gaps(lost)
                rest = holes.rest(start, numbers, buffer.gaps)
        return [*buffer.gaps, *holes.counted(rest)]

    async def _committed(self, draft: Draft, size: int) -> None:
        self._end = marks.last_of(self._buffer.batches[-1])
        self._buffer.clear()
        self._keep()
        self.position = draft.last + 1
        self.files += 1
        self.events += draft.count
        metrics, partition = self._deps.metrics, self._chain.partition
        metrics.files.labels(partition).inc()
        metrics.events.labels(partition).inc(draft.count)
        metrics.bytes.labels(partition).inc(size)
        if times := self._throttle.over("commit"):
            self._log.info("file commits succeed again", failures=times)
        self._log.info("file committed", start=draft.start, last=draft.last, events=draft.count, bytes=size)
        self._reached = Checkpoint(draft.last_offset, draft.last)
        now = self._deps.clock()
        self._schedule.note(draft.count, now)
        if self._schedule.due(now, "file"):
            await self._checkpoint(self._reached)

    async def _adopt(self, winner: Slot) -> None:
        """Another writer's file is the truth: drop what it covers and go on behind it.

        Raises:
            Fenced: It has a higher epoch, so this host is the zombie.
        """
        if winner.epoch > self._held.lease.epoch:
            raise Fenced(
                f"file {winner.path} has epoch {winner.epoch}, this host {self._held.lease.epoch}: another host owns "
                f"partition {self._chain.partition}"
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
        except StorageError as error:  # a hint only: the next one covers it
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
        self._deps.memory.keep(self._chain.partition, self._buffer.size)
        self._buffered.set(self._buffer.size)
