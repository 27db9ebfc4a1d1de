"""One host: it registers, runs its partitions while registered, and releases them at SIGTERM.

    Starting ──register──> Running ──SIGTERM──> Draining ──> exit 0
        │  ▲                  │
        ▼  │ every few        │ a credential changed
      Blocked  seconds  <─────┘

While blocked, the process stays up and reports in /status which field to change. It registers again when a credential
file is created or changes. If that happens while it is running, the host first drains (flush, commit, checkpoint,
release).
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random

import structlog

from eventconsumer_api.kube.mounts import credentials
from eventconsumer_api.spec.conditions import ADVISORY
from eventconsumer_api.wire.host_config import Credential, HostConfig
from eventconsumer_api.wire.host_report import HostReport, HostState, Problem, StorageReport
from eventconsumer_api.wire.identity import pod_of
from eventconsumer_api.wire.termination import ReplayTotals
from eventconsumer_host import compiled, problems
from eventconsumer_host.body.parser import body_parser
from eventconsumer_host.body.typed import TypedBodies
from eventconsumer_host.handler.deadletter import DeadLetters
from eventconsumer_host.handler.handling import HandlerDependencies, PartitionHandler, PartitionIdentity
from eventconsumer_host.host.health import HealthServer, Heartbeat
from eventconsumer_host.host.registration import Registration, receiver_of, register
from eventconsumer_host.host.replay import BoundedHub, completed, totals
from eventconsumer_host.host.storagecalls import StorageCalls, idle_per_hour
from eventconsumer_host.identity.records import lease_record, restore_lease_record, until_moved
from eventconsumer_host.leader.leader import Leader
from eventconsumer_host.leader.tail import segments_of
from eventconsumer_host.leader.watermark import STEP
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.manager import PartitionManager
from eventconsumer_host.partition.memory import Memory
from eventconsumer_host.partition.operator_messages import OperatorMessages
from eventconsumer_host.problems import named
from eventconsumer_host.sink.formats import files_of
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_host.source.heard import Heard
from eventconsumer_storage.confined.reader import Reader, allowance, container_memory, lent
from eventconsumer_storage.credential import fingerprint
from eventconsumer_storage.errors import StorageError
from eventconsumer_storage.lease_time import boottime

REGISTER_RETRY_SECONDS = 4.0
WATCH_SECONDS = 2.0

log = structlog.get_logger(__name__)


class Host:
    """A host; `run` returns after `request_stop`, when all partitions are released."""

    def __init__(
        self,
        config: HostConfig,
        owner: str,
        clock: Callable[[], float] = boottime,
        fleet_key: Path | None = None,
    ) -> None:
        self._config = config
        self._owner = owner
        self._clock = clock
        self._metrics = Metrics()
        self._messages = OperatorMessages(config.resource.path, fleet_key, self._metrics, clock)
        self._storage_requests = StorageCalls(self._metrics.observe_storage, clock)
        self._heartbeat = Heartbeat(clock)
        self._stop = asyncio.Event()
        self._state = HostState.STARTING
        self._blocked: list[Problem] = []
        self._of_bodies: list[Problem] = []  # of the columns of bodies
        self._bodies: TypedBodies | None = None
        self._since: dict[tuple[str, str], datetime] = {}  # field and reason of a problem -> since when it is there
        self._partitions: PartitionManager | None = None
        self._leader: Leader | None = None
        self._heard = Heard()
        self.replayed: ReplayTotals | None = None  # the totals of a completed replay
        self._metrics.follow(self.report, spark=self._config.batches is not None)

    def request_stop(self) -> None:
        """Request an orderly stop."""
        self._state = HostState.DRAINING
        self._stop.set()

    async def run(self, port: int) -> None:
        """Serve HTTP and run the partitions until stopped.

        Args:
            port: HTTP port; 0: any free port.
        """
        server = HealthServer(self._heartbeat, self.report, self._metrics, self._messages)
        log.info("listening", port=await server.start(port), owner=self._owner)
        try:
            while not self._stop.is_set():
                seen = fingerprint(self._credentials())
                registered = await register(self._config, self._storage_requests.observe, pod_of(self._owner))
                self._heartbeat.beat()
                if isinstance(registered, Registration):
                    await self._run_registered(registered, seen)
                else:
                    await self._wait_blocked(registered, seen)
        finally:
            await server.stop()

    def report(self) -> HostReport:
        """The report for /status."""
        partitions, leader = self._partitions, self._leader
        found = [*self._blocked]
        if partitions:
            found += [*self._of_bodies, *partitions.problems()]
        if leader:
            found += leader.problems
        state = self._state
        if state is HostState.RUNNING and any(problem.reason not in ADVISORY for problem in found):
            state = HostState.BLOCKED
        return HostReport(
            owner=self._owner,
            state=state,
            partition_count=len(partitions.partition_ids) if partitions else None,
            partitions=partitions.reports() if partitions else [],
            problems=self._dated(named(_distinct(found), self._config.resource)),
            hub_silent_seconds=self._heard.silence(self._clock()) if partitions else None,
            fleet=leader.fleet if leader else None,
            storage=self._storage() if partitions else None,
            body_errors=self._bodies.errors.report() if partitions and self._bodies else (),
        )

    def _dated(self, found: list[Problem]) -> list[Problem]:
        """The problems with the times since when they are there."""
        now = utc_now()
        self._since = {(each.field, each.reason): self._since.get((each.field, each.reason), now) for each in found}
        return [each.model_copy(update={"since": self._since[each.field, each.reason]}) for each in found]

    def _storage(self) -> StorageReport:
        partitions, leader = self._partitions, self._leader
        leads = leader is not None and leader.fleet is not None
        idle = idle_per_hour(
            partitions.renewals() if partitions else 0,
            self._config.leases.duration_seconds,
            leads=leads,
            rests=self._messages.current() is not None and not self._config.leases.shared,
            writes=3600 / STEP.total_seconds() if leads else 0.0,
            rarity=partitions.rarity if partitions else 1.0,
        )
        return StorageReport(requests_per_hour=self._storage_requests.per_hour(), idle_requests_per_hour=idle)

    def _credentials(self) -> Collection[Credential]:
        return credentials(self._config).values()

    async def _wait_blocked(self, found: list[Problem], seen: str) -> None:
        if found != self._blocked:
            for problem in found:
                log.error(
                    "the host is blocked: no events are read until this problem is fixed",
                    field=problem.field,
                    reason=problem.reason,
                    cause=problem.message,
                )
        self._blocked = found
        self._enter(HostState.BLOCKED)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REGISTER_RETRY_SECONDS):
                await self._changed(seen)

    async def _run_registered(self, registration: Registration, seen: str) -> None:
        config, info = self._config, registration.info
        bodies = registration.bodies
        self._blocked = []
        self._of_bodies = [problems.columns_refused(bodies.refused)] if bodies.refused else []
        if bodies.columns and compiled.find() is None:
            self._of_bodies.append(problems.decoder_missing())
        parse = body_parser(bodies.columns).parse
        self._bodies = TypedBodies(bodies, parse, utc_now) if bodies.columns else None
        log.info(
            "registered",
            hub=info.name,
            hub_namespace=info.namespace,
            partitions=len(info.partition_ids),
            receiver=receiver_of(config),
        )
        segment = registration.segments[-1]
        encode, chain = files_of(config, info, segment, registration.sink, columns=bodies.columns)
        rng = Random()  # noqa: S311 - for jitter, not for security
        self._heard = Heard()
        deps = PumpDependencies(
            owner=self._owner,
            config=config,
            hub=registration.hub,
            info=info,
            encode=encode,
            metrics=self._metrics,
            clock=self._clock,
            rng=rng,
            confined=self._reader(registration.memory),
            memory=registration.memory,
            heard=self._heard,
            handler=self._handlers(registration, segment.segment_id, rng),
            chain=registration.chain,
            bodies=self._bodies,
        )
        leases = lease_store(config, info, registration.leases, self._clock)
        partitions = self._partitions = PartitionManager(deps, leases, chain, self._messages)
        leader = self._leader = Leader(
            deps,
            blobs=registration.sink,
            segments=partial(segments_of, config, info, registration.segments, registration.sink, utc_now),
            partitions=partitions,
        )
        spelling = await leases.spelling()
        account = registration.sink.account
        record = lease_record(config, info, registration.chain, account, utc_now(), spelling=spelling)
        restore = partial(restore_lease_record, registration.leases, leases.folder, record)
        self._enter(HostState.RUNNING)
        loops = [
            asyncio.create_task(partitions.run(self._heartbeat.beat), name="scan"),
            asyncio.create_task(partitions.listen(), name="listen"),
            asyncio.create_task(leader.run(), name="lead"),
            asyncio.create_task(self._changed(seen), name="watch"),
            asyncio.create_task(
                until_moved(
                    registration.sink,
                    config,
                    segment,
                    restore=restore,
                    in_doubt=partitions.in_doubt,
                    rarity=lambda: partitions.rarity,
                    clock=self._clock,
                ),
                name="identity",
            ),
        ]
        if registration.replay:
            loops.append(asyncio.create_task(completed(registration.replay, partitions.reports), name="replay"))
        try:
            ended, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for loop in ended:
                loop.result()  # a failed loop ends the process: the kubelet restarts it
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            log.info("draining", partitions=len(partitions.reports()))
            await partitions.drain(config.drain_seconds)
            await leader.rest()
            if registration.replay:
                await self._finish_replay(registration.replay, chain)
            self._partitions = self._leader = None
            await registration.close()

    def _reader(self, memory: Memory) -> Reader:
        """Reads what others may have written, in memory that the buffers lend."""
        buffer = self._config.processing.buffer_bytes
        return Reader(allowance(container_memory(), buffer), lend=partial(memory.lent, lent(buffer)))

    async def _finish_replay(self, hub: BoundedHub, chain: Callable[[str], Chain]) -> None:
        """Check whether the files are complete; if not, the host registers again or the next attempt continues."""
        with contextlib.suppress(StorageError):
            self.replayed = await totals(hub, chain)
        if self.replayed is not None:
            log.info("replay complete", files=self.replayed.files, events=self.replayed.events)
            self.request_stop()

    def _handlers(
        self, registration: Registration, folder: str, rng: Random
    ) -> Callable[[str], PartitionHandler] | None:
        """A factory of handlers by partition; None: no handler is configured."""
        config, info, factory = self._config, registration.info, registration.handler
        if factory is None or config.processing.handler is None:
            return None
        letters = DeadLetters(
            registration.sink, config.sink.container, config.sink.prefix, folder, config.processing.handler
        )
        processing = config.processing
        deps = HandlerDependencies(
            factory, letters, processing.handler_attempts, self._metrics, rng, mode=processing.handler_mode
        )

        def handler(partition: str) -> PartitionHandler:
            identity = PartitionIdentity(
                info.namespace, info.name, config.event_hub.consumer_group, partition, self._owner
            )
            return PartitionHandler(identity, deps)

        return handler

    async def _changed(self, seen: str) -> None:
        """Return when a stop is requested or a credential file differs from the fingerprint `seen`."""
        while not self._stop.is_set() and fingerprint(self._credentials()) == seen:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), WATCH_SECONDS)
        if not self._stop.is_set():
            log.info("a credential changed; registering again")

    def _enter(self, state: HostState) -> None:
        if self._state is not HostState.DRAINING:
            self._state = state


def _distinct(found: list[Problem]) -> list[Problem]:
    """The first problem of each field and reason."""
    return list({(problem.field, problem.reason): problem for problem in reversed(found)}.values())[::-1]
