"""The leading host: elected by a lease on `<prefix>/_leader`, it runs a list of tasks, each in a loop of its own.

Correctness does not depend on a single leader: two leaders measure twice, and only one of them can write a manifest or
a version of the table, or move the cursor of retention; the watermark never falls; notices may be repeated. A new
leader derives its state from storage and the hub: see the modules of the tasks.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import uuid4

import structlog

from eventconsumer_api.errors import Blocked
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.wire.host_config import NoticesConfig
from eventconsumer_api.wire.host_report import FleetReport, Problem
from eventconsumer_host import problems
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.errors import LeaseLost
from eventconsumer_host.identity.records import LEAD_SECONDS, is_displaced, leader_name, take_lead
from eventconsumer_host.leader.batches import BatchesTask
from eventconsumer_host.leader.lag import LagTask, Measure
from eventconsumer_host.leader.notices import NoticeReceiver, NoticesTask
from eventconsumer_host.leader.retention import PAUSE_SECONDS, RetentionTask
from eventconsumer_host.leader.stage import Stage, view_of
from eventconsumer_host.leader.table import CHECKPOINT_VERSIONS, TableTask
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.leader.task import LeaderTask, View
from eventconsumer_host.leader.watermark import WatermarkFile, WatermarkTask
from eventconsumer_host.lease.keeper import Keeper
from eventconsumer_host.notice.cursor import Cursor
from eventconsumer_host.notice.endpoint import NoticeEndpoint
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.manager import PartitionManager
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.causes import with_cause
from eventconsumer_storage.errors import Conflict, StorageError

REST_SECONDS = 5.0  # for the files that were written while a host stopped
STAND_BY = 30  # pauses between two attempts of a host that stands by

log = structlog.get_logger(__name__)


class Leader:
    """The leader election of one host, and its work as the leader."""

    def __init__(
        self,
        deps: PumpDependencies,
        *,
        blobs: BlobStore,
        segments: Callable[[], Sequence[Segment]],
        partitions: PartitionManager,
        checkpoint_versions: int = CHECKPOINT_VERSIONS,
        retention_seconds: float = PAUSE_SECONDS,
        endpoint: Callable[[NoticesConfig], NoticeReceiver] = NoticeEndpoint,
    ) -> None:
        self._deps = deps
        self._blobs = blobs
        self._prefix = deps.config.sink.prefix
        self._segments = segments
        self._partitions = partitions
        self._checkpoint_versions = checkpoint_versions
        self._retention_seconds = retention_seconds
        self._endpoint = endpoint
        # What this host knows to be acknowledged counts until it ends, also if the cursor was not written any more.
        self._cursor = Cursor(blobs, self._prefix, deps.chain, now=deps.now, clock=deps.clock)
        self._seconds = min(deps.config.leases.duration_seconds, LEAD_SECONDS)
        self._throttle = LogThrottle(deps.clock)
        self._failures: dict[str, list[Problem]] = {}  # of the last steps, by name of the task
        self._reported: tuple[FleetReport | None, FleetReport | None] = (None, None)  # the measured, and the whole one
        self._forget()

    def _tasks_of(self, check: Callable[[], None], since: float = 0.0) -> tuple[Measure, list[LeaderTask]]:
        """New tasks, in the order of their problems. Each is created from storage and the hub, and sends no request.

        Args:
            check: Raises if this host must not write any more.
            since: When this host began to lead, on its clock, seconds.
        """
        deps, config, blobs = self._deps, self._deps.config, self._blobs
        stage = Stage(
            config,
            deps.hub,
            deps.info,
            deps.chain,
            blobs,
            BatchLog(blobs, self._prefix),
            Tail(self._segments(), deps.now),
            deps.metrics,
            deps.confined,
            deps.now,
            deps.clock,
            deps.rng,
            check,
        )
        watermark = WatermarkFile(blobs, self._prefix, deps.chain, deps.now)
        measure = Measure(stage, saved=watermark.saved)
        tasks: list[LeaderTask | None] = [
            LagTask(measure, self._partitions, since),
            BatchesTask(stage, measure),
            TableTask(stage, config.table.max_seconds, self._checkpoint_versions) if config.table else None,
            WatermarkTask(watermark, measure.completeness),
            NoticesTask(stage, measure, config.notices, self._cursor, endpoint=self._endpoint, lead=self._lead_for_rest)
            if config.notices
            else None,
            RetentionTask(stage, measure, config.retention, self._retention_seconds) if config.retention else None,
        ]
        return measure, [task for task in tasks if task is not None]

    @property
    def fleet(self) -> FleetReport | None:
        """The report of the consumer, as of the last measurement; None: this host does not lead, or not yet."""
        measured = self._measure.fleet
        if measured is not self._reported[0]:
            fields = {name: value for task in self._tasks for name, value in task.report().items()}
            self._reported = measured, measured.model_copy(update=fields) if measured else None
        return self._reported[1]

    @property
    def problems(self) -> list[Problem]:
        """Problems that need an action."""
        return [each for task in self._tasks for each in (*self._failures.get(task.name, ()), *task.problems())]

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
        log.info("leading")
        self._deps.metrics.leader.set(1)
        self._measure, self._tasks = self._tasks_of(keeper.check, self._deps.clock())
        loops = [
            asyncio.create_task(keeper.run()),
            *(asyncio.create_task(self._run(each, keeper.check)) for each in self._tasks),
        ]
        try:
            await asyncio.gather(*loops)
        except LeaseLost:
            log.warning("leader lease lost: it was not renewed in time; another host takes over")
        finally:
            self._deps.metrics.leader.set(0)
            tasks = self._tasks
            self._forget()
            for loop in loops:
                loop.cancel()
            for task in tasks:
                await task.end()

    async def _run(self, task: LeaderTask, check: Callable[[], None]) -> None:
        """Do a task until cancelled; see `LeaderTask`."""
        while True:
            check()
            self._failures[task.name] = await self._step(task)
            await asyncio.sleep(task.pause)

    async def _step(self, task: LeaderTask) -> list[Problem]:
        """One step; the problem of its failure, if it failed."""
        try:
            await task.step(view_of(self._partitions))
        except (StorageError, Blocked) as error:
            if times := self._throttle.again(task.name, str(error)):
                log.warning(
                    "the leading host failed to do a task; retrying", task=task.name, error=str(error), times=times
                )
            return [problems.of(self._deps.config, problems.SINK, error)]
        if times := self._throttle.over(task.name):
            log.info("the leading host does a task again", task=task.name, failures=times)
        return []

    async def rest(self) -> None:
        """Do what is left for the files that were written while this host stopped; a later leader does the rest."""
        _, tasks = self._tasks_of(lambda: None)
        view = replace(view_of(self._partitions), leases={}, commits={})
        await asyncio.gather(*(self._rest(task, view) for task in tasks))

    async def _rest(self, task: LeaderTask, view: View) -> None:
        try:
            with contextlib.suppress(StorageError, Blocked, TimeoutError):
                async with asyncio.timeout(REST_SECONDS):
                    await task.rest(view)
        finally:
            await task.end()

    @asynccontextmanager
    async def _lead_for_rest(self) -> AsyncIterator[bool]:
        """Lead until the end of the block; False: another resource owns the chain. Raises `Conflict`: another leads."""
        token = str(uuid4())
        await take_lead(self._blobs, self._prefix, token, self._seconds, self._deps.clock)
        try:
            yield not await is_displaced(self._blobs, self._prefix, self._deps.config.resource)
        finally:
            await self._blobs.release_lease(leader_name(self._prefix), token)

    async def _renew(self, token: str) -> None:
        try:
            await self._blobs.renew_lease(leader_name(self._prefix), token)
        except Conflict as error:
            raise LeaseLost(with_cause(error)) from error

    def _forget(self) -> None:
        self._failures, self._reported = {}, (None, None)
        self._measure, self._tasks = self._tasks_of(lambda: None)
        self._partitions.allow_rest(True)
