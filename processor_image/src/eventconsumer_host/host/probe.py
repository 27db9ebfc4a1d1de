"""The probe (`eventconsumer probe`): looks for new events while no host runs, and reports them to the operator.

The probe registers and measures the lag like a leading host and serves the same report at /status. It owns no
partitions: it reads no events, acquires no leases, and writes no files or checkpoints. It does the tasks of a leading
host except notices: it freezes Spark batches when their trigger fires, registers the last files of the hosts in the
table, writes the watermark, and removes old files. Manifests and versions of the table are written only if absent, the
watermark never falls, and the cursor of retention is moved by one host only, so a leading host at the same time does no
harm.

Each round reads the end offsets of the hub, which is free. It reads leases and files once a minute, or when events may
be in no file; while a batch is open, each round looks for its commit record. The probe loads neither the code that
reads and writes events nor the user's handler.
"""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.kube.mounts import credentials
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import FleetReport, HostReport, HostState, Problem
from eventconsumer_host import problems
from eventconsumer_host.host.health import HealthServer, Heartbeat
from eventconsumer_host.host.registration import Registration, register
from eventconsumer_host.leader.batches import BatchesTask
from eventconsumer_host.leader.lag import Measure
from eventconsumer_host.leader.retention import RetentionTask
from eventconsumer_host.leader.stage import Stage, stage_of
from eventconsumer_host.leader.table import TableTask
from eventconsumer_host.leader.task import LeaderTask, View
from eventconsumer_host.leader.watermark import WatermarkFile, WatermarkTask
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.metrics import Metrics
from eventconsumer_storage.credential import fingerprint
from eventconsumer_storage.errors import StorageError
from eventconsumer_storage.lease_time import boottime

MEASURE_SECONDS = 10.0
STORAGE_SECONDS = 60.0  # between two listings of leases and files while there are no new events
RETRY_SECONDS = 5.0
ROUND_SECONDS = 60.0  # time limit of a round

log = structlog.get_logger(__name__)


class _Work:
    """What a registered probe does, as a leading host does it."""

    def __init__(self, stage: Stage) -> None:
        config = stage.config
        watermark = WatermarkFile(stage.blobs, stage.prefix, stage.chain, stage.now)
        self.measure = measure = Measure(stage, saved=watermark.saved)
        self.table = TableTask(stage, config.table.max_seconds) if config.table else None
        self.batches = BatchesTask(stage, measure)
        self.watermark = WatermarkTask(watermark, measure.completeness)
        self.retention = RetentionTask(stage, measure, config.retention) if config.retention else None
        self.retained = float("-inf")  # when files were last removed
        self.retention_problems: list[Problem] = []
        found: tuple[LeaderTask | None, ...] = (self.table, self.batches, self.watermark, self.retention)
        self.tasks = [task for task in found if task is not None]

    def report(self, measured: FleetReport) -> FleetReport:
        """The report of the consumer."""
        fields = {name: value for task in self.tasks for name, value in task.report().items()}
        return measured.model_copy(update=fields)


class Probe:
    """A probe; `run` returns after `request_stop`."""

    def __init__(self, config: HostConfig, owner: str, clock: Callable[[], float] = boottime) -> None:
        self._config = config
        self._owner = owner
        self._clock = clock
        self._throttle = LogThrottle(clock)
        self._metrics = Metrics()
        self._heartbeat = Heartbeat(clock)
        self._stop = asyncio.Event()
        self._fleet: FleetReport | None = None
        self._problems: list[Problem] = []
        self._partitions: tuple[str, ...] = ()

    def request_stop(self) -> None:
        """Request a stop."""
        self._stop.set()

    async def run(self, port: int) -> None:
        """Serve HTTP and measure until stopped.

        Args:
            port: HTTP port; 0: any free port.
        """
        processing = self._config.processing.model_copy(update={"handler": None})
        without_handler = self._config.model_copy(update={"processing": processing})
        self._metrics.follow(self.report, spark=self._config.batches is not None)
        server = HealthServer(self._heartbeat, self.report, self._metrics)
        log.info("listening", port=await server.start(port), owner=self._owner)
        try:
            while not self._stop.is_set():
                seen = self._fingerprint()
                registered = await register(without_handler, self._metrics.observe_storage)
                if isinstance(registered, Registration):
                    await self._run_registered(registered, seen)
                else:
                    self._forget(registered)
                self._heartbeat.beat()
                await self._wait(RETRY_SECONDS)
        finally:
            await server.stop()

    def report(self) -> HostReport:
        """The report for /status."""
        state = HostState.DRAINING if self._stop.is_set() else HostState.RUNNING if self._fleet else HostState.STARTING
        return HostReport(
            owner=self._owner,
            state=HostState.BLOCKED if self._problems else state,
            partition_count=len(self._partitions) or None,
            problems=problems.named(self._problems, self._config.resource),
            fleet=self._fleet,
        )

    async def _run_registered(self, registration: Registration, seen: str) -> None:
        """Measure until stopped, until a credential changes, or until a request fails."""
        part = problems.HUB  # the part that the current request concerns
        work, config = self._work(registration), self._config
        leases = lease_store(config, registration.info, registration.leases, self._clock)
        looked, view = float("-inf"), None
        try:
            while not self._stop.is_set() and self._fingerprint() == seen:
                async with asyncio.timeout(ROUND_SECONDS):
                    part = problems.HUB
                    self._partitions = (await work.measure.ask_partitions()).partition_ids
                    await work.measure.ask_heads(self._partitions)
                    # Before new events are reported, check whether they are in files already.
                    if view is None or self._is_behind(work.measure, view) or self._clock() - looked >= STORAGE_SECONDS:
                        part = problems.LEASES
                        view = View(self._partitions, (await leases.list(self._partitions)).leases)
                        part = problems.SINK
                        await work.measure.follow(view)
                        looked = self._clock()
                        if work.table:
                            await work.table.step(view)
                    part = problems.SINK
                    work.measure.advance(self._partitions)
                    await work.batches.step(view)
                    await work.watermark.step(view)
                short = [work.measure.shorter(name, view.leases.get(name)) for name in self._partitions]
                work.measure.fleet = measured = work.measure.report(view)
                self._problems = [*work.batches.problems(), *filter(None, short), *await self._retain(work, view)]
                self._fleet = work.report(measured)
                if times := self._throttle.over("round"):
                    log.info("lag is measured again", failures=times)
                self._heartbeat.beat()
                await self._wait(MEASURE_SECONDS)
        except EventConsumerError as error:
            self._forget([problems.of(config, part, error)])
            if times := self._throttle.again("round", str(error)):
                log.warning("failed to measure lag; retrying", error=str(error), kind=type(error).__name__, times=times)
        except TimeoutError:
            self._forget([])
            if times := self._throttle.again("round", part):
                log.warning("measuring lag timed out; retrying", part=part, times=times)
        finally:
            await registration.close()

    def _work(self, registration: Registration) -> "_Work":
        found = registration
        return _Work(stage_of(self._config, found.hub, found.info, found.segments, found.sink, chain=found.chain))

    async def _retain(self, work: "_Work", view: View) -> list[Problem]:
        """Remove old files if it is time; the problem of retention. A failure leaves the lag known."""
        task, now = work.retention, self._clock()
        if task is None or now - work.retained < task.pause:
            return work.retention_problems
        work.retained, work.retention_problems = now, []
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                await task.step(view)
        except (StorageError, Blocked, TimeoutError) as error:
            if not isinstance(error, TimeoutError):
                work.retention_problems = [problems.of(self._config, problems.SINK, error)]
            if times := self._throttle.again(task.name, str(error)):
                log.warning("the probe failed to do a task; retrying", task=task.name, error=str(error), times=times)
        else:
            self._throttle.over(task.name)
        return work.retention_problems

    def _is_behind(self, measure: Measure, view: View) -> bool:
        """Whether events may be in no file."""
        return any(measure.lag(partition, view.leases.get(partition)).events for partition in self._partitions)

    def _forget(self, found: list[Problem]) -> None:
        self._fleet = None
        self._problems = found

    def _fingerprint(self) -> str:
        return fingerprint(credentials(self._config).values())

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
