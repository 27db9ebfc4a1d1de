"""The probe (`eventconsumer probe`): looks for new events while no host runs, and reports them to the operator.

The probe registers and measures the lag like a leading host and serves the same report at /status. It owns no
partitions: it reads no events, acquires no leases, and writes no files or checkpoints. It freezes Spark batches:
pending files become a batch when its trigger fires, even while no host runs. It registers the last files of the hosts
in the table, and writes the watermark. Manifests and versions of the table are written only if absent, and the
watermark never falls, so a leading host at the same time does no harm.

Each round reads the end offsets of the hub, which is free. It reads leases and files once a minute, or when events may
be in no file; while a batch is open, each round looks for its commit record. The probe loads neither the code that
reads and writes events nor the user's handler.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.kube.mounts import credentials
from eventconsumer_api.shared.log_throttle import LogThrottle
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import FleetReport, HostReport, HostState, Problem
from eventconsumer_host import problems
from eventconsumer_host.batch.batcher import Batcher
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.batch.measure import Measure, eras_of, segments_of
from eventconsumer_host.batch.watermark import WatermarkFile
from eventconsumer_host.host.health import HealthServer, Heartbeat
from eventconsumer_host.host.registration import Registration, register
from eventconsumer_host.lease.layouts import checkpoint_store
from eventconsumer_host.lease.model import Listing
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.sink.slots import utc_now
from eventconsumer_host.table.committer import Committer
from eventconsumer_storage.confined.reader import Reader
from eventconsumer_storage.credential import fingerprint
from eventconsumer_storage.lease_time import boottime

MEASURE_SECONDS = 10.0
STORAGE_SECONDS = 60.0  # between two listings of leases and files while there are no new events
RETRY_SECONDS = 5.0
ROUND_SECONDS = 60.0  # time limit of a round

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Work:
    """What a registered probe does, as a leading host does it."""

    measure: Measure
    batcher: Batcher
    committer: Committer | None
    watermark: WatermarkFile

    def report(self, partitions: Sequence[str], listing: Listing) -> FleetReport:
        """The report of the consumer."""
        report = self.measure.report(partitions, listing)
        table = self.committer.report if self.committer else None
        return report.model_copy(update={"table": table, "watermark": self.watermark.report})


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
        leases = checkpoint_store(config, registration.info, registration.leases, self._clock)
        looked, listing = float("-inf"), None
        try:
            while not self._stop.is_set() and self._fingerprint() == seen:
                async with asyncio.timeout(ROUND_SECONDS):
                    part = problems.HUB
                    self._partitions = (await work.measure.ask_partitions()).partition_ids
                    await work.measure.ask_heads(self._partitions)
                    # Before new events are reported, check whether they are in files already.
                    if (
                        listing is None
                        or self._is_behind(work.measure, listing)
                        or self._clock() - looked >= STORAGE_SECONDS
                    ):
                        part = problems.LEASES
                        listing = await leases.list(self._partitions)
                        part = problems.SINK
                        await work.measure.follow(self._partitions, listing)
                        looked = self._clock()
                        if work.committer:
                            await work.committer.advance(self._partitions)
                    else:
                        part = problems.SINK
                        await work.measure.poll()
                    work.measure.advance(self._partitions)
                    await work.batcher.plan()
                    await work.watermark.publish(work.measure.completeness())
                leased = listing.leases
                short = [work.measure.shorter(partition, leased.get(partition)) for partition in self._partitions]
                self._problems = [*work.batcher.problems, *filter(None, short)]
                self._fleet = work.report(self._partitions, listing)
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
        config, info, sink = self._config, registration.info, registration.sink
        batches = BatchLog(sink, config.sink.prefix)
        eras = eras_of(config, info, registration.segments, sink)
        watermark = WatermarkFile(sink, config.sink.prefix, registration.chain, utc_now)
        measure = Measure(
            config, registration.hub, info, batches=batches, eras=eras, identity=registration.chain, now=utc_now,
            saved=watermark.saved,
        )  # fmt: skip
        committer = Committer(
            sink, config.sink.prefix, registration.chain, segments_of(eras), now=utc_now, confined=Reader()
        )
        return _Work(
            measure=measure,
            batcher=Batcher(config, measure, batches, now=utc_now),
            committer=committer if config.table else None,
            watermark=watermark,
        )

    def _is_behind(self, measure: Measure, listing: Listing) -> bool:
        """Whether events may be in no file."""
        return any(measure.lag(partition, listing.leases.get(partition)).events for partition in self._partitions)

    def _forget(self, found: list[Problem]) -> None:
        self._fleet = None
        self._problems = found

    def _fingerprint(self) -> str:
        return fingerprint(credentials(self._config).values())

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
