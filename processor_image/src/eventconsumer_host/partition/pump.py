"""The pump of one partition: it opens a link, receives events and passes them to the handler and the sink.

The pump repeats these steps until it is stopped or the lease is lost. Every step may fail:

- A lost link is opened again at the next sequence number. Received events are kept.
- Events that are received twice are dropped by their sequence number.
- While the sink accepts no events, the pump receives no events.
- A lost lease ends the pump at once, without a commit.
- Each new link reads the last event again. A hub whose sequence numbers now name other events is detected before any
  of its events is accepted.

A problem that a user must fix is reported by `problems`, and the pump retries.
"""

import asyncio
import contextlib
from datetime import UTC, datetime
from enum import StrEnum

import structlog

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_api.wire.host_report import PartitionReport, Problem
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host import problems
from eventconsumer_host.errors import (
    ChainEnded,
    Fenced,
    HubBusy,
    HubNotFound,
    HubUnreachable,
    LeaseInvalid,
    LinkStolen,
    SourceError,
    StartsLater,
)
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.partition import marks
from eventconsumer_host.partition.checkpoint_sink import CheckpointSink
from eventconsumer_host.partition.dependencies import PartitionSink, PumpDependencies, WriteCheckpoint
from eventconsumer_host.partition.file_sink import FileSink
from eventconsumer_host.partition.gap_detection import GapDetector
from eventconsumer_host.sink.gaps import SHOWN
from eventconsumer_host.sink.slots import Chain
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.conditions import taker_of
from eventconsumer_host.source.hub import PartitionInfo, Source
from eventconsumer_storage.errors import StorageError, Unavailable

POLL_SECONDS = 0.5  # longest receive: stop requests and roll times are checked between receives
RETRY_SECONDS = 3.0
START_SECONDS = 30.0  # longest time between two looks whether the starting time has come: a look reads storage, too
BUSY_SECONDS = 4.0  # the first pause if the hub limits requests; source: ServerBusyException of Microsoft's clients
LONGEST_BUSY_SECONDS = 60.0
REDRIVEN_WHEN_IDLE = 20  # dead letters passed again after a receive without events; 1 beside new events
LOST_LINKS = 2  # consecutive losses before a problem is reported: a single link may drop at any time

log = structlog.get_logger(__name__)


def busy_pause(times: int, spread: float) -> float:
    """Seconds to wait before the next attempt if the hub limits requests: exponential, never below `BUSY_SECONDS`.

    Args:
        times: Consecutive refusals, 1 or more.
        spread: Random number of 0 to 1, which separates the attempts of partitions.
    """
    return min(LONGEST_BUSY_SECONDS, BUSY_SECONDS * float(2 ** min(times - 1, 10))) * (1 + spread / 2)


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
        self._checkpoint: WriteCheckpoint | None = None  # for the handler
        if self._handler is not None and deps.config.processing.handler_mode is HandlerMode.REPLACE:
            self._sink = sink = CheckpointSink(deps, held, chain)
            self._checkpoint = sink.checkpoint
        else:
            self._sink = FileSink(deps, held, chain)
        self._handler_open = False
        self._source: Source | None = None
        self._opening: asyncio.Task[Source] | None = None
        self.taker = ""  # name of the reader that took the link, if it has one
        self._waits = False  # for the time at which the partition begins
        self._gaps = GapDetector(chain.partition, deps.hub, deps.metrics, deps.clock)
        self._failures = 0  # consecutive failures to open or keep a link
        self._busy = 0  # consecutive refusals because the hub limits requests
        self._undecoded = 0
        self._undecoded_problem: Problem | None = None
        self._last: tuple[int, int, datetime] | None = None  # number, enqueued ms and retrieval time of the last event
        self._log = log.bind(partition=chain.partition)
        self._received = deps.metrics.received.labels(chain.partition)

    def problems(self) -> list[Problem]:
        """Problems of the partition that need an action now: of the link, the sink and the handler."""
        own = [each for each in (self._chain_problem, self._link_problem, self._undecoded_problem) if each]
        return [*own, *self._sink.problems(), *(self._handler.problems() if self._handler else [])]

    def report(self) -> PartitionReport:
        """The state of the partition for /status."""
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
            read=(self._waits or self._source is not None) and not self._deps.heard.silent(self._deps.clock()),
        )

    def end(self) -> None:
        """Request an orderly end of `run`. An attach and a receive that wait for the hub end at once."""
        self._stop.set()
        if self._opening is not None:
            self._opening.cancel()
        if self._source is not None:
            self._source.hurry()

    async def run(self) -> PumpEnd:
        """Pump until stopped.

        Raises:
            LeaseLost: Another host owns the partition.
        """
        lost = True
        try:
            while not self._stop.is_set():
                try:
                    await self._open()
                    await self._receive()
                except LinkStolen as error:
                    self._log.warning("another reader took the link", error=str(error))
                    self.taker = taker_of(error)
                    return PumpEnd.STOLEN
                except StartsLater as error:
                    await self._wait_to_start(error)
                except (SourceError, StorageError, Blocked, LeaseInvalid) as error:
                    await self._retry_later(error)
            # No more events are received: the link closes while the buffered events are written.
            await asyncio.gather(self._detach(), self._sink.finish())
            lost = False
            return PumpEnd.SHUTDOWN
        except ChainEnded as error:
            await self._wait_ended(error)
            lost = False
            return PumpEnd.SHUTDOWN
        except Fenced as error:
            self._log.error("another host owns the partition: this host stops writing", error=str(error))
            return PumpEnd.FENCED
        finally:
            await self._detach()
            self._sink.close()
            if self._handler is not None and self._handler_open:
                await self._handler.close(lost=lost)

    async def _wait_ended(self, error: ChainEnded) -> None:
        """Receive no more events and wait for the stop: the host registers again with the next segment."""
        self._log.warning("the chain was ended: the host writes no more files to this segment", error=str(error))
        self._chain_problem = problems.chain_ended(error)
        await self._detach()
        self._sink.close()  # the next segment starts with the buffered events
        await self._stop.wait()

    async def _wait_to_start(self, error: StartsLater) -> None:
        """Wait for the starting time, or a part of the wait. No link is attached: no event before it is received."""
        clock = self._deps.clock
        self._deps.heard.hear(clock())
        self._healed()
        if not self._waits:
            self._waits = True
            self._log.info("waiting for the starting time", why=str(error))
        left = (error.when - self._deps.now()).total_seconds()
        until = clock() + min(START_SECONDS, max(RETRY_SECONDS, left))
        while not self._stop.is_set() and clock() < until:
            self._held.keeper.check()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), POLL_SECONDS)

    # --- open ---

    async def _open(self) -> None:
        """Attach at the sink's position, and verify that the hub still has the preceding event: see `marks`."""
        if self._sink.position is None:
            await self._sink.locate()
        self._waits = False
        if self._handler is not None and not self._handler_open:
            await self._handler.open(self._held.lease.epoch, self._sink.expected, self._checkpoint)
            self._handler_open = True
        mark = self._sink.mark
        after = self._sink.expected - 1 if mark is None else mark.sequence_number - 1
        epoch = self._held.lease.epoch
        try:
            self._source = await self._attach(after, epoch)
        except LinkStolen:
            raise  # in every case: the epoch must not be used again
        except SourceError:
            self._check_end(await self._deps.hub.partition(self._partition))  # a position beyond the end is refused
            raise
        if self._source is None:
            return
        # Requested after the attach: a link does not outlive its hub, so the answer and the link are of the same hub.
        info = await self._deps.hub.partition(self._partition)
        self._deps.heard.hear(self._deps.clock())
        self._check_end(info)
        self._gaps.note_earliest(info)
        if mark is None or info.earliest > mark.sequence_number:
            await self._check_created(info)  # no event to compare
        else:
            await self._recognise(mark, info)
        self._log.info("attached", epoch=epoch, next=self._sink.expected)

    async def _attach(self, after: int, epoch: int) -> Source | None:
        """A new link; None if the pump was stopped meanwhile: the hub may take a minute."""
        prefetch = self._deps.config.processing.prefetch_count
        opening = self._opening = asyncio.create_task(self._deps.hub.open(self._partition, after, epoch, prefetch))
        try:
            return await opening
        except asyncio.CancelledError:
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                await opening.result().close()  # attached in the moment of the cancellation
            if self._stop.is_set() and opening.cancelled() and not _is_cancelled():
                return None
            raise
        finally:
            self._opening = None

    def _check_end(self, info: PartitionInfo) -> None:
        """Verify that the hub does not end before the last event that was read."""
        if info.last < self._sink.expected - 1:
            raise self._diverged(info, f"the Event Hub ends before sequence number {self._sink.expected - 1}")

    async def _check_created(self, info: PartitionInfo) -> None:
        """Recognise the hub by its creation time where no event can be compared."""
        if self._sink.expected == 0:  # nothing was read
            return
        found, known = (await self._deps.hub.describe()).created_at, self._deps.info.created_at
        if found != known:
            raise self._diverged(
                info,
                f"the Event Hub was created at {found.isoformat()}, but the hub that was read before at "
                f"{known.isoformat()}; no retained event can be compared",
            )

    async def _recognise(self, mark: EventMark, info: PartitionInfo) -> None:
        """Compare the event at the mark with the last event that was read.

        Only a higher number as the first one means that the event was removed: a link may start early (see
        `source.first`).

        Raises:
            Blocked: They differ.
            HubUnreachable: The link delivers no event.
        """
        first, source = await self._first(mark.sequence_number), self._source
        if first is None:
            if self._stop.is_set() or source is None:
                return
            if mark.sequence_number == info.last:  # log compaction may have removed it
                await self._compare(mark, marks.end_of(info), info)
                return
            self._source = None
            await source.abandon()
            raise HubUnreachable(f"partition {self._partition} has events, but its link delivers none: reopening")
        if first.first == mark.sequence_number:
            await self._compare(mark, marks.last_of(first), info)
        else:  # retention or log compaction removed it in the meantime
            await self._check_created(info)
            await self._accept(first)

    async def _first(self, number: int) -> EventBatch | None:
        """The link's first event from `number` on; None if none arrived in time. Earlier ones are dropped."""
        assert self._source is not None  # noqa: S101 - set by _open
        deadline = self._deps.clock() + self._deps.config.processing.max_wait_seconds
        while not self._stop.is_set() and self._deps.clock() < deadline:
            batch = await self._source.receive(1, POLL_SECONDS)
            self._held.keeper.check()
            if len(batch):
                if batch.last >= number:
                    return batch
                self._deps.metrics.duplicates.labels(self._partition).inc(len(batch))
                deadline = self._deps.clock() + self._deps.config.processing.max_wait_seconds
        return None

    async def _compare(self, mark: EventMark, found: EventMark, info: PartitionInfo) -> None:
        match marks.same(mark, found):
            case None:
                await self._check_created(info)
            case False:
                raise self._diverged(
                    info,
                    f"the Event Hub has a different event at sequence number {mark.sequence_number} than the event "
                    f"that was read: {problems.shown(found)}",
                )

    def _diverged(self, info: PartitionInfo, why: str) -> EventConsumerError:
        """The error for a hub that has other events than before.

        A failover may lose the newest events. So buffered events, which are in no file yet, are dropped first: the
        next comparison uses the last event in a file.
        """
        ours = self._sink.mark or EventMark(sequence_number=self._sink.expected - 1)
        if self._sink.forget():
            self._log.warning("buffered events are dropped and read again", why=why)
            return HubUnreachable(f"partition {self._partition}: {why}")
        problem = problems.diverged(self._partition, ours, marks.end_of(info), why)
        return Blocked(problem.field, Reason(problem.reason), problem.message)

    def _healed(self) -> None:
        if self._failures:
            self._failures = self._busy = 0
            self._link_problem = None
            if times := self._throttle.over("source"):
                self._log.info("the partition is read again", failures=times)

    async def _retry_later(self, error: EventConsumerError) -> None:
        if times := self._throttle.again("source", str(error)):
            self._log.warning(
                "failed to read the partition; retrying", error=str(error), kind=type(error).__name__, times=times
            )
        self._deps.metrics.receive_errors.labels(self._partition, type(error).__name__).inc()
        await self._detach()
        self._failures += 1
        if not isinstance(error, HubUnreachable | Unavailable) or self._failures >= LOST_LINKS:
            self._link_problem = await self._problem_of(error)
        self._busy = self._busy + 1 if isinstance(error, HubBusy) else 0
        spread = self._deps.rng.random()
        pause = busy_pause(self._busy, spread) if self._busy else RETRY_SECONDS * (0.5 + spread)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), pause)

    async def _problem_of(self, error: EventConsumerError) -> Problem:
        if isinstance(error, SourceError):
            # The hub answered when this host registered, so "not found" means the consumer group, or a deleted hub.
            group = not (isinstance(error, HubNotFound) and await self._is_deleted())
            return problems.hub_problem(self._deps.config.event_hub, error, group=group)
        part = problems.LEASES if isinstance(error, LeaseInvalid) else problems.SINK
        return problems.of(self._deps.config, part, error)

    async def _is_deleted(self) -> bool:
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await self._deps.hub.describe()
        except HubNotFound:
            return True
        except (SourceError, TimeoutError):
            return False
        return False

    async def _detach(self) -> None:
        if self._source is not None:
            source, self._source = self._source, None
            await source.close()

    # --- receive ---

    async def _receive(self) -> None:
        """Receive until stopped, or until the link fails."""
        if self._source is None:  # stopped while attaching
            return
        processing, clock, memory = self._deps.config.processing, self._deps.clock, self._deps.memory
        heard = clock()
        size = 0  # bytes of the last received events
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
                self._deps.heard.hear(heard)
                await self._accept(batch)
            elif clock() - heard >= processing.max_wait_seconds:
                await self._check_link()
                heard = clock()
            if self._handler is not None and not self._stop.is_set():
                await self._handler.redrive(self._stop, 1 if len(batch) else REDRIVEN_WHEN_IDLE)

    async def _accept(self, batch: EventBatch) -> None:
        expected = self._sink.expected
        fresh = batch.rising().after(expected - 1)
        if dropped := len(batch) - len(fresh):
            self._deps.metrics.duplicates.labels(self._partition).inc(dropped)
        if not len(fresh):
            return
        missing = await self._gaps.lost(expected, fresh)
        self._last = (fresh.last, fresh.last_enqueued_ms, self._deps.now())
        self._received.inc(len(fresh))
        rows: EventBatch | None = None
        if self._handler is not None:
            done, rows = await self._handler.process(fresh, self._stop)
            if done < len(fresh):
                fresh = fresh.head(done)
                missing = [gap for gap in missing if done and gap.last < fresh.last]
            self._held.keeper.check()
        if len(fresh):
            if indices := fresh.undecoded:
                self._note_undecoded([int(fresh.numbers[index]) for index in indices])
            await self._sink.accept(fresh, missing, rows)

    def _note_undecoded(self, numbers: list[int]) -> None:
        self._undecoded += len(numbers)
        self._undecoded_problem = problems.undecoded(self._partition, self._undecoded, numbers[-1])
        self._deps.metrics.undecoded.labels(self._partition).inc(len(numbers))
        self._log.error(
            "events could not be decoded; they are kept as whole messages", events=len(numbers), numbers=numbers[:SHOWN]
        )

    async def _check_link(self) -> None:
        """Verify, after a long time without events, that the partition has no new events.

        Raises:
            HubUnreachable: The partition has new events, so the link is stuck.
        """
        assert self._source is not None  # noqa: S101 - only while receiving
        info = await self._deps.hub.partition(self._partition)
        if info.last < self._sink.expected - 1:
            raise HubUnreachable(f"partition {self._partition} ends before the last read event: opening a new link")
        if info.last < self._sink.expected:
            return
        batch = await self._source.receive(self._deps.config.processing.max_batch_size, POLL_SECONDS)
        self._held.keeper.check()
        if not len(batch):  # else the events arrived in the meantime
            source, self._source = self._source, None
            await source.abandon()
            raise HubUnreachable(f"partition {self._partition} has events, but its link delivers none: reopening")
        await self._accept(batch)


def _is_cancelled() -> bool:
    """Whether the current task is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
