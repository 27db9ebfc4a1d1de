"""A host of the simulation: the production classes, put together as the host process puts them together.

A start is a new process: another machine with another boot time, its own random numbers, and its own way to storage and
hub. A crash leaves nothing behind but requests that were already sent.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import structlog

from eventconsumer_api.errors import Blocked, EventConsumerError
from eventconsumer_api.v1alpha1 import HandlerMode
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.handler.api import (
    Batch,
    CloseReason,
    EventProcessor,
    PartitionContext,
    RejectEvents,
    TryAgain,
)
from eventconsumer_host.handler.deadletter import DeadLetters
from eventconsumer_host.handler.handling import HandlerDependencies, PartitionHandler, PartitionIdentity
from eventconsumer_host.identity.records import (
    Leases,
    Times,
    claim_chain,
    claim_leases,
    lease_record,
    restore_lease_record,
    until_moved,
)
from eventconsumer_host.identity.segments import current
from eventconsumer_host.leader.leader import Leader
from eventconsumer_host.leader.tail import segments_of
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.manager import PartitionManager
from eventconsumer_host.partition.operator_messages import OperatorMessages
from eventconsumer_host.sink.chains import chains_of
from eventconsumer_host.sink.content import BlockWriter
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.hub import HubInfo
from tests.simulation.history import History
from tests.simulation.loop import Machine, SimLoop
from tests.simulation.network import Network, Node, RemoteHub, RemoteStore
from tests.simulation.receiver import RemoteReceiver
from tests.simulation.stream import SKEW_SECONDS, Stream
from tests.support.confined import Here
from tests.support.fakes.blobs import EPOCH, FakeBlobStore

RETRY_SECONDS = 4.0
CHECKPOINT_VERSIONS = 3  # of the table, between two checkpoints
RETENTION_SECONDS = 4.0  # between two looks for files that are due

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """What all hosts share."""

    loop: SimLoop
    network: Network
    leases: FakeBlobStore
    sink: FakeBlobStore
    failed: Callable[[str], None]  # told of a host that ended by itself
    fleet_key: Path | None = None  # a host with the operator's key waits for its first message


def encode(batches: Sequence[EventBatch], partition: str, facts: Mapping[str, str]) -> Iterator[bytes]:
    """Numbers and bodies, in small blocks: what has to be known here. The real formats have tests of their own."""
    parts = [batch.rows() for batch in batches]
    rows = [(n, b.decode()) for part in parts for n, b in zip(part.sequence_numbers, part.bodies, strict=True)]
    writer = BlockWriter(block_bytes=80)
    for part in json.JSONEncoder().iterencode(rows):
        writer.write(part.encode())
        yield from writer.full()
    yield from writer.rest()


class Editing(EventProcessor):
    """Keeps most events, each with another body, drops the others, and fails now and then; it takes its time.

    Its methods are `async def`: a thread would run in real time.
    """

    def __init__(self, host: str, history: History, rng: Random) -> None:
        self._host = host
        self._history = history
        self._rng = rng

    async def open(self, context: PartitionContext) -> None:
        """See `EventProcessor`."""

    async def close(self, context: PartitionContext, reason: CloseReason) -> None:
        """See `EventProcessor`."""

    async def process_events(self, context: PartitionContext, batch: Batch) -> pa.Table:
        """See `EventProcessor`."""
        history, partition, rng = self._history, context.partition_id, self._rng
        await asyncio.sleep(rng.choice((0.0, 0.0, 0.02, 0.2)))
        bodies = [event.body.decode() if event.body else "" for event in batch]
        fate = rng.random()
        if fate < 0.01:
            raise TryAgain("not now")
        if fate < 0.03:
            rejects = fate < 0.02 or len(bodies) == 1
            for body in bodies[:1] if rejects else ():
                history.leave_out(partition, body, self._host)
            raise RejectEvents(batch.sequence_numbers[:1], "bad") if fate < 0.02 else ValueError("bad")
        share = rng.choice((0.0, 0.3, 0.3, 1.0))
        kept = [rng.random() >= share for _ in batch]
        for body in (body for body, keep in zip(bodies, kept, strict=True) if not keep):
            history.leave_out(partition, body, self._host)
        rows = [
            (number, history.keep(partition, body, self._host))
            for number, body, keep in zip(batch.sequence_numbers, bodies, kept, strict=True)
            if keep
        ]
        numbers, edited = zip(*rows, strict=True) if rows else ((), ())
        return pa.table({"sequence_number": pa.array(numbers, pa.int64()), "body": pa.array(edited, pa.string())})


class SimHost:
    """One process."""

    def __init__(self, owner: str, config: HostConfig, around: Surroundings, stream: Stream, seed: int) -> None:
        rng = Random(seed)
        self._skew = Random(f"clock {seed}").choice((-SKEW_SECONDS, 0.0, SKEW_SECONDS))  # of its wall clock
        self.owner = owner
        self.uid = config.resource.uid
        self.manager: PartitionManager | None = None
        self.blocked: list[Problem] = []
        self.running = True
        self.stopping = False
        self.machine = Machine(owner, around.loop, boot=rng.uniform(0, 1e6))
        self.node = Node(owner, self.machine, stream.checker)
        self._metrics = Metrics()
        self.news = OperatorMessages(
            config.resource.path,
            around.fleet_key,
            self._metrics,
            self.machine.time,
            lambda: EPOCH + timedelta(seconds=around.loop.now),
        )
        self._config = config
        self._around = around
        self._stream = stream
        self._rng = rng
        self._stop = asyncio.Event()
        self._task = around.loop.create_task(self._run(), context=self.machine.context)

    def stop(self) -> None:
        """Stop in order, as on SIGTERM."""
        self.stopping = True
        self._around.loop.call_soon(self._stop.set, context=self.machine.context)

    def crash(self) -> None:
        """Die: nothing is sent from here on."""
        self.node.alive = False
        self.running = False
        self.machine.paused = False
        self.machine.parked.clear()
        for task in self.machine.tasks:
            task.cancel()

    def owns(self) -> set[str]:
        """Partitions that it has a pump for."""
        return {report.id for report in self.manager.reports()} if self.manager and self.running else set()

    def problems(self) -> list[Problem]:
        """What it would show."""
        return [*self.blocked, *(self.manager.problems() if self.manager else [])]

    async def _run(self) -> None:
        try:
            await self._live()
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            log.exception("host failed")
            self._around.failed(f"{self.owner} ended by itself: {error!r}")
        finally:
            self.crash()  # what the process left running ends with it

    async def _live(self) -> None:
        """Register and drain until stopped, as `Host.run` does."""
        node, network = self.node, self._around.network
        self._hub: Any = RemoteHub(node, network, self._stream.hub)
        self._leases: Any = RemoteStore(node, network, self._around.leases)
        self._sink: Any = RemoteStore(node, network, self._around.sink)
        self._times = Times(lambda: EPOCH + timedelta(seconds=self._around.loop.now + self._skew), self.machine.time)
        while not self._stop.is_set():
            try:
                info, segments, chain = await self._register()
                self.blocked = []
            except EventConsumerError as error:
                log.warning("not registered", error=str(error))
                self.blocked = [error.problem] if isinstance(error, Blocked) else []
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), RETRY_SECONDS)
            else:
                await self._session(info, segments, chain)

    async def _register(self) -> tuple[HubInfo, list[SegmentRecord], str]:
        """The hub, the segments of the chain and its identity; see `registration.register`."""
        config, hub, sink, times = self._config, self._hub, self._sink, self._times
        info = await hub.describe()
        await self._leases.ensure_container()
        segments = await current(sink, config.sink.prefix, info, times.now())
        info = replace(info, created_at=segments[-1].hub.created_at)
        store = lease_store(config, info, self._leases, self.machine.time)
        chain = await claim_chain(config, segments[0].segment_id, store, sink, times)
        held = Leases(store, self._leases)
        await claim_leases(config, hub, info, chain=chain, leases=held, sink=sink, times=times)
        return info, segments, chain

    def _handlers(self, folder: str) -> Callable[[str], PartitionHandler]:
        """The user's handler, by partition; see `Host._handlers`."""
        rng = Random(f"handler {self._rng.getrandbits(32)}")
        deps = HandlerDependencies(
            lambda: Editing(self.owner, self._stream.history, rng),
            DeadLetters(self._sink, "drained", self._config.sink.prefix, folder, "user:Editing"),
            2,
            self._metrics,
            rng,
            self._times.now,
            HandlerMode.TRANSFORM,
        )
        return lambda partition: PartitionHandler(
            PartitionIdentity("shop.example", self._stream.name, "$Default", partition, self.owner), deps
        )

    async def _session(self, info: HubInfo, segments: Sequence[SegmentRecord], identity: str) -> None:
        """Drain until stopped, or until the chain is another resource's or continues elsewhere; see `Host._session`."""
        config, sink = self._config, self._sink
        work = PumpDependencies(
            owner=self.owner,
            config=config,
            hub=self._hub,
            info=info,
            encode=encode,
            metrics=self._metrics,
            confined=Here(),
            clock=self.machine.time,
            rng=self._rng,
            now=self._times.now,
            chain=identity,
        )
        if self._stream.transforms:
            work = replace(work, handler=self._handlers(segments[-1].segment_id))
        chain = chains_of(config, info, segments[-1], sink)
        store = lease_store(config, info, self._leases, self.machine.time)
        manager = self.manager = PartitionManager(work, store, chain, self.news)
        files = partial(segments_of, config, info, segments, sink, self._times.now)
        known: set[str] = set()
        leader = Leader(
            work,
            blobs=sink,
            segments=files,
            partitions=manager,
            checkpoint_versions=CHECKPOINT_VERSIONS,
            endpoint=lambda _: RemoteReceiver(self.node, self._around.network, self._stream.receiver, known),
            retention_seconds=RETENTION_SECONDS,
        )
        spelling = await store.spelling()
        record = lease_record(config, info, identity, sink.account, self._times.now(), spelling=spelling)
        restore = partial(restore_lease_record, self._leases, store.folder, record)
        clock = self.machine.time
        moved = until_moved(
            sink,
            config,
            segments[-1],
            restore=restore,
            in_doubt=manager.in_doubt,
            rarity=lambda: manager.rarity,
            clock=clock,
        )
        ends = manager.run(lambda: None), manager.listen(), leader.run(), self._stop.wait(), moved
        loops = [asyncio.create_task(each) for each in ends]
        try:
            ended, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for loop in ended:
                loop.result()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await manager.drain(config.drain_seconds)
            await leader.rest()
            self.manager = None
