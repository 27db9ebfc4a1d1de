"""The probe: looks for events while no host runs (`eventconsumer probe`), and tells the operator what it finds.

It measures as a leading host does and answers /status with the same report, but owns nothing: it opens no link, takes
no lease and writes no file or checkpoint. The hub is asked for its heads every 10 s, which costs nothing; storage only
once a minute, or when there are events that may be in no file. Nothing that reads or writes events is loaded.
"""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import structlog

from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.host_report import FleetReport, HostReport, HostState, Problem
from eventconsumer_processor import problems
from eventconsumer_processor.batches import BatchLog
from eventconsumer_processor.credentials import blob_service, fingerprint, hub_access
from eventconsumer_processor.errors import HostError
from eventconsumer_processor.health import HealthServer, Heartbeat
from eventconsumer_processor.lease.keeper import boottime
from eventconsumer_processor.lease.layouts import lease_store
from eventconsumer_processor.measure import Measure, expose
from eventconsumer_processor.metrics import Metrics
from eventconsumer_processor.registration import check_same_hub
from eventconsumer_processor.sink.chains import chains_of
from eventconsumer_processor.sink.slots import incarnation
from eventconsumer_processor.source.sdk import SdkHub
from eventconsumer_processor.storage import AzureBlobStore

MEASURE_SECONDS = 10.0
STORAGE_SECONDS = 60.0  # between two looks at leases and files while there is nothing new
RETRY_SECONDS = 5.0
ROUND_SECONDS = 60.0  # longest round

log = structlog.get_logger(__name__)


class Probe:
    """A probe; `run` returns after a stop was requested."""

    def __init__(self, config: HostConfig, owner: str, clock: Callable[[], float] = boottime) -> None:
        self._config = config
        self._owner = owner
        self._clock = clock
        self._metrics = Metrics()
        self._heartbeat = Heartbeat(clock)
        self._stop = asyncio.Event()
        self._fleet: FleetReport | None = None
        self._problems: list[Problem] = []
        self._part = problems.HUB  # what is being asked
        self._partitions: tuple[str, ...] = ()

    def request_stop(self) -> None:
        """Stop."""
        self._stop.set()

    async def run(self, port: int) -> None:
        """Serve and measure until stopped.

        Args:
            port: Of the HTTP side; 0 takes a free one.
        """
        self._metrics.follow(self.report)
        server = HealthServer(self._heartbeat, self.report, self._metrics)
        log.info("listening", port=await server.start(port), owner=self._owner)
        try:
            while not self._stop.is_set():
                try:
                    await self._session()
                except HostError as error:
                    self._forget([problems.of(self._config, self._part, error)])
                    log.warning("cannot measure", error=str(error), kind=type(error).__name__)
                except TimeoutError:
                    self._forget([])
                    log.warning("a round took too long", part=self._part)
                self._heartbeat.beat()
                await self._wait(RETRY_SECONDS)
        finally:
            await server.stop()

    def report(self) -> HostReport:
        """What /status answers."""
        state = HostState.DRAINING if self._stop.is_set() else HostState.RUNNING if self._fleet else HostState.STARTING
        return HostReport(
            owner=self._owner,
            state=HostState.BLOCKED if self._problems else state,
            partition_count=len(self._partitions) or None,
            problems=tuple(self._problems),
            fleet=self._fleet,
        )

    async def _session(self) -> None:
        """Reach everything and measure until stopped, or until a credential changes.

        Raises:
            HostError: Something cannot be reached, or is not what it should be.
            TimeoutError: A round took too long.
        """
        config, seen = self._config, self._fingerprint()
        async with AsyncExitStack() as opened:
            self._part = problems.HUB
            hub = SdkHub(hub_access(config.event_hub, config.allow_insecure_endpoints, config.endpoint_suffixes))
            opened.push_async_callback(hub.close)
            info = await hub.describe()
            stores = []
            for self._part, location in ((problems.LEASES, config.leases.location), (problems.SINK, config.sink)):
                service = blob_service(location, self._part, config.allow_insecure_endpoints, config.endpoint_suffixes)
                stores.append(AzureBlobStore(service, location.container, self._metrics.observe_storage))
                opened.push_async_callback(stores[-1].close)
                async with asyncio.timeout(ROUND_SECONDS):
                    await stores[-1].ensure_container()
            blobs, sink = stores
            async with asyncio.timeout(ROUND_SECONDS):
                await check_same_hub(sink, config.sink.prefix, info)
            leases = lease_store(config, info, blobs, self._clock)
            measure = Measure(
                config,
                hub,
                info,
                batches=BatchLog(sink, config.sink.prefix),
                chain=chains_of(config, info, incarnation(info), sink),
                now=lambda: datetime.now(UTC),
            )
            looked = float("-inf")
            listing = None
            while not self._stop.is_set() and self._fingerprint() == seen:
                async with asyncio.timeout(ROUND_SECONDS):
                    self._part = problems.HUB
                    self._partitions = (await hub.describe()).partition_ids
                    await measure.ask_heads(self._partitions)
                    behind = listing is not None and any(
                        measure.lag(partition, listing.leases.get(partition)).events for partition in self._partitions
                    )
                    # Before events are told of, look whether they are in files by now.
                    if listing is None or behind or self._clock() - looked >= STORAGE_SECONDS:
                        self._part = problems.LEASES
                        listing = await leases.list(self._partitions)
                        self._part = problems.SINK
                        await measure.follow(self._partitions, listing)
                        looked = self._clock()
                self._problems = []
                self._fleet = measure.report(self._partitions, listing)
                expose(self._metrics, self._fleet)
                self._heartbeat.beat()
                await self._wait(MEASURE_SECONDS)

    def _forget(self, found: list[Problem]) -> None:
        self._fleet = None
        self._problems = found
        expose(self._metrics, None)

    def _fingerprint(self) -> str:
        config = self._config
        return fingerprint([config.event_hub.credential, config.leases.location.credential, config.sink.credential])

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
