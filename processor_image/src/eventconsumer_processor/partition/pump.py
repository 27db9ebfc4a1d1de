"""One partition: open, receive, hand on; again until told to stop or the lease is lost.

Everything may fail at any point: a lost link is opened again at the next sequence number with what was received kept;
what comes twice is dropped by its sequence number; while the sink does not take anything, nothing more is received; a
lost lease ends the pump at once, without a commit. With every link the last event is read again, so that a hub whose
sequence numbers mean other events is noticed before anything of it is taken. A problem that a user must fix is kept in
`problems`, and tried again.
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from enum import StrEnum

import structlog

from eventconsumer_api.conditions import Reason
from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.host_report import PartitionReport, Problem
from eventconsumer_api.identity import EventMark
from eventconsumer_api.log_throttle import LogThrottle
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_processor import problems
from eventconsumer_processor.errors import ChainEnded, Fenced, HubUnreachable, LeaseInvalid, LinkStolen, SourceError
from eventconsumer_processor.lease.held import HeldLease
from eventconsumer_processor.partition import marks
from eventconsumer_processor.partition.checkpoint_sink import CheckpointSink
from eventconsumer_processor.partition.dependencies import PartitionSink, PumpDependencies
from eventconsumer_processor.partition.file_sink import FileSink
from eventconsumer_processor.partition.gap_detection import GapDetector
from eventconsumer_processor.sink.slots import Chain
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.hub import PartitionInfo, Source
from eventconsumer_storage.errors import StorageError, Unavailable

POLL_SECONDS = 0.5  # longest receive, so that stop requests and roll times are seen
RETRY_SECONDS = 3.0
LOST_LINKS = 2  # in a row, before it is a problem: a link may drop at any time

log = structlog.get_logger(__name__)


class PumpEnd(StrEnum):
    """Why a pump ended."""

    SHUTDOWN = "Shutdown"
    LEASE_LOST = "LeaseLost"
    STOLEN = "LinkStolen"
    FENCED = "Fenced"


class Pump:
    """The pump of one partition."""

    def __init__(self, deps: PumpDependencies, held: HeldLease, chain: Chain) -> None:
        self._stop = asyncio.Event()
        self._link_problem: Problem | None = None
        self._chain_problem: Problem | None = None
        self._deps = deps
        self._throttle = LogThrottle(deps.clock)
        self._held = held
        self._partition = chain.partition
        self._handler = deps.handler(chain.partition) if deps.handler else None
        self._sink: PartitionSink
        if self._handler is not None and deps.config.processing.handler_mode is HandlerMode.REPLACE:
            self._sink = CheckpointSink(deps, held, chain)
        else:
            self._sink = FileSink(deps, held, chain)
        self._handler_open = False
        self._source: Source | None = None
        self._gaps = GapDetector(chain.partition, deps.hub, deps.metrics, deps.clock)
        self._failures = 0  # of opening or keeping a link, in a row
        self._last: tuple[int, int, datetime] | None = None  # number, enqueued ms and retrieval time of the last event
        self._log = log.bind(partition=chain.partition)
        self._received = deps.metrics.received.labels(chain.partition)

    def problems(self) -> list[Problem]:
        """Problems of the partition that need an action now: of the link, the sink and the handler."""
        own = [problem for problem in (self._chain_problem, self._link_problem) if problem]
        return [*own, *self._sink.problems(), *(self._handler.problems() if self._handler else [])]

    def report(self) -> PartitionReport:
        """What /status shows."""
        number, enqueued_ms, retrieved = self._last or (None, None, None)
        return PartitionReport(
            id=self._partition,
            epoch=self._held.lease.epoch,
            next_sequence_number=self._sink.position,
            sequence_number=number,
            enqueued_time=None if enqueued_ms is None else datetime.fromtimestamp(enqueued_ms / 1000, UTC),
            retrieved_time=retrieved,
            events=self._sink.events,
            files=self._sink.files,
        )

    def end(self) -> None:
        """Have `run` end in order, soon: nothing waits for more events."""
        self._stop.set()
        if self._source is not None:
            self._source.hurry()

    async def run(self) -> PumpEnd:
        """Pump until stopped.

        Raises:
            LeaseLost: The partition belongs to another host now.
        """
        lost = True
        try:
            while not self._stop.is_set():
                try:
                    await self._open()
                    await self._receive()
                except LinkStolen as error:
                    self._log.warning("another reader took the link", error=str(error))
                    return PumpEnd.STOLEN
                except (SourceError, StorageError, Blocked, LeaseInvalid) as error:
                    await self._retry_later(error)
            # Nothing more is taken from the link: it closes while what is kept becomes a file.
            await asyncio.gather(self._detach(), self._sink.finish())
            lost = False
            return PumpEnd.SHUTDOWN
        except ChainEnded as error:
            await self._wait_ended(error)
            lost = False
            return PumpEnd.SHUTDOWN
        except Fenced as error:
            self._log.error("this host stops writing the partition", error=str(error))
            return PumpEnd.FENCED
        finally:
            await self._detach()
            self._sink.close()
            if self._handler is not None and self._handler_open:
                await self._handler.close(lost=lost)

    async def _wait_ended(self, error: ChainEnded) -> None:
        """Read nothing more: the host registers again, with the segment that follows."""
        self._log.warning("nothing more is written here", error=str(error))
        self._chain_problem = problems.chain_ended(error)
        await self._detach()
        self._sink.close()  # the next segment starts with these events
        await self._stop.wait()

    # --- open ---

    async def _open(self) -> None:
        """Attach where the sink continues, and make sure that the hub still has the event before: see `marks`."""
        if self._sink.position is None:
            await self._sink.locate()
        if self._handler is not None and not self._handler_open:
            await self._handler.open(self._held.lease.epoch, self._sink.expected)
            self._handler_open = True
        mark = self._sink.mark
        after = self._sink.expected - 1 if mark is None else mark.sequence_number - 1
        epoch, prefetch = self._held.lease.epoch, self._deps.config.processing.prefetch
        try:
            self._source = await self._deps.hub.open(self._partition, after, epoch, prefetch)
        except LinkStolen:
            raise  # whatever else is wrong: never again under this epoch
        except SourceError:
            self._check_end(await self._deps.hub.partition(self._partition))  # a position beyond the end is refused
            raise
        # Asked behind the attach: no link survives its hub, so what the old hub says now is of the old hub's link.
        info = await self._deps.hub.partition(self._partition)
        self._check_end(info)
        self._gaps.note_earliest(info)
        if mark is None or info.earliest > mark.sequence_number:
            await self._check_created(info)  # there is no event to compare
        else:
            await self._recognise(mark, info)
        self._log.info("attached", epoch=epoch, next=self._sink.expected)

    def _check_end(self, info: PartitionInfo) -> None:
        """The hub must not end before what was read from it."""
        if info.last < self._sink.expected - 1:
            raise self._diverged(info, f"the Event Hub ends before sequence number {self._sink.expected - 1}")

    async def _check_created(self, info: PartitionInfo) -> None:
        """Without an event to compare, the hub is recognised by its creation time; before number 0 there is nothing."""
        if self._sink.expected == 0:
            return
        found, known = (await self._deps.hub.describe()).created_at, self._deps.info.created_at
        if found != known:
            raise self._diverged(
                info,
                f"the Event Hub was created at {found.isoformat()}, and the one that was read before at "
                f"{known.isoformat()}; it has no event any more that could be compared",
            )

    async def _recognise(self, mark: EventMark, info: PartitionInfo) -> None:
        """Take the first event from the link: it must be the one that was read last, and is not taken twice.

        Raises:
            Blocked: It is another event.
            HubUnreachable: The link gives none.
        """
        first, source = await self._first(), self._source
        if first is None:
            if self._stop.is_set() or source is None:
                return
            if mark.sequence_number == info.last:  # it may have been compacted away
                await self._compare(mark, marks.end_of(info), info)
                return
            self._source = None
            await source.abandon()
            raise HubUnreachable(f"partition {self._partition} has events, but the link gives none: opening a new one")
        if first.first == mark.sequence_number:
            await self._compare(mark, marks.last_of(first), info)
        else:  # retention or compaction removed it meanwhile
            await self._check_created(info)
            await self._accept(first)

    async def _first(self) -> EventBatch | None:
        """The first event of the link; None where none came in time."""
        assert self._source is not None  # noqa: S101 - set by _open
        deadline = self._deps.clock() + self._deps.config.processing.max_wait_seconds
        while not self._stop.is_set() and self._deps.clock() < deadline:
            batch = await self._source.receive(1, POLL_SECONDS)
            self._held.keeper.check()
            if len(batch):
                return batch
        return None

    async def _compare(self, mark: EventMark, found: EventMark, info: PartitionInfo) -> None:
        match marks.same(mark, found):
            case None:
                await self._check_created(info)
            case False:
                raise self._diverged(
                    info,
                    f"the Event Hub has another event under sequence number {mark.sequence_number} than the one that "
                    f"was read: it has {problems.shown(found)}",
                )

    def _diverged(self, info: PartitionInfo, why: str) -> EventConsumerError:
        """What to raise where the hub is not what it was.

        Events that are in no file yet may just be gone with the old primary: they are dropped, so that what is
        compared next is the last event in a file.
        """
        ours = self._sink.mark or EventMark(sequence_number=self._sink.expected - 1)
        if self._sink.forget():
            self._log.warning("events that were in no file are dropped and read again", why=why)
            return HubUnreachable(f"partition {self._partition}: {why}")
        problem = problems.diverged(self._partition, ours, marks.end_of(info), why)
        return Blocked(problem.field, Reason(problem.reason), problem.message)

    def _healed(self) -> None:
        if self._failures:
            self._failures = 0
            self._link_problem = None
            if times := self._throttle.over("source"):
                self._log.info("read again", failures=times)

    async def _retry_later(self, error: EventConsumerError) -> None:
        if times := self._throttle.again("source", str(error)):
            self._log.warning("not read, will try again", error=str(error), kind=type(error).__name__, times=times)
        self._deps.metrics.receive_errors.labels(self._partition, type(error).__name__).inc()
        await self._detach()
        self._failures += 1
        if not isinstance(error, HubUnreachable | Unavailable) or self._failures >= LOST_LINKS:
            self._link_problem = self._problem_of(error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), RETRY_SECONDS * self._deps.rng.uniform(0.5, 1.5))

    def _problem_of(self, error: EventConsumerError) -> Problem:
        if isinstance(error, SourceError):
            # The hub answered when this host registered: what is not found now is the consumer group.
            return problems.hub_problem(self._deps.config.event_hub, error, group=True)
        part = problems.LEASES if isinstance(error, LeaseInvalid) else problems.SINK
        return problems.of(self._deps.config, part, error)

    async def _detach(self) -> None:
        if self._source is not None:
            source, self._source = self._source, None
            await source.close()

    # --- receive ---

    async def _receive(self) -> None:
        """Receive until stopped; ends by an error of the link."""
        assert self._source is not None  # noqa: S101 - set by _open
        processing, clock, memory = self._deps.config.processing, self._deps.clock, self._deps.memory
        heard = clock()
        size = 0  # of the last batch, in bytes
        while not self._stop.is_set():
            self._held.keeper.check()
            left = self._sink.seconds_left(clock())
            if left <= 0 or memory.must_flush(self._partition):
                await self._sink.flush()
                continue
            if memory.full:
                await memory.room(min(POLL_SECONDS, left))
                continue
            with memory.coming(self._partition, size):
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
        expected = self._sink.expected
        fresh = batch.rising().after(expected - 1)
        if dropped := len(batch) - len(fresh):
            self._deps.metrics.dropped.labels(self._partition).inc(dropped)
        if not len(fresh):
            return
        missing = await self._gaps.lost(expected, fresh)
        self._last = (fresh.last, fresh.last_enqueued_ms, self._deps.now())
        self._received.inc(len(fresh))
        if self._handler is not None:
            done = await self._handler.process(fresh, self._stop)
            if done < len(fresh):
                fresh = fresh.head(done)
                missing = [gap for gap in missing if done and gap.last < fresh.last]
            self._held.keeper.check()
        if len(fresh):
            await self._sink.accept(fresh, missing)

    async def _check_link(self) -> None:
        """No event for long: make sure that there is none.

        Raises:
            HubUnreachable: There are events, so the link is frozen.
        """
        assert self._source is not None  # noqa: S101 - only while receiving
        info = await self._deps.hub.partition(self._partition)
        if info.last < self._sink.expected - 1:
            raise HubUnreachable(f"partition {self._partition} ends before what was read: opening a new link")
        if info.last < self._sink.expected:
            return
        batch = await self._source.receive(self._deps.config.processing.max_batch_size, POLL_SECONDS)
        self._held.keeper.check()
        if not len(batch):  # else the first one came just now
            source, self._source = self._source, None
            await source.abandon()
            raise HubUnreachable(f"partition {self._partition} has events, but the link gives none: opening a new one")
        await self._accept(batch)
