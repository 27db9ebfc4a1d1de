"""Freezes the next Spark batches when a trigger fires, and publishes the commits of parallel ones: in the leading host,
or in the probe while no host runs.

Several batchers at once do no harm: a manifest is written only if absent, so one of them wins and the others use its
manifest. `plan` decides when a batch starts and which files it contains.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from eventconsumer_api.errors import Blocked
from eventconsumer_api.v1alpha1 import FileFormat, FileLayout
from eventconsumer_api.wire.host_config import BatchConfig, HostConfig
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_host import problems
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.batch.plan import SCHEDULE, WINDOW, freeze, take, trigger, unspent
from eventconsumer_host.batch.schedule import last_tick
from eventconsumer_host.leader.lag import Backlog, Measure
from eventconsumer_host.leader.stage import Stage
from eventconsumer_host.leader.task import FIRST_SECONDS, MEASURE_SECONDS, Task, View
from eventconsumer_host.leader.watermark import floor, of_windows
from eventconsumer_host.sink.slots import Slot
from eventconsumer_storage.errors import Damaged

log = structlog.get_logger(__name__)


class Batcher:
    """The batches of one consumer.

    Attributes:
        problems: Problems that need an action: a schedule or a commit record that cannot be parsed.
    """

    def __init__(
        self,
        config: HostConfig,
        measure: Measure,
        batches: BatchLog,
        *,
        now: Callable[[], datetime],
    ) -> None:
        """Create a batcher.

        Args:
            config: The consumer.
            measure: Its files and its last batch; receives the batches that are frozen here.
            batches: Its batches.
            now: Wall clock, in UTC.
        """
        self.problems: list[Problem] = []
        self._config = config
        self._measure = measure
        self._batches = batches
        self._now = now

    async def plan(self) -> None:
        """Look for commit records, publish those of parallel batches, then freeze the next batches that are due.

        Nothing is done before the files are known: see `Measure.restored`.

        At most `spark.batch.inFlight` batches are open.

        Raises:
            StorageError: The manifest was not written, or the outcome is unknown: plan again.
        """
        if not self._measure.restored:
            return
        await self._measure.poll()
        when = self._config.batches
        damage = None if when is None else await self._publish()
        damage = self._measure.state.damage or damage
        self.problems = [problems.of(self._config, problems.SINK, damage)] if damage else []
        if when is None:
            return
        tick = self._tick(when)
        while len(self._measure.state.open) < when.limits.in_flight:
            if not await self._freeze(when, tick):
                break

    async def _publish(self) -> Damaged | None:
        """Publish the commits of decided parallel batches; returns why the next one cannot be published."""
        try:
            if await self._batches.publish(self._measure.state):
                await self._measure.poll()
        except Damaged as error:
            return error
        return None

    def _tick(self, when: BatchConfig) -> datetime | None:
        try:
            return last_tick(when.trigger.schedule, self._now())
        except Blocked as error:  # the other triggers still work
            self.problems.append(error.problem)
            return None

    async def _freeze(self, when: BatchConfig, tick: datetime | None) -> bool:
        """Freeze the next batch if it is due; returns whether it is frozen."""
        measure, now = self._measure, self._now()
        backlog = measure.backlog()
        if backlog is None:
            return False
        account, pending = backlog.account, backlog.pending
        if when.trigger.window_seconds is not None:
            pending = await asyncio.to_thread(_of_windows, backlog, timedelta(seconds=when.trigger.window_seconds))
            tick, reason = None, WINDOW if pending else ""
        else:
            oldest = min((slots[0] for slots in pending.values()), key=lambda slot: slot.committed_at, default=None)
            tick = unspent(tick, measure.state.last, when.limits, oldest)
            reason = trigger(when.trigger, measure.waiting(), now, tick)
        if not reason:
            return False
        # In a thread: a batch of many files takes seconds, and leases must be renewed meanwhile.
        files = await asyncio.to_thread(take, pending, when.limits, tick if reason == SCHEDULE else None)
        watermark = await asyncio.to_thread(backlog.without, files)
        manifest = await asyncio.to_thread(
            freeze,
            measure.state.last,
            files,
            {partition: ledger.start for partition, ledger in account.ledgers.items()},
            resource=self._config.resource,
            chain=measure.identity,
            segment_id=account.segment_id,
            reason=reason,
            now=now,
            file_format=self._format(),
            watermark=watermark,
            parallel=when.limits.in_flight > 1,
        )
        written = await self._batches.freeze(manifest)
        log.info("batch frozen", number=written.number, reason=written.reason, files=len(written.files))
        measure.froze(written)
        return True

    def _format(self) -> FileFormat:
        files = self._config.files
        return FileFormat.AVRO if files.layout is FileLayout.CAPTURE else files.format


def _of_windows(backlog: Backlog, window: timedelta) -> dict[str, list[Slot]]:
    """The files of complete windows."""
    return {} if backlog.complete is None else of_windows(backlog.pending, floor(backlog.complete, window))


class BatchesTask(Task):
    """Freezes batches."""

    name = "freeze batches"

    def __init__(self, stage: Stage, measure: Measure) -> None:
        """Create; sends no request."""
        self._measure = measure
        self._batcher = Batcher(stage.config, measure, stage.batches, now=stage.now)

    @property
    def pause(self) -> float:
        """See `LeaderTask`."""
        return MEASURE_SECONDS if self._measure.restored else FIRST_SECONDS

    async def step(self, view: View) -> None:
        """See `LeaderTask`."""
        await self._batcher.plan()

    def problems(self) -> list[Problem]:
        """See `LeaderTask`."""
        return self._batcher.problems
