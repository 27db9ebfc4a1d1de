"""A stage for pumps: fake hub, fake blobs, virtual time; files are read back from the fake."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.body.parser import body_parser
from eventconsumer_host.body.record import enter
from eventconsumer_host.body.typed import TypedBodies
from eventconsumer_host.lease.held import HeldLease
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition.dependencies import Encoder, Handling, PumpDependencies
from eventconsumer_host.partition.pump import Pump, PumpEnd
from eventconsumer_host.sink.formats import files_of
from eventconsumer_host.sink.parquet import encode
from eventconsumer_host.sink.slots import Chain, utc_now
from eventconsumer_host.source.hub import HubInfo
from tests.support.clocks import virtual_clock
from tests.support.confined import Here
from tests.support.fakes.blobs import FakeBlobStore
from tests.support.fakes.hub import CREATED, FakeHub, FakePartition

CONFIG: dict[str, Any] = {
    "resource": {"namespace": "shop", "name": "orders", "uid": "u"},
    "eventHub": {
        "name": "orders",
        "consumerGroup": "$Default",
        "credential": {"field": "f", "connectionStringFile": "x"},
    },
    "leases": {
        "location": {"container": "leases", "prefix": "", "credential": {"field": "f", "connectionStringFile": "x"}},
        "durationSeconds": 30,
    },
    "startingPosition": {"type": "Earliest"},
    "processing": {"maxBatchSize": 10, "prefetchCount": 100, "maxWaitSeconds": 20},
    "sink": {"container": "drained", "prefix": "p", "credential": {"field": "f", "connectionStringFile": "x"}},
    "roll": {"maxBytes": 1_000_000, "maxSeconds": 5, "maxEvents": 10},
    "batches": None,
    "drainSeconds": 10,
}


@dataclass
class PumpWorld:
    """One partition's surroundings, and the pumps started on it."""

    hub: FakeHub = field(default_factory=FakeHub)
    overrides: dict[str, Any] = field(default_factory=dict)
    leases: FakeBlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    sink: FakeBlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    metrics: Metrics = field(default_factory=Metrics)
    handler: Callable[[str], Handling] | None = None  # by partition, as in `PumpDependencies`
    columns: Sequence[BodyColumn] = ()  # of bodies
    segments: list[SegmentRecord] = field(default_factory=list)  # of the chain; none: one whose segment is "era"

    @property
    def partition(self) -> FakePartition:
        """The hub's only partition."""
        return self.hub.partitions["0"]

    async def pump(self, owner: str = "host-a") -> "Running":
        """Acquire the lease (steal it where it is held) and start a pump and its keeper."""
        config = HostConfig.model_validate(CONFIG | self.overrides)
        info, chain = HubInfo("shop.example", "orders", CREATED, ("0",)), Chain(self.sink, "p", "era", "0")
        encoder: Encoder = encode
        if self.segments:
            info = replace(info, created_at=self.segments[-1].hub.created_at)
            encoder, chain_of = files_of(config, info, self.segments[-1], self.sink)
            chain = chain_of("0")
        entered = await enter(self.sink, "p", self.columns)
        if entered.columns:
            encoder = partial(encode, columns=entered.columns)
        store = lease_store(config, info, self.leases, virtual_clock)
        lease = (await store.list(["0"])).leases["0"]
        taken = await store.acquire(lease, owner)
        assert taken is not None
        held = HeldLease(store, taken, virtual_clock)
        work = PumpDependencies(
            owner=owner,
            config=config,
            hub=self.hub,
            info=info,
            encode=encoder,
            metrics=self.metrics,
            confined=Here(),
            clock=virtual_clock,
            rng=Random(1),
            handler=self.handler,
            bodies=TypedBodies(entered, body_parser(entered.columns).parse, utc_now) if entered.columns else None,
        )
        pump = Pump(work, held, chain)
        return Running(pump, held, asyncio.create_task(pump.run()), asyncio.create_task(held.keeper.run()))

    def files(self) -> dict[str, list[int]]:
        """Sequence numbers by slot start, in chain order; checks that they chain (S2, S3)."""
        found: dict[str, list[int]] = {}
        expected: int | None = None
        for name, blob in sorted(self.sink.blobs.items()):
            if "/from=" in name:
                start = int(name.split("from=")[1].split(".")[0])
                assert expected is None or start == expected
                numbers = pq.read_table(pa.BufferReader(blob.data))["sequence_number"].to_pylist()
                first, last = int(blob.metadata["first"]), int(blob.metadata["last"])
                assert numbers == sorted(set(numbers)) and start <= first
                assert all(first <= number <= last for number in numbers)
                if "dropped" not in blob.metadata:
                    assert (numbers[0], numbers[-1]) == (first, last)
                found[str(start)] = numbers
                expected = last + 1
        return found

    def rows(self) -> list[int]:
        """All sequence numbers in files."""
        return [number for numbers in self.files().values() for number in numbers]


@dataclass
class Running:
    """A pump at work."""

    pump: Pump
    held: HeldLease
    task: asyncio.Task[PumpEnd]
    keeping: asyncio.Task[None]

    def reasons(self) -> list[str]:
        """The reasons of the pump's problems."""
        return [problem.reason for problem in self.pump.problems()]

    def problem(self, reason: str) -> Problem:
        """The only problem with this reason."""
        (found,) = (problem for problem in self.pump.problems() if problem.reason == reason)
        return found

    async def stop(self) -> PumpEnd:
        """Stop in order and release the lease."""
        self.pump.end()
        reason = await self.task
        await self.held.release()
        self.keeping.cancel()
        return reason

    async def kill(self) -> None:
        """End without a word."""
        self.task.cancel()
        self.keeping.cancel()
        await asyncio.gather(self.task, self.keeping, return_exceptions=True)


async def eventually(met: Callable[[], bool], seconds: float = 60) -> None:
    """Wait in virtual time."""
    deadline = virtual_clock() + seconds
    while not met():
        assert virtual_clock() < deadline, "not in time"
        await asyncio.sleep(0.1)
        await _threads()


async def _threads() -> None:
    """Let encoders in threads finish: virtual time does not wait for them."""
    waited: Awaitable[None] = asyncio.to_thread(lambda: None)
    await waited
