"""A host of the simulation: the production classes, put together as the host process puts them together.

A start is a new process: another machine with another boot time, its own random numbers, and its own way to storage and
hub. A crash leaves nothing behind but requests that were already sent.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import structlog

from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.host_report import Problem
from eventconsumer_processor.errors import HostError
from eventconsumer_processor.fleetnews import FleetNews
from eventconsumer_processor.leader import Leader
from eventconsumer_processor.lease.layouts import lease_store
from eventconsumer_processor.metrics import Metrics
from eventconsumer_processor.partitions import PartitionManager
from eventconsumer_processor.registration import check_same_hub
from eventconsumer_processor.sink.content import BlockWriter
from eventconsumer_processor.sink.slots import Chain, incarnation
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.work import Work
from tests.fakes.blobs import EPOCH, FakeBlobStore
from tests.fakes.hub import FakeHub
from tests.simulation.loop import Machine, SimLoop
from tests.simulation.network import Network, Node, RemoteHub, RemoteStore

RETRY_SECONDS = 4.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """What all hosts share."""

    loop: SimLoop
    network: Network
    leases: FakeBlobStore
    sink: FakeBlobStore
    hub: FakeHub
    failed: Callable[[str], None]  # told of a host that ended by itself


def encode(batches: Sequence[EventBatch], partition: str, facts: Mapping[str, str]) -> Iterator[bytes]:
    """Numbers and bodies, in small blocks: what has to be known here. The real formats have tests of their own."""
    parts = [batch.rows() for batch in batches]
    rows = [(n, b.decode()) for part in parts for n, b in zip(part.sequence_numbers, part.bodies, strict=True)]
    writer = BlockWriter(block_bytes=80)
    for part in json.JSONEncoder().iterencode(rows):
        writer.write(part.encode())
        yield from writer.full()
    yield from writer.rest()


class SimHost:
    """One process."""

    def __init__(self, owner: str, config: HostConfig, around: Surroundings, seed: int) -> None:
        rng = Random(seed)
        self.owner = owner
        self.manager: PartitionManager | None = None
        self.blocked: list[Problem] = []
        self.running = True
        self.stopping = False
        self.machine = Machine(owner, around.loop, boot=rng.uniform(0, 1e6))
        self.node = Node(owner, self.machine)
        self._metrics = Metrics()
        self.news = FleetNews(
            "u", None, self._metrics, self.machine.time, lambda: EPOCH + timedelta(seconds=around.loop.now)
        )
        self._config = config
        self._around = around
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
        around, node, config = self._around, self.node, self._config
        hub: Any = RemoteHub(node, around.network, around.hub)
        leases: Any = RemoteStore(node, around.network, around.leases)
        sink: Any = RemoteStore(node, around.network, around.sink)
        info = None
        while info is None:
            if self._stop.is_set():
                return
            try:
                found = await hub.describe()
                await leases.ensure_container()
                await check_same_hub(sink, config.sink.prefix, found)
                info = found
                self.blocked = []
            except HostError as error:
                log.warning("not registered", error=str(error))
                self.blocked = [error.problem] if hasattr(error, "problem") else []
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), RETRY_SECONDS)
        work = Work(
            owner=self.owner,
            config=config,
            hub=hub,
            info=info,
            encode=encode,
            metrics=self._metrics,
            clock=self.machine.time,
            rng=self._rng,
            now=lambda: EPOCH + timedelta(seconds=around.loop.now),
        )
        era = incarnation(info)

        def chain(partition: str) -> Chain:
            return Chain(sink, config.sink.prefix, era, partition)

        store = lease_store(config, info, leases, self.machine.time)
        manager = self.manager = PartitionManager(work, store, chain, self.news)
        leader = Leader(
            work,
            blobs=sink,
            incarnation=era,
            chain=chain,
            partitions=manager,
            seconds=config.leases.duration_seconds,
        )
        loops = [asyncio.create_task(each) for each in (manager.run(lambda: None), leader.run(), self._stop.wait())]
        try:
            ended, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for loop in ended:
                loop.result()
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            await manager.drain(config.drain_seconds)
