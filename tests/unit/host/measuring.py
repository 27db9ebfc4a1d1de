"""A consumer that is measured, on fakes that behave, in virtual time."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import FleetReport
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.leader.lag import Measure
from eventconsumer_host.leader.stage import Stage
from eventconsumer_host.leader.tail import Segment, Tail
from eventconsumer_host.leader.task import View
from eventconsumer_host.leader.watermark import WatermarkFile
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.sink.slots import Chain, Draft, EnqueuedRange
from eventconsumer_host.source.hub import HubInfo, PartitionInfo
from tests.support.clocks import virtual_clock
from tests.support.confined import Here
from tests.support.fakes.blobs import FakeBlobStore
from tests.support.fakes.hub import CREATED, FakeHub
from tests.unit.host.stage import CONFIG


class TimedHub(FakeHub):
    """A hub whose newest events are as old as the fake clock says, and that may be silent."""

    def __init__(self, partitions: int) -> None:
        super().__init__(partitions)
        self.newest: dict[str, datetime] = {}
        self.silent = False
        self.seconds = 0.0  # until it answers

    def publish(self, partition: str, count: int) -> None:
        self.partitions[partition].add(*[b"x"] * count)
        self.newest[partition] = now()

    async def partition(self, partition: str) -> PartitionInfo:
        if self.silent:
            raise HubUnreachable("no answer")
        found = await super().partition(partition)
        newest = self.newest.get(partition, CREATED)
        await asyncio.sleep(self.seconds)
        return replace(found, last_enqueued_time=newest)

    async def describe(self) -> HubInfo:
        found = await super().describe()
        await asyncio.sleep(self.seconds)
        return found


def now() -> datetime:
    return CREATED + timedelta(seconds=virtual_clock())


@dataclass
class LeaderWorld:
    """A hub, a sink, leases, and who measures them."""

    hub: TimedHub
    overrides: dict[str, Any] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sink = FakeBlobStore(virtual_clock)
        self.config = HostConfig.model_validate(CONFIG | self.overrides)

    async def measure(self) -> Measure:
        """A new one."""
        return Measure(await self.stage(), saved=WatermarkFile(self.sink, "p", "c", now).saved)

    async def stage(self) -> Stage:
        """What tasks of a new leading host work with."""
        tail = Tail([Segment("era", self.chain, now)], now)
        batches, info = BatchLog(self.sink, "p"), await self.hub.describe()
        return Stage(
            self.config, self.hub, info, "c", self.sink, batches, tail, Metrics(), Here(), now, virtual_clock, Random(1)
        )

    def view(self) -> View:
        """What hosts know now."""
        return View(list(self.hub.partitions), dict(self.leases))

    @classmethod
    async def drained(cls, partitions: int, events: int) -> "LeaderWorld":
        """A hub with events in each partition, all of them in a file."""
        world = cls(TimedHub(partitions))
        for partition in world.hub.partitions:
            world.hub.publish(partition, events)
            await world.drain(partition, events - 1)
        return world

    def chain(self, partition: str) -> Chain:
        return Chain(self.sink, "p", "era", partition)

    async def drain(
        self,
        partition: str,
        last: int,
        *,
        checkpoint: bool = True,
        times: tuple[datetime, datetime] | None = None,
        lost: int = 0,
    ) -> None:
        """Commit one more file, up to `last`; of events of these times, or of the newest events of the partition.

        Args:
            partition: Its id.
            last: The last event.
            checkpoint: Whether to write a checkpoint.
            times: Enqueued times of the first and the last event.
            lost: Number of events that retention removed before the first one.
        """
        newest = self.hub.newest.get(partition, now())
        enqueued = EnqueuedRange(*(times or (newest, newest)))
        chain = self.chain(partition)
        start = (await chain.begin(0)).start
        while slot := await chain.at(start):
            start = slot.last + 1
        first = start + lost
        gap = f"retention:{start}-{first - 1}" if lost else ""
        count = last + 1 - first
        draft = Draft(start, first, last, count, 1, "w", f"n{last}", "o", enqueued.latest, gap, enqueued=enqueued)
        await chain.put(draft, b"data")
        if checkpoint:
            self.checkpoint(partition, last)

    def checkpoint(self, partition: str, reached: int) -> None:
        self.leases[partition] = Lease(partition, checkpoint=Checkpoint("o", reached))

    async def report(self, measure: Measure) -> FleetReport:
        """One round."""
        view = self.view()
        await measure.follow(view)
        await measure.poll()
        await measure.ask_partitions()
        await measure.ask_heads(view.partitions)
        measure.advance(view.partitions)
        return measure.report(view)
