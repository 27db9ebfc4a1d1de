"""One partition: open, receive, hand on; again until told to stop or the lease is lost.

Everything may fail at any point: a lost link is opened again at the next sequence number with what was received kept;
what comes twice is dropped by its sequence number; while the outlet does not take anything, nothing more is received; a
lost lease ends the pump at once, without a commit. A problem that needs a person is kept in `problems`, and tried
again.
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from enum import StrEnum

import structlog

from eventconsumer_api.conditions import Reason
from eventconsumer_api.host_report import PartitionReport, Problem
from eventconsumer_api.repeats import Repeats
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_processor import gaps, problems
from eventconsumer_processor.drain import Drain
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
from eventconsumer_processor.gaps import Gap
from eventconsumer_processor.handled import Handled
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.sink.slots import Chain
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.hub import Source
from eventconsumer_processor.work import Outlet, Work

POLL_SECONDS = 0.5  # longest receive, so that stop requests and roll times are seen
RETRY_SECONDS = 3.0
SHOWN_GAPS = 10  # in a log line
LOST_LINKS = 2  # in a row, before it is a problem: a link may drop at any time

log = structlog.get_logger(__name__)


class CloseReason(StrEnum):
    """Why a pump ended."""

    SHUTDOWN = "Shutdown"
    LEASE_LOST = "LeaseLost"
    STOLEN = "LinkStolen"
    FENCED = "Fenced"


class Pump:
    """The pump of one partition."""

    def __init__(self, work: Work, held: HeldLease, chain: Chain) -> None:
        self.stop = asyncio.Event()
        self._problems: dict[str, Problem] = {}
        self._work = work
        self._repeats = Repeats(work.clock)
        self._held = held
        self._partition = chain.partition
        self._handler = work.handler(chain.partition) if work.handler else None
        self._outlet: Outlet
        if self._handler is not None and work.config.processing.handler_mode is HandlerMode.REPLACE:
            self._outlet = Handled(work, held, chain, self._problems)
        else:
            self._outlet = Drain(work, held, chain, self._problems)
        self._handler_open = False
        self._source: Source | None = None
        self._doubted: int | None = None  # where a gap was seen once
        self._failures = 0  # of opening or keeping a link, in a row
        self._last: tuple[int, int, datetime] | None = None  # number, enqueued ms and retrieval time of the last event
        self._log = log.bind(partition=chain.partition)
        self._received = work.metrics.received.labels(chain.partition)

    @property
    def partition(self) -> str:
        """The partition's id."""
        return self._partition

    @property
    def problems(self) -> dict[str, Problem]:
        """What needs a person now, by kind."""
        return self._problems | (self._handler.problems if self._handler else {})

    def report(self) -> PartitionReport:
        """What /status shows."""
        number, enqueued_ms, retrieved = self._last or (None, None, None)
        return PartitionReport(
            id=self.partition,
            epoch=self._held.lease.epoch,
            next_sequence_number=self._outlet.position,
            sequence_number=number,
            enqueued_time=None if enqueued_ms is None else datetime.fromtimestamp(enqueued_ms / 1000, UTC),
            retrieved_time=retrieved,
            events=self._outlet.events,
            files=self._outlet.files,
        )

    def end(self) -> None:
        """Have `run` end in order, soon: nothing waits for more events."""
        self.stop.set()
        if self._source is not None:
            self._source.hurry()

    async def run(self) -> CloseReason:
        """Pump until stopped.

        Raises:
            LeaseLost: The partition belongs to another host now.
        """
        lost = True
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
            # Nothing more is taken from the link: it closes while what is kept becomes a file.
            await asyncio.gather(self._detach(), self._outlet.finish())
            lost = False
            return CloseReason.SHUTDOWN
        except Fenced as error:
            self._log.error("this host stops writing the partition", error=str(error))
            return CloseReason.FENCED
        finally:
            await self._detach()
            self._outlet.close()
            if self._handler is not None and self._handler_open:
                await self._handler.close(lost=lost)

    # --- open ---

    async def _open(self) -> None:
        if self._outlet.position is None:
            await self._outlet.locate()
            await self._check_end()
        if self._handler is not None and not self._handler_open:
            await self._handler.open(self._held.lease.epoch, self._outlet.expected)
            self._handler_open = True
        epoch, prefetch = self._held.lease.epoch, self._work.config.processing.prefetch
        try:
            self._source = await self._work.hub.open(self.partition, self._outlet.expected - 1, epoch, prefetch)
        except LinkStolen:
            raise  # whatever else is wrong: never again under this epoch
        except SourceError:
            await self._check_hub()  # a new hub refuses the position of the old one
            raise
        # Asked behind the attach: no link survives its hub, so the old hub's answer now means the old hub's link.
        await self._check_hub()
        self._log.info("attached", epoch=epoch, next=self._outlet.expected)

    async def _check_end(self) -> None:
        last = (await self._work.hub.partition(self.partition)).last
        if self._outlet.expected > last + 1:
            problem = problems.position_beyond_end(self.partition, self._outlet.expected, last)
            self._outlet.position = None
            raise Blocked(problem.field, Reason(problem.reason), problem.message)

    async def _check_hub(self) -> None:
        """A hub that was created again must never be read into the old chains."""
        found = await self._work.hub.describe()
        if found.created_at != self._work.info.created_at:
            problem = problems.hub_changed(self._work.info, found)
            raise Blocked(problem.field, Reason.HUB_DIVERGED, problem.message)

    def _healed(self) -> None:
        if self._failures:
            self._failures = 0
            self._problems.pop("source", None)
            if times := self._repeats.over("source"):
                self._log.info("read again", failures=times)

    async def _retry_later(self, error: HostError) -> None:
        if times := self._repeats.again("source", str(error)):
            self._log.warning("not read, will try again", error=str(error), kind=type(error).__name__, times=times)
        self._work.metrics.receive_errors.labels(self.partition, type(error).__name__).inc()
        await self._detach()
        self._failures += 1
        if not isinstance(error, HubUnreachable | Unavailable) or self._failures >= LOST_LINKS:
            self._problems["source"] = self._problem_of(error)
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
        processing, clock, memory = self._work.config.processing, self._work.clock, self._work.memory
        heard = clock()
        size = 0  # of the last batch, in bytes
        while not self.stop.is_set():
            self._held.keeper.check()
            left = self._outlet.seconds_left(clock())
            if left <= 0 or memory.must_flush(self.partition):
                await self._outlet.flush()
                continue
            if memory.full:
                await memory.room(min(POLL_SECONDS, left))
                continue
            with memory.coming(self.partition, size):
                batch = await self._source.receive(processing.max_batch_size, min(POLL_SECONDS, left))
            size = batch.size
            self._held.keeper.check()
            self._healed()
            if len(batch):
                heard = clock()
                await self._accept(batch)
            elif clock() - heard >= processing.max_wait_seconds:
                await self._check_link()
                heard = clock()

    async def _accept(self, batch: EventBatch) -> None:
        expected = self._outlet.expected
        fresh = batch.rising().after(expected - 1)
        if dropped := len(batch) - len(fresh):
            self._work.metrics.dropped.labels(self.partition).inc(dropped)
        if not len(fresh):
            return
        missing = self._missing(expected, fresh)
        self._last = (fresh.last, fresh.last_enqueued_ms, self._work.now())
        self._received.inc(len(fresh))
        if self._handler is not None:
            done = await self._handler.process(fresh, self.stop)
            if done < len(fresh):
                fresh = fresh.head(done)
                missing = [gap for gap in missing if done and gap.last < fresh.last]
            self._held.keeper.check()
        if len(fresh):
            await self._outlet.accept(fresh, missing)

    def _missing(self, expected: int, fresh: EventBatch) -> list[Gap]:
        """Events that are missing: read again from the gap once, then believe it, record it and say so.

        Raises:
            HubUnreachable: The link is to be opened again.
        """
        if fresh.last - expected + 1 == len(fresh):
            return []
        missing = gaps.find(expected, fresh.numbers.tolist())
        if self._doubted != expected:
            self._doubted = expected
            shown = gaps.text(missing[:SHOWN_GAPS])
            raise HubUnreachable(f"events {shown} of partition {self.partition} did not come: read again")
        lost = sum(map(len, missing))
        self._work.metrics.gap_events.labels(self.partition).inc(lost)
        self._log.error(
            "events were removed before they were read", events=lost, first_ranges=gaps.text(missing[:SHOWN_GAPS])
        )
        return missing

    async def _check_link(self) -> None:
        """No event for long: make sure that there is none.

        Raises:
            HubUnreachable: There are events, so the link is frozen.
        """
        assert self._source is not None  # noqa: S101 - only while receiving
        if (await self._work.hub.partition(self.partition)).last < self._outlet.expected:
            return
        batch = await self._source.receive(self._work.config.processing.max_batch_size, POLL_SECONDS)
        self._held.keeper.check()
        if not len(batch):  # else the first one came just now
            source, self._source = self._source, None
            await source.abandon()
            raise HubUnreachable(f"partition {self.partition} has events, but the link gives none: opening a new one")
        await self._accept(batch)
