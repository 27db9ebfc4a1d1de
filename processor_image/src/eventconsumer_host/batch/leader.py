"""The leading host: elected by a lease on `<prefix>/_leader`, it measures the lag, freezes Spark batches, registers
files in the table, sends notices about files, removes old files, and writes the watermark.

Correctness does not depend on a single leader: two leaders measure twice, and only one of them can write a manifest or
a version of the table, or move the cursor of retention; the watermark never falls; notices may be repeated. A new
leader derives its state from storage and the hub: see `measure`, `retention`, `table.committer` and `notice.notifier`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol
from uuid import uuid4

import structlog

from eventconsumer_api.errors import Blocked
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.v1alpha1 import Retention as Limits
from eventconsumer_api.wire.host_config import NoticesConfig
from eventconsumer_api.wire.host_report import FleetReport, Problem
from eventconsumer_host import problems
from eventconsumer_host.batch.batcher import Batcher
from eventconsumer_host.batch.lag import Era
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.batch.measure import Measure, segments_of
from eventconsumer_host.batch.retention import Retention
from eventconsumer_host.batch.watermark import WatermarkFile
from eventconsumer_host.errors import LeaseLost, SourceError
from eventconsumer_host.identity.records import LEAD_SECONDS, is_displaced, leader_name, take_lead
from eventconsumer_host.lease.keeper import Keeper
from eventconsumer_host.lease.model import Listing
from eventconsumer_host.notice.cursor import Cursor
from eventconsumer_host.notice.endpoint import Endpoint
from eventconsumer_host.notice.message import Message, Origin
from eventconsumer_host.notice.notifier import Extent, Notifier
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.manager import PartitionManager
from eventconsumer_host.table.committer import CHECKPOINT_VERSIONS, Committer
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.causes import with_cause
from eventconsumer_storage.errors import Conflict, StorageError

MEASURE_SECONDS = 5.0
REST_SECONDS = 5.0  # for the files that were written while a host stopped
RETENTION_SECONDS = 600.0  # between two looks for files that are due
RETENTION_MORE_SECONDS = 1.0  # the same, if more files are due than one step removes
STAND_BY = 30  # pauses between two attempts of a host that stands by

log = structlog.get_logger(__name__)


class Receiver(Protocol):
    """The receiver of notices; see `notice.endpoint`."""

    async def post(self, message: Message) -> None:
        """Send a notice; raises `NoticeFailed` or `Blocked`."""

    async def close(self) -> None:
        """Close connections."""


class Leader:
    """The leader election of one host, and its work as the leader."""

    def __init__(
        self,
        deps: PumpDependencies,
        *,
        blobs: BlobStore,
        eras: Callable[[], Sequence[Era]],
        partitions: PartitionManager,
        checkpoint_versions: int = CHECKPOINT_VERSIONS,
        retention_seconds: float = RETENTION_SECONDS,
        endpoint: Callable[[NoticesConfig], Receiver] = Endpoint,
    ) -> None:
        self.fleet: FleetReport | None = None
        self._problems: list[Problem] = []
        self._table_problems: list[Problem] = []
        self._watermark_problems: list[Problem] = []
        self._retention_problems: list[Problem] = []
        self._retention: Retention | None = None
        self._retention_seconds = retention_seconds
        self._committer: Committer | None = None
        self._notifier: Notifier | None = None
        # What this host knows to be acknowledged counts until it ends, also if the cursor was not written any more.
        self._cursor = Cursor(blobs, deps.config.sink.prefix, deps.chain, now=deps.now, clock=deps.clock)
        self._endpoint = endpoint
        self._deps = deps
        self._blobs = blobs
        self._prefix = deps.config.sink.prefix
        self._eras = eras
        self._partitions = partitions
        self._checkpoint_versions = checkpoint_versions
        self._seconds = min(deps.config.leases.duration_seconds, LEAD_SECONDS)
        self._throttle = LogThrottle(deps.clock)
        self._forget()

    @property
    def problems(self) -> list[Problem]:
        """Problems that need an action."""
        failure = self._notifier.problem if self._notifier else None
        notices = [problems.of(self._deps.config, problems.SINK, failure)] if failure else []
        lists = (
            self._problems,
            self._table_problems,
            self._watermark_problems,
            notices,
            self._retention_problems,
        )
        return [problem for each in lists for problem in each]

    async def run(self) -> None:
        """Compete for the leader lease until cancelled, or until another resource owns the chain."""
        displaced = False
        while not displaced:
            try:
                displaced = await self._elect()
            except StorageError as error:
                if times := self._throttle.again("lead", str(error)):
                    log.warning("failed to acquire the leader lease; retrying", error=str(error), times=times)
            else:
                self._throttle.over("lead")
            await self._pause()

    async def _pause(self) -> None:
        """Wait for the next attempt; a host that stands by waits longer."""
        for _ in range(round(STAND_BY * self._partitions.rarity)):
            await asyncio.sleep(self._seconds / 3 * self._deps.rng.uniform(0.5, 1))
            if not self._partitions.stands_by:
                return

    async def _elect(self) -> bool:
        """Lead if no other host does; returns whether another resource owns the chain."""
        token = str(uuid4())
        try:
            since = await take_lead(self._blobs, self._prefix, token, self._seconds, self._deps.clock)
        except Conflict:
            return False
        try:
            if await is_displaced(self._blobs, self._prefix, self._deps.config.resource):
                return True
            await self._lead(token, since)
        finally:
            with contextlib.suppress(StorageError):
                await self._blobs.release_lease(leader_name(self._prefix), token)
        return False

    async def _lead(self, token: str, since: float) -> None:
        keeper = Keeper("the leader", lambda: self._renew(token), self._seconds, since, self._deps.clock)
        keeping = asyncio.create_task(keeper.run())
        log.info("leading")
        self._deps.metrics.leader.set(1)
        loops = [asyncio.create_task(self._measure(keeper))]
        if self._deps.config.table:
            loops.append(asyncio.create_task(self._register(keeper, self._deps.config.table.max_seconds)))
        if self._deps.config.notices:
            loops.append(asyncio.create_task(self._notify(keeper, self._deps.config.notices)))
        if self._deps.config.retention:
            loops.append(asyncio.create_task(self._retain(keeper, self._deps.config.retention)))
        try:
            await asyncio.gather(*loops)
        except LeaseLost:
            log.warning("leader lease lost: it was not renewed in time; another host takes over")
        finally:
            self._deps.metrics.leader.set(0)
            self._forget()
            for task in (keeping, *loops):
                task.cancel()

    async def _measure(self, keeper: Keeper) -> None:
        since = self._deps.clock()
        while True:
            # A scan from before this host led may show owners of long ago.
            scanned = await self._partitions.scanned(since)
            keeper.check()
            await self._measure_once(report=scanned)
            await asyncio.sleep(MEASURE_SECONDS)

    async def _register(self, keeper: Keeper, seconds: int) -> None:
        committer = self._committer = self._new_committer(keeper.check)
        while True:
            keeper.check()
            advance = committer.advance(self._partitions.partition_ids)
            self._table_problems = await self._tried("register files in the table", advance)
            await asyncio.sleep(seconds)

    def _new_committer(self, check: Callable[[], None]) -> Committer:
        deps, prefix, segments = self._deps, self._prefix, segments_of(self._eras())
        return Committer(
            self._blobs, prefix, deps.chain, segments, now=deps.now, confined=deps.confined, check=check,
            checkpoint_versions=self._checkpoint_versions,
        )  # fmt: skip

    async def register_rest(self) -> None:
        """Register the files that were written while this host stopped; if that fails, a later leader does it."""
        if self._deps.config.table:
            with contextlib.suppress(StorageError, Blocked, TimeoutError):
                async with asyncio.timeout(REST_SECONDS):
                    await self._new_committer(lambda: None).advance(self._partitions.partition_ids)

    async def _retain(self, keeper: Keeper, limits: Limits) -> None:
        deps, eras = self._deps, self._eras()
        retention = Retention(
            self._blobs, deps.config, limits, deps.chain, eras[-1], eras=[era.incarnation for era in eras],
            batches=BatchLog(self._blobs, self._prefix), metrics=deps.metrics, now=deps.now, confined=deps.confined,
            check=keeper.check,
        )  # fmt: skip
        while True:
            keeper.check()
            pause = MEASURE_SECONDS
            if self.fleet is not None:  # all batches are known
                self._retention = retention
                partitions, leases = self._partitions.partition_ids, self._partitions.listing.leases
                step = retention.step(partitions, leases, self._measured.state)
                self._retention_problems = await self._tried("remove old files", step)
                pause = RETENTION_MORE_SECONDS if retention.more else self._retention_seconds
            await asyncio.sleep(pause)

    async def _notify(self, keeper: Keeper, config: NoticesConfig) -> None:
        """Send notices until cancelled."""
        async with self._receiver(config) as receiver:
            self._notifier = self._new_notifier(config, receiver, keeper.check)
            await self._notifier.run(self._extents)

    @asynccontextmanager
    async def _receiver(self, config: NoticesConfig) -> AsyncIterator[Receiver]:
        receiver = self._endpoint(config)
        try:
            yield receiver
        finally:
            await receiver.close()

    def _extents(self) -> list[Extent]:
        """All segments with the ends of the files that are known; empty before the first measurement.

        The measurement leaves out segments whose files are all in batches; notices of these files may still be unsent.
        """
        if self.fleet is None:
            return []
        unknown = dict.fromkeys(self._partitions.partition_ids)
        ends = {era.incarnation: {p: ledger.next for p, ledger in era.ledgers.items()} for era in self._measured.eras}
        return [Extent(era.incarnation, era.chain, ends.get(era.incarnation, unknown)) for era in self._eras()]

    def _new_notifier(self, config: NoticesConfig, receiver: Receiver, check: Callable[[], None]) -> Notifier:
        deps = self._deps
        origin = Origin(self._blobs.url, self._prefix, deps.chain, deps.info.name)
        return Notifier(
            origin, config.format, receiver.post, self._cursor, now=deps.now, clock=deps.clock, rng=deps.rng,
            metrics=deps.metrics, check=check,
        )  # fmt: skip

    async def notify_rest(self) -> None:
        """Send notices about the files that were written while this host stopped, unless another host leads.

        If that fails, a later leader sends them.
        """
        if (config := self._deps.config.notices) is None:
            return
        token, blobs = str(uuid4()), self._blobs
        unknown = dict.fromkeys(self._partitions.partition_ids)
        with contextlib.suppress(StorageError, TimeoutError):
            async with asyncio.timeout(REST_SECONDS), self._receiver(config) as receiver:
                await take_lead(blobs, self._prefix, token, self._seconds, self._deps.clock)
                try:
                    if await is_displaced(blobs, self._prefix, self._deps.config.resource):
                        return
                    notifier = self._new_notifier(config, receiver, lambda: None)
                    extents = [Extent(era.incarnation, era.chain, unknown) for era in self._eras()]
                    await notifier.advance(extents, begin=False)
                finally:
                    await blobs.release_lease(leader_name(self._prefix), token)

    async def _renew(self, token: str) -> None:
        try:
            await self._blobs.renew_lease(leader_name(self._prefix), token)
        except Conflict as error:
            raise LeaseLost(with_cause(error)) from error

    def _forget(self) -> None:
        self.fleet = None
        self._problems = []
        self._table_problems = []
        self._watermark_problems = []
        self._retention_problems = []
        self._retention = None
        self._committer = None
        self._notifier = None
        self._partitions.allow_rest(True)
        deps, batches = self._deps, BatchLog(self._blobs, self._deps.config.sink.prefix)
        self._watermark = WatermarkFile(self._blobs, self._prefix, deps.chain, deps.now)
        self._measured = Measure(
            deps.config, deps.hub, deps.info, batches=batches, eras=self._eras(), identity=deps.chain, now=deps.now,
            saved=self._watermark.saved,
        )  # fmt: skip
        self._batcher = Batcher(deps.config, self._measured, batches, now=deps.now)

    async def _measure_once(self, *, report: bool) -> None:
        """Measure, and freeze batches that are due.

        Args:
            report: Whether the owners are known, so that the measurement can be reported.
        """
        partitions, listing = self._partitions.partition_ids, self._partitions.listing
        if failed := await self._tried("measure lag and batches", self._follow(partitions, listing)):
            self._problems = failed
            return
        self._problems = [*self._batcher.problems]
        with contextlib.suppress(SourceError):  # the pumps report problems of the hub
            await self._measured.ask_partitions()
        await self._measured.ask_heads(partitions)
        self._measured.advance(partitions)
        publish = self._watermark.publish(self._measured.completeness())
        self._watermark_problems = await self._tried("write the watermark", publish)
        if not report:
            return
        fleet = self._measured.report(partitions, listing)
        table = self._committer.report if self._committer else None
        notices = self._notifier.report if self._notifier else None
        kept = self._retention.report if self._retention else None
        found = {"table": table, "watermark": self._watermark.report, "notices": notices, "retention": kept}
        self.fleet = fleet.model_copy(update=found)
        self._partitions.allow_rest(self.fleet.lag_events == 0)  # new files are noticed by their checkpoints

    async def _follow(self, partitions: Sequence[str], listing: Listing) -> None:
        await self._measured.follow(partitions, listing)
        await self._batcher.plan()

    async def _tried(self, task: str, work: Awaitable[object]) -> list[Problem]:
        """Do a task of the leading host; its problem, if it failed. The next round tries again."""
        try:
            await work
        except (StorageError, Blocked) as error:
            if times := self._throttle.again(task, str(error)):
                log.warning("the leading host failed to do a task; retrying", task=task, error=str(error), times=times)
            return [problems.of(self._deps.config, problems.SINK, error)]
        if times := self._throttle.over(task):
            log.info("the leading host does a task again", task=task, failures=times)
        return []
