"""One partition: open, receive, buffer, commit a file, checkpoint; again until told to stop or the lease is lost.

The invariant: a checkpoint is written only after the file it covers is committed, and a file only into the slot that
the chain expects next. Everything else may fail at any point: a lost link is opened again at the next sequence number
with the buffer kept; while the sink does not answer nothing more is received; a lost lease ends the pump at once,
without a commit. A problem that needs a person is kept in `problems`, and tried again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from random import Random
from typing import Any
from uuid import uuid4

import structlog

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.host_report import PartitionReport, Problem
from eventconsumer_processor import gaps, problems
from eventconsumer_processor.buffer import Buffer
from eventconsumer_processor.checkpoint import resume
from eventconsumer_processor.errors import (
    Blocked,
    Fenced,
    HostError,
    HubUnreachable,
    LeaseInvalid,
    LinkStolen,
    SourceError,
    StorageError,
    Unavailable,
)
from eventconsumer_processor.lease.keeper import HeldLease, boottime
from eventconsumer_processor.lease.model import Checkpoint
from eventconsumer_processor.metrics import Metrics
from eventconsumer_processor.sink.commit import commit
from eventconsumer_processor.sink.parquet import Encoder
from eventconsumer_processor.sink.slots import Chain, Draft, Slot
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.hub import Hub, HubInfo, Source

POLL_SECONDS = 0.5  # longest receive, so that stop requests and roll times are seen
RETRY_SECONDS = 3.0
LOST_LINKS = 2  # in a row, before it is a problem: a link may drop at any time
FAILED_COMMITS = 3  # in a row, likewise

log = structlog.get_logger(__name__)


class CloseReason(StrEnum):
    """Why a pump ended."""

    SHUTDOWN = "Shutdown"
    LEASE_LOST = "LeaseLost"
    STOLEN = "LinkStolen"
    FENCED = "Fenced"


@dataclass(frozen=True)
class Work:
    """What all pumps of a host share."""

    owner: str
    config: HostConfig
    hub: Hub
    info: HubInfo  # the hub as it was registered
    encode: Encoder
    metrics: Metrics
    clock: Callable[[], float] = boottime
    rng: Random = Random()  # noqa: S311, RUF009 - spreads retries
    offload: Callable[..., Awaitable[Any]] = asyncio.to_thread  # runs work that takes CPU time


class Pump:
    """The pump of one partition."""

    def __init__(self, work: Work, held: HeldLease, chain: Chain) -> None:
        self.problems: dict[str, Problem] = {}
        self.stop = asyncio.Event()
        self._work = work
        self._held = held
        self._chain = chain
        self._buffer = Buffer()
        self._source: Source | None = None
        self._next: int | None = None  # start of the next slot
        self._expected = 0  # next sequence number to receive: `_next`, or behind the buffer
        self._doubted: int | None = None  # where a gap was seen once
        self._failures = 0  # of opening or keeping a link, in a row
        self._commit_failures = 0  # of the file being committed
        self._files = 0
        self._events = 0
        self._log = log.bind(partition=chain.partition)

    @property
    def partition(self) -> str:
        """The partition's id."""
        return self._chain.partition

    def report(self) -> PartitionReport:
        """What /status shows."""
        return PartitionReport(
            id=self.partition,
            epoch=self._held.lease.epoch,
            next_sequence_number=self._next,
            events=self._events,
            files=self._files,
        )

    async def run(self) -> CloseReason:
        """Pump until stopped.

        Raises:
            LeaseLost: The partition belongs to another host now.
        """
        try:
            while not self.stop.is_set():
                try:
                    await self._open()
                    await self._receive()
                except LinkStolen as error:
                    self._log.warning("another reader took the link", error=str(error))
                    return CloseReason.STOLEN
                except (SourceError, StorageError, Blocked, LeaseInvalid) as error:
                    await self._retry_later(error)
            while self._buffer:
                await self._flush()
            return CloseReason.SHUTDOWN
        except Fenced as error:
            self._log.error("halting", error=str(error))
            return CloseReason.FENCED
        finally:
            await self._detach()
            self._work.metrics.buffered.labels(self.partition).set(0)

    # --- open ---

    async def _open(self) -> None:
        if self._next is None:
            await self._find_position()
        await self._check_hub()
        self._source = await self._work.hub.open(
            self.partition, self._expected - 1, self._held.lease.epoch, self._work.config.processing.prefetch
        )
        self._log.info("attached", epoch=self._held.lease.epoch, next=self._expected)

    async def _find_position(self) -> None:
        lease = await self._held.refresh()
        end = await resume(self._chain, lease, self._work.hub, self._work.config.starting_position)
        if end.epoch >= lease.epoch:  # the lease blob was rebuilt: an epoch must never come twice
            await self._held.raise_epoch(above=end.epoch)
        if end.checkpoint is not None:
            await self._held.advance(end.checkpoint)
        last = (await self._work.hub.partition(self.partition)).last
        if end.next > last + 1:
            problem = problems.position_beyond_end(self.partition, end.next, last)
            raise Blocked(problem.field, Reason.HUB_CHANGED, problem.message)
        self._next = self._expected = end.next

    async def _check_hub(self) -> None:
        """A hub that was created again must never be read into the old chains."""
        found = await self._work.hub.describe()
        if found.created_at != self._work.info.created_at:
            problem = problems.hub_changed(self._work.info, found)
            raise Blocked(problem.field, Reason.HUB_CHANGED, problem.message)

    def _healed(self) -> None:
        if self._failures:
            self._failures = 0
            self.problems.pop("source", None)

    async def _retry_later(self, error: HostError) -> None:
        self._log.warning("will try again", error=str(error), kind=type(error).__name__)
        self._work.metrics.receive_errors.labels(self.partition, type(error).__name__).inc()
        await self._detach()
        self._failures += 1
        if not isinstance(error, HubUnreachable | Unavailable) or self._failures >= LOST_LINKS:
            self.problems["source"] = self._problem_of(error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), RETRY_SECONDS * self._work.rng.uniform(0.5, 1.5))

    def _problem_of(self, error: HostError) -> Problem:
        if isinstance(error, SourceError):
            # The hub answered when this host registered: what is not found now is the consumer group.
            return problems.hub_problem(self._work.config.event_hub, error, group=True)
        part = problems.LEASES if isinstance(error, LeaseInvalid) else problems.SINK
        return problems.of(self._work.config, part, error)

    async def _detach(self) -> None:
        if self._source is not None:
            source, self._source = self._source, None
            await source.close()

    # --- receive ---

    async def _receive(self) -> None:
        """Receive until stopped; ends by an error of the link."""
        assert self._source is not None  # noqa: S101 - set by _open
        processing, roll, clock = self._work.config.processing, self._work.config.roll, self._work.clock
        heard = clock()
        while not self.stop.is_set():
            left = self._buffer.seconds_left(roll, clock())
            if left <= 0:
                await self._flush()
                continue
            batch = await self._source.receive(processing.max_batch_size, min(POLL_SECONDS, left))
            self._held.keeper.check()
            self._healed()
            if len(batch):
                heard = clock()
                await self._accept(batch)
            elif clock() - heard >= processing.max_wait_seconds:
                await self._check_link()
                heard = clock()

    async def _accept(self, batch: EventBatch) -> None:
        fresh = batch.rising().after(self._expected - 1)
        if dropped := len(batch) - len(fresh):
            self._work.metrics.dropped.labels(self.partition).inc(dropped)
        if not len(fresh):
            return
        numbers = fresh.sequence_numbers
        if numbers[-1] - self._expected + 1 != len(fresh):
            self._examine_gap(numbers)
        self._buffer.add(fresh, self._work.clock())
        self._expected = numbers[-1] + 1
        self._work.metrics.received.labels(self.partition).inc(len(fresh))
        self._work.metrics.buffered.labels(self.partition).set(self._buffer.size)

    def _examine_gap(self, numbers: list[int]) -> None:
        """Events are missing: read again from the gap once, then believe it, record it and say so.

        Raises:
            HubUnreachable: The link is to be opened again.
        """
        gap = gaps.find(self._expected, numbers)
        if self._doubted != self._expected:
            self._doubted = self._expected
            raise HubUnreachable(f"events {gap} of partition {self.partition} did not come: reading again")
        self._buffer.gaps += gap.ranges
        self._work.metrics.gap_events.labels(self.partition).inc(gap.events)
        self._log.error("events were removed before they were read", ranges=str(gap))
        self.problems["gap"] = gaps.problem(self.partition, gap)

    async def _check_link(self) -> None:
        """No event for long: make sure that there is none.

        Raises:
            HubUnreachable: There are events, so the link is frozen.
        """
        if (await self._work.hub.partition(self.partition)).last >= self._expected:
            raise HubUnreachable(f"partition {self.partition} has events, but the link gives none: opening a new one")

    # --- commit ---

    async def _flush(self) -> None:
        """Make the buffer a file, or adopt the file that is there instead; then the checkpoint."""
        assert self._next is not None  # noqa: S101 - set by _open
        buffer = self._buffer
        draft = self._draft(self._next)
        facts = draft.metadata() | {
            "hub": f"{self._work.info.namespace}/{self._work.info.name}",
            "partition": self.partition,
            "from": str(draft.start),
        }
        data = await self._work.offload(self._work.encode, buffer.batches, self.partition, facts)
        winner = await commit(
            self._chain,
            draft,
            data,
            check=self._held.keeper.check,
            failed=self._commit_failed,
            rng=self._work.rng,
        )
        self._commit_failures = 0
        self.problems.pop("sink", None)
        if winner is None:
            self._committed(draft, len(data))
            await self._checkpoint(Checkpoint(draft.last_offset, draft.last))
        else:
            await self._adopt(winner)

    def _draft(self, start: int) -> Draft:
        last = self._buffer.batches[-1]
        return Draft(
            start=start,
            first=self._buffer.first,
            last=self._buffer.last,
            count=self._buffer.count,
            epoch=self._held.lease.epoch,
            writer=self._work.owner,
            nonce=str(uuid4()),
            last_offset=last.offsets[-1],
            last_enqueued_time=datetime.fromtimestamp(last.enqueued_ms[-1] / 1000, UTC),
            gap=f"retention:{gaps.Gap(tuple(self._buffer.gaps))}" if self._buffer.gaps else "",
        )

    def _committed(self, draft: Draft, size: int) -> None:
        self._buffer.clear()
        self._next = draft.last + 1
        self._files += 1
        self._events += draft.count
        metrics = self._work.metrics
        metrics.files.labels(self.partition).inc()
        metrics.events.labels(self.partition).inc(draft.count)
        metrics.bytes.labels(self.partition).inc(size)
        metrics.buffered.labels(self.partition).set(0)
        self._log.info("file committed", start=draft.start, last=draft.last, events=draft.count, bytes=size)

    async def _adopt(self, winner: Slot) -> None:
        """Another writer's file is the truth: drop what it covers and go on behind it.

        Raises:
            Fenced: It has a higher epoch, so this host is the zombie.
        """
        if winner.epoch > self._held.lease.epoch:
            raise Fenced(
                f"file {winner.path} has epoch {winner.epoch}, this host {self._held.lease.epoch}: another host owns "
                f"partition {self.partition}"
            )
        self._work.metrics.adopted.labels(self.partition).inc()
        self._log.warning("adopting another writer's file", path=winner.path, epoch=winner.epoch)
        self._buffer.drop_through(winner.last)
        self._next = winner.last + 1
        self._expected = max(self._expected, self._next)
        await self._checkpoint(Checkpoint(winner.last_offset, winner.last))

    async def _checkpoint(self, checkpoint: Checkpoint) -> None:
        try:
            await self._held.advance(checkpoint)
        except StorageError as error:  # a hint only: the next one covers it
            self._log.warning("checkpoint not written", error=str(error))

    def _commit_failed(self, error: StorageError) -> None:
        self._work.metrics.commit_retries.labels(self.partition).inc()
        self._commit_failures += 1
        if not isinstance(error, Unavailable) or self._commit_failures >= FAILED_COMMITS:
            self.problems["sink"] = problems.of(self._work.config, problems.SINK, error)
        self._log.warning("commit failed, will try again", error=str(error))
