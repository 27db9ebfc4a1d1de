"""The leading host: elected by a lease on `<prefix>/_leader`, it measures the whole consumer and freezes Spark batches.

Leading is a convenience, never a matter of safety: two leaders at once would measure twice and race for the same
put-if-absent manifest. A new leader derives everything from storage: the last manifest, the files behind it, the hub's
heads.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import structlog

from eventconsumer_api.batch import Totals
from eventconsumer_api.host_report import BatchReport, FleetReport, Problem
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_processor import problems
from eventconsumer_processor.batches import BatchLog, BatchState, freeze, trigger
from eventconsumer_processor.errors import Conflict, LeaseLost, SourceError, StorageError
from eventconsumer_processor.fleet import Heads, Ledger
from eventconsumer_processor.lease.keeper import Keeper
from eventconsumer_processor.partitions import PartitionManager
from eventconsumer_processor.sink.slots import Chain
from eventconsumer_processor.storage import BlobStore
from eventconsumer_processor.work import Work

MEASURE_SECONDS = 5.0
HEAD_REQUESTS = 8  # at a time

log = structlog.get_logger(__name__)


class Leader:
    """Leads while it can."""

    def __init__(
        self,
        work: Work,
        *,
        blobs: BlobStore,
        incarnation: str,
        chain: Callable[[str], Chain],
        partitions: PartitionManager,
        seconds: int,
    ) -> None:
        self.fleet: FleetReport | None = None
        self.problems: dict[str, Problem] = {}
        self._work = work
        self._blobs = blobs
        self._name = f"{work.config.sink.prefix}/_leader"
        self._incarnation = incarnation
        self._chain = chain
        self._partitions = partitions
        self._seconds = seconds
        self._batch_log = BatchLog(blobs, work.config.sink.prefix)
        self._forget()

    async def run(self) -> None:
        """Try to lead, and lead, until cancelled; then give the lead up."""
        while True:
            try:
                await self._elect()
            except StorageError as error:
                log.warning("cannot lead", error=str(error))
            await asyncio.sleep(self._seconds / 3 * self._work.rng.uniform(0.5, 1))

    async def _elect(self) -> None:
        token = str(uuid4())
        with contextlib.suppress(Conflict):
            await self._blobs.put(self._name, b"", if_absent=True)
        since = self._work.clock()
        try:
            await self._blobs.acquire_lease(self._name, token, self._seconds)
        except Conflict:
            return
        keeper = Keeper("the lead", lambda: self._renew(token), self._seconds, since, self._work.clock)
        keeping = asyncio.create_task(keeper.run())
        log.info("leading")
        self._work.metrics.leader.set(1)
        try:
            while True:
                keeper.check()
                await self._measure_once()
                await asyncio.sleep(MEASURE_SECONDS)
        except LeaseLost:
            log.warning("the lead was lost")
        finally:
            self._work.metrics.leader.set(0)
            self._forget()
            keeping.cancel()
            with contextlib.suppress(StorageError):
                await self._blobs.release_lease(self._name, token)

    async def _renew(self, token: str) -> None:
        try:
            await self._blobs.renew_lease(self._name, token)
        except Conflict as error:
            raise LeaseLost(str(error)) from error

    def _forget(self) -> None:
        self.fleet = None
        self.problems = {}
        self._restored = False
        self._state = BatchState()
        self._ledgers: dict[str, Ledger] = {}
        self._heads: dict[str, Heads] = {}

    async def _measure_once(self) -> None:
        try:
            await self._follow_chains()
            await self._plan_batch()
            self.problems.pop("sink", None)
        except StorageError as error:
            log.warning("cannot measure", error=str(error))
            self.problems["sink"] = problems.of(self._work.config, problems.SINK, error)
            return
        await self._ask_heads()
        self.fleet = self._report()

    async def _follow_chains(self) -> None:
        if not self._restored:
            self._state = await self._batch_log.restore()
            self._restored = True
        leases = self._partitions.listing.leases
        for partition in self._partitions.partition_ids:
            ledger = self._ledgers.get(partition)
            if ledger is None:
                ledger = await self._open_ledger(partition)
                continue
            lease = leases.get(partition)
            checkpoint = lease.checkpoint if lease else None
            if checkpoint is not None and checkpoint.sequence_number >= ledger.next:
                await ledger.follow()

    async def _open_ledger(self, partition: str) -> Ledger | None:
        chain = self._chain(partition)
        last = self._state.last
        start = last.next.get(partition) if last else None
        if start is None:
            start = await chain.start()
        if start is None:
            return None  # no host has opened the partition yet
        ledger = Ledger(chain, start, start, keep=self._work.config.batches is not None)
        if last is None:  # perhaps many files: one listing instead of a request for each
            slots = {slot.start: slot for slot in await chain.listed()}
            while slot := slots.get(ledger.next):
                ledger.add(slot)
        else:
            await ledger.follow()
        self._ledgers[partition] = ledger
        return ledger

    async def _plan_batch(self) -> None:
        self._state = await self._batch_log.poll(self._state)
        when = self._work.config.batches
        if when is None or self._state.open is not None:
            return
        now = self._work.now()
        pending = {partition: ledger.pending for partition, ledger in self._ledgers.items() if ledger.pending}
        count = sum(len(slots) for slots in pending.values())
        oldest = max((now - slots[0].committed_at for slots in pending.values()), default=timedelta(0))
        reason = trigger(when, count, oldest.total_seconds())
        if not reason:
            return
        manifest = freeze(
            self._state.last,
            pending,
            {partition: ledger.start for partition, ledger in self._ledgers.items()},
            resource=self._work.config.resource,
            incarnation=self._incarnation,
            reason=reason,
            now=now,
        )
        written = await self._batch_log.freeze(manifest)
        log.info("batch frozen", number=written.number, reason=written.reason, files=len(written.files))
        self._state = BatchState(written, committed=False, committed_reason=self._state.committed_reason)
        for partition, ledger in self._ledgers.items():
            ledger.batched(written.next.get(partition, ledger.start))

    async def _ask_heads(self) -> None:
        limit = asyncio.Semaphore(HEAD_REQUESTS)

        async def ask(partition: str) -> None:
            async with limit:
                info = await self._work.hub.partition(partition)
            self._heads.setdefault(partition, Heads()).see(info.last, info.last_enqueued_time, self._work.now())

        answers = await asyncio.gather(*map(ask, self._partitions.partition_ids), return_exceptions=True)
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in failed:
            if not isinstance(error, SourceError):
                raise error
        if failed:
            log.warning("some heads are unknown", error=str(failed[0]), partitions=len(failed))

    def _report(self) -> FleetReport:
        now = self._work.now()
        listing = self._partitions.listing
        totals = self._totals()
        lags: list[int | None] = []
        ages: list[float] = []
        for partition in self._partitions.partition_ids:
            ledger, heads = self._ledgers.get(partition), self._heads.get(partition, Heads())
            reached = self._reached(ledger) if ledger else 0
            lag = heads.lag(reached) if ledger else None
            lags.append(lag)
            if ledger and lag:
                ages.append(heads.age(reached, ledger.last_event_time, now).total_seconds())
        known = [lag for lag in lags if lag is not None]
        complete = len(known) == len(lags)
        times = [ledger.last_file_time for ledger in self._ledgers.values() if ledger.last_file_time]
        batch = self._state.open
        report = FleetReport(
            partition_count=len(self._partitions.partition_ids),
            hub_created_at=self._work.info.created_at,
            owners={p: lease.owner for p, lease in sorted(listing.leases.items()) if lease.leased and lease.owner},
            lag_events=sum(known) if complete else None,
            lag_seconds=round(max(ages, default=0.0), 1) if complete else None,
            files=totals.files,
            events=totals.events,
            bytes=totals.bytes,
            gap_events=totals.gap_events,
            gaps={partition: ledger.newest_gap for partition, ledger in self._ledgers.items() if ledger.newest_gap},
            last_file_time=max(times, default=self._state.last.created_at if self._state.last else None),
            pending_files=totals.files - self._state.processed_files,
            processed_files=self._state.processed_files,
            committed_batch=self._state.committed_number,
            committed_reason=self._state.committed_reason,
            open_batch=batch
            and BatchReport(
                number=batch.number,
                files=len(batch.files),
                bytes=sum(file.size for file in batch.files),
                events=sum(file.count for file in batch.files),
                reason=batch.reason,
            ),
        )
        if complete:
            self._work.metrics.lag_events.set(report.lag_events or 0)
            self._work.metrics.lag_seconds.set(report.lag_seconds or 0)
        return report

    def _reached(self, ledger: Ledger) -> int:
        """The first event of a partition that is in no file; in no checkpoint, where a handler replaces the files."""
        lease = self._partitions.listing.leases.get(ledger.chain.partition)
        if self._work.config.processing.handler_mode is HandlerMode.REPLACE and lease and lease.checkpoint:
            return max(ledger.next, lease.checkpoint.sequence_number + 1)
        return ledger.next

    def _totals(self) -> Totals:
        """Of all chains: the files in a manifest, and those behind it."""
        base = self._state.last.totals if self._state.last else Totals()
        ledgers = self._ledgers.values()
        return Totals(
            files=base.files + sum(ledger.files for ledger in ledgers),
            events=base.events + sum(ledger.events for ledger in ledgers),
            bytes=base.bytes + sum(ledger.bytes for ledger in ledgers),
            gap_events=base.gap_events + sum(ledger.gap_events for ledger in ledgers),
        )
