"""Writes checkpoints, and no files, for a partition whose events only the user's handler processes.

The handler has processed all events before `expected`. A checkpoint is written when the policy says so, when the
handler calls `context.checkpoint()`, and (not with policy Handler) at an orderly end. After a crash the events after
the checkpoint are processed again: at least once. No file can record lost events, so they are reported as a problem
while this host owns the partition.
"""

import structlog

from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host import problems
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.partition import marks
from eventconsumer_host.partition.checkpoint import CheckpointSchedule, begin, enter, mark_at
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.sink.gaps import Gap
from eventconsumer_host.sink.slots import Chain
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_storage.errors import StorageError

IDLE_SECONDS = 60.0
RETRY_SECONDS = 3.0

log = structlog.get_logger(__name__)


class CheckpointSink:
    """The checkpoints of one partition; a `PartitionSink`."""

    files = 0

    def __init__(self, deps: PumpDependencies, held: HeldLease, chain: Chain) -> None:
        self.position: int | None = None  # the first sequence number after the last written checkpoint
        self.expected = 0
        self.mark: EventMark | None = None
        self.events = 0
        self._deps = deps
        self._throttle = LogThrottle(deps.clock)
        self._held = held
        self._chain = chain
        self._schedule = CheckpointSchedule(deps.config.processing.checkpoint, replaces_files=True)
        self._problem: Problem | None = None  # events were lost
        self._lost = 0  # events that retention removed before they were read
        self._done: Checkpoint | None = None  # processed, but not checkpointed yet
        self._not_before = 0.0  # earliest time of the next attempt, after a failure

    def problems(self) -> list[Problem]:
        """See `PartitionSink`."""
        return [self._problem] if self._problem else []

    async def locate(self) -> None:
        """See `PartitionSink`."""
        deps = self._deps
        lease = await enter(self._held, self._chain, deps.hub, deps.config)
        genesis = await begin(self._chain, lease, deps.hub, deps.config.starting_position, deps.start_clock())
        checkpoint = lease.checkpoint
        start = genesis.start
        self.position = self.expected = max(start, checkpoint.sequence_number + 1) if checkpoint else start
        self.mark = mark_at(self._chain, genesis, lease, self.expected)

    def seconds_left(self, now: float) -> float:
        """See `PartitionSink`."""
        if self._done is None:
            return IDLE_SECONDS
        return max(0.0, self._not_before - now) if self._schedule.due(now, "batch") else 1.0

    async def accept(self, batch: EventBatch, missing: list[Gap], rows: EventBatch | None = None) -> None:
        """See `PartitionSink`. There are no rows without files."""
        if missing:
            self._lost += sum(map(len, missing))
            self._problem = problems.data_gap(self._chain.partition, self._lost, missing[-1])
        self.events += len(batch)
        self.expected = batch.last + 1
        self.mark = marks.last_of(batch)
        if self.position is None or batch.last >= self.position:  # else the handler wrote the checkpoint
            self._done = Checkpoint(batch.last_offset, batch.last)
            self._schedule.note(len(batch), self._deps.clock())

    async def checkpoint(self, at: Checkpoint) -> None:
        """Write a checkpoint that the handler requests; one that is not above the current one changes nothing.

        Raises:
            LeaseLost: This host does not hold the lease.
            StorageError: The request failed, or the outcome is unknown.
        """
        await self._held.advance(at)
        self.position = max(at.sequence_number + 1, self.position or 0)
        if self._done is not None and self._done.sequence_number <= at.sequence_number:
            self._done = None
            self._schedule.written(self._deps.clock())
        self._deps.metrics.checkpointed(self._chain.partition)

    async def flush(self) -> None:
        """See `PartitionSink`."""
        if self._done is None or not self._schedule.automatic:
            return
        try:
            await self._held.advance(self._done)
        except StorageError as error:
            if times := self._throttle.again("checkpoint", str(error)):
                log.warning(
                    "failed to write a checkpoint; the next one covers it",
                    partition=self._chain.partition, error=str(error), times=times,
                )  # fmt: skip
            self._not_before = self._deps.clock() + RETRY_SECONDS
            return
        if times := self._throttle.over("checkpoint"):
            log.info("checkpoints are written again", partition=self._chain.partition, failures=times)
        self.position = self._done.sequence_number + 1
        self._done = None
        self._schedule.written(self._deps.clock())
        self._deps.metrics.checkpointed(self._chain.partition)

    async def finish(self) -> None:
        """See `PartitionSink`."""
        await self.flush()

    def forget(self) -> bool:
        """See `PartitionSink`. The handler receives events with these sequence numbers again."""
        dropped, self._done = self._done is not None, None
        if dropped:
            self.position = None
        return dropped

    def close(self) -> None:
        """See `PartitionSink`."""
