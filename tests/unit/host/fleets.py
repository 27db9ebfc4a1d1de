"""Fleets of partition managers in virtual time, in either layout, with or without an operator."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from eventconsumer_api.wire.fleet import FleetMessage, deaf_hosts
from eventconsumer_api.wire.host_config import HostConfig, NoticesConfig
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import pod_of
from eventconsumer_host.leader.leader import Leader
from eventconsumer_host.leader.notices import NoticeReceiver
from eventconsumer_host.leader.tail import Segment
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.notice.endpoint import NoticeEndpoint
from eventconsumer_host.partition.dependencies import PumpDependencies
from eventconsumer_host.partition.manager import PartitionManager, scan_pause
from eventconsumer_host.partition.operator_messages import OperatorMessages
from eventconsumer_host.sink.parquet import encode
from eventconsumer_host.sink.slots import Chain, segment_id
from eventconsumer_host.source.heard import Heard
from eventconsumer_host.source.hub import HubInfo
from tests.support.clocks import virtual_clock
from tests.support.confined import Here
from tests.support.fakes.blobs import FakeBlobStore
from tests.support.fakes.hub import CREATED, FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.host.stage import CONFIG

LAYOUTS = ["EventProcessorHost", "AzureSdk"]
FOREIGN = "11111111-1111-1111-1111-111111111111"
SCAN = scan_pause(30)  # seconds
INFO = HubInfo("shop.example", "orders", CREATED, ())


async def inline(work: Callable[..., Any], *args: Any) -> Any:
    """No threads: the same run each time."""
    return work(*args)


class Distant:
    """A store or a hub as a host reaches it: each request takes its time."""

    def __init__(self, near: Any, seconds: float) -> None:
        self._near = near
        self._seconds = seconds

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        """Any operation."""

        async def call(*args: Any, **options: Any) -> Any:
            await asyncio.sleep(self._seconds)
            return await getattr(self._near, operation)(*args, **options)

        return call


@dataclass
class Fleet:
    """Hosts on one hub, one lease container and one sink."""

    hub: FakeHub
    layout: str = "EventProcessorHost"
    leases: FakeBlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    sink: FakeBlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    hosts: dict[str, "Running"] = field(default_factory=dict)
    leading: bool = False  # hosts elect a leader, too
    earlier: list[str] = field(default_factory=list)  # segments of segments that have ended, the oldest first
    endpoint: Callable[[NoticesConfig], NoticeReceiver] | None = None  # of notices; None: no notices
    retention: dict[str, Any] | None = None
    lease_seconds: int = 30
    storage_seconds: float = 0.0  # that a request takes
    hub_seconds: float = 0.0
    generation: int = 0
    seen: set[str] = field(default_factory=set)  # owners that an operator knows
    telling: list[asyncio.Task[None]] = field(default_factory=list)

    def blob(self, partition: str) -> str:
        """The blob that names a partition's owner."""
        group = "$Default/" if self.layout == "EventProcessorHost" else "shop.example/orders/$default/ownership/"
        return group + partition

    def start(self, name: str, leases: Any = None, hub: Any = None) -> "Running":
        """Start a host."""
        config = HostConfig.model_validate(
            CONFIG
            | {
                "leases": CONFIG["leases"] | {"layout": self.layout, "durationSeconds": self.lease_seconds},
                "startingPosition": {"type": "Latest"},
                "notices": {"url": "https://hooks.example/files"} if self.endpoint else None,
                "retention": self.retention,
            }
        )
        info = HubInfo("shop.example", "orders", CREATED, tuple(self.hub.partitions))
        work = PumpDependencies(
            owner=name,
            config=config,
            hub=self._far(hub or self.hub, self.hub_seconds),
            info=info,
            encode=encode,
            metrics=Metrics(),
            clock=virtual_clock,
            rng=Random(name),
            offload=inline,
            confined=Here(),
        )
        store = lease_store(config, info, leases or self._far(self.leases, self.storage_seconds), virtual_clock)
        key_file = Path(__file__) if self.telling else None  # any file: it is never used
        news = OperatorMessages("shop/orders", key_file, work.metrics, virtual_clock, lambda: CREATED)
        manager = PartitionManager(work, store, self.chain, news)

        async def live() -> None:
            while True:
                await manager.run(lambda: None)
                await self.leases.ensure_container()  # as when a host registers

        tasks = [asyncio.create_task(live()), asyncio.create_task(manager.listen())]
        leader = self._leader(work, manager) if self.leading else None
        if leader is not None:
            tasks.append(asyncio.create_task(leader.run()))
        self.hosts[name] = Running(manager, tasks, news, leader, work.heard)
        return self.hosts[name]

    @staticmethod
    def _far(near: Any, seconds: float) -> Any:
        return Distant(near, seconds) if seconds else near

    def _leader(self, work: PumpDependencies, manager: PartitionManager) -> Leader:
        return Leader(
            work,
            blobs=self._far(self.sink, self.storage_seconds),
            segments=lambda: [
                Segment(name, partial(self.chain, segment=name), work.now) for name in (*self.earlier, segment_id(INFO))
            ],
            partitions=manager,
            endpoint=self.endpoint or NoticeEndpoint,
        )

    def tell(self, hosts: int, *, ready: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> None:
        """Tell every host once, as the operator does."""
        self.generation += 1
        deaf = deaf_hosts({pod_of(name): host.heard.silence(virtual_clock()) for name, host in self.hosts.items()})
        ready = tuple(name for name in ready if name not in deaf)
        message = FleetMessage(
            resource="shop/orders",
            generation=self.generation,
            time=CREATED,
            hosts=hosts,
            ready=ready,
            gone=gone,
            deaf=deaf,
        )
        for host in self.hosts.values():
            host.news.accept(message)

    def keep_telling(self, hosts: int, seconds: float = 3) -> None:
        """From now on, tell what is true every few seconds: the hosts that run well, and which of their pods ended."""
        for task in self.telling:
            task.cancel()

        async def tell() -> None:
            while True:
                self.seen.update(self.hosts)
                ready = tuple(
                    pod_of(name)
                    for name, host in self.hosts.items()
                    if int(pod_of(name).rpartition("-")[2]) < hosts and not host.manager.problems()
                )
                self.tell(hosts, ready=ready, gone=tuple(self.seen - self.hosts.keys()))
                await asyncio.sleep(seconds)

        self.telling = [asyncio.create_task(tell())]

    def chain(self, partition: str, segment: str = segment_id(INFO)) -> Chain:
        """The files of a partition in a segment, by default in the newest."""
        return Chain(self._far(self.sink, self.storage_seconds), "p", segment, partition)

    def counts(self) -> list[int]:
        """How many partitions each host owns."""
        return [len(host.owned()) for host in self.hosts.values()]

    def balanced(self) -> bool:
        """Every partition is owned once, and no host has more than one more than another (L1, L2)."""
        owned = [partition for host in self.hosts.values() for partition in host.owned()]
        return sorted(owned) == sorted(self.hub.partitions) and max(self.counts()) - min(self.counts()) <= 1

    async def close(self) -> None:
        """Kill all hosts."""
        for task in self.telling:
            await cancelled(task)
        for host in list(self.hosts.values()):
            await host.kill()

    def files(self) -> dict[str, list[tuple[int, int, int]]]:
        """By partition: start, last and epoch of each file, which must chain (S2) under rising epochs (S6)."""
        found: dict[str, list[tuple[int, int, int]]] = {}
        for name, blob in sorted(self.sink.blobs.items()):
            if "/from=" in name:
                partition = name.split("partition=")[1].split("/")[0]
                start = int(name.split("from=")[1].split(".")[0])
                found.setdefault(partition, []).append((start, int(blob.metadata["last"]), int(blob.metadata["epoch"])))
        for files in found.values():
            for before, after in pairwise(files):
                assert after[0] == before[1] + 1
                assert after[2] >= before[2]
        return found

    def drained(self) -> bool:
        """Every event added since the start is in a file (L3)."""
        files = self.files()
        return all(
            part.last < 0 or (files.get(name) and files[name][-1][1] == part.last)
            for name, part in self.hub.partitions.items()
        )


@dataclass
class Running:
    """A host at work."""

    manager: PartitionManager
    tasks: list[asyncio.Task[None]]
    news: OperatorMessages
    leader: Leader | None = None
    heard: Heard = field(default_factory=Heard)

    def owned(self) -> set[str]:
        """Partitions it owns."""
        return {report.id for report in self.manager.reports()}

    def problems(self, reason: str) -> list[Problem]:
        """What it says."""
        return [problem for problem in self.manager.problems() if problem.reason == reason]

    async def stop(self) -> None:
        """SIGTERM."""
        for task in self.tasks:
            await cancelled(task)
        await self.manager.drain(20)

    async def kill(self) -> None:
        """End with all that it started, without a word."""
        for task in self.tasks:
            await cancelled(task)
        for owned in list(self.manager._owned.values()):
            owned.ownership._held.keeper.lose("killed")
            await cancelled(owned.task)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for it."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def until(met: Callable[[], bool], seconds: float) -> float:
    """Wait in virtual time; how long it took."""
    began = virtual_clock()
    while not met():
        assert virtual_clock() < began + seconds, f"not within {seconds} s"
        await asyncio.sleep(0.1)
    return virtual_clock() - began


def fleet_test(test: Callable[[Fleet], Awaitable[None]], partitions: int, layout: str) -> None:
    """Run a test on a fleet without hosts, and end it."""

    @virtual
    async def run() -> None:
        fleet = Fleet(FakeHub(partitions), layout)
        try:
            await test(fleet)
        finally:
            await fleet.close()

    run()
