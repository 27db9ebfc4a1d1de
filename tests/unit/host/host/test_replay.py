"""A replay's end: decided once, the same for every attempt, and never read beyond."""

import asyncio

import pytest

from eventconsumer_api.errors import Blocked
from eventconsumer_api.wire.host_config import ReplayConfig
from eventconsumer_api.wire.host_report import PartitionReport
from eventconsumer_host.host.replay import bounded_hub, completed
from eventconsumer_storage.errors import Damaged
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore
from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual


def hub_of(*counts: int) -> FakeHub:
    """A hub with so many events in each partition."""
    hub = FakeHub(len(counts))
    for partition, count in zip(hub.partitions.values(), counts, strict=True):
        partition.add(*(b"%d" % number for number in range(count)))
    return hub


async def ends(hub: FakeHub, sink: FakeBlobStore, *partitions: str) -> dict[str, int]:
    """The ends of a replay."""
    config = ReplayConfig(name="first", partitions=list(partitions))
    return dict((await bounded_hub(hub, await hub.describe(), config, sink, "p")).ends)


@virtual
async def test_the_end_is_decided_once() -> None:
    hub, sink = hub_of(5, 0), FakeBlobStore(virtual_clock)
    first = await ends(hub, sink)
    hub.partitions["0"].add(b"later")
    again = await ends(hub, sink)
    assert first == again == {"0": 5, "1": 0}


@virtual
async def test_nothing_behind_the_end_is_seen() -> None:
    hub, sink = hub_of(5, 3), FakeBlobStore(virtual_clock)
    config = ReplayConfig(name="first", partitions=["1"])
    seen = await bounded_hub(hub, await hub.describe(), config, sink, "p")
    hub.partitions["1"].add(b"later", b"and later")
    assert (await seen.describe()).partition_ids == ("1",)
    assert (await seen.partition("1")).last == 2
    source = await seen.open("1", -1, 1, 100)
    batch = await source.receive(100, 1)
    assert batch.numbers.tolist() == [0, 1, 2]
    assert len(await source.receive(100, 1)) == 0
    hub.partitions["1"].retain_from(4)
    assert (await seen.partition("1")).earliest == 3  # all that is wanted is gone


@virtual
async def test_it_is_complete_when_all_is_received_or_gone() -> None:
    hub, sink = hub_of(5, 3), FakeBlobStore(virtual_clock)
    config = ReplayConfig(name="first")
    seen = await bounded_hub(hub, await hub.describe(), config, sink, "p")
    hub.partitions["1"].add(b"later")
    hub.partitions["1"].retain_from(3)
    received = {"0": 3}

    def reports() -> list[PartitionReport]:
        return [PartitionReport(id=partition, epoch=1, sequence_number=last) for partition, last in received.items()]

    began = virtual_clock()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await completed(seen, reports)
    received["0"] = 4
    await completed(seen, reports)
    assert virtual_clock() - began < 75


@virtual
async def test_what_cannot_be() -> None:
    hub, sink = hub_of(5), FakeBlobStore(virtual_clock)
    with pytest.raises(Blocked, match="no partition 8: it has 0"):
        await ends(hub, sink, "8")
    for damaged in (b"{", b"[" * 10_000, b'{"ends":{"0":5.9}}', b'{"ends":{"0":"5"}}', b'{"ends":{"0":Infinity}}'):
        await sink.put("p/_replay.json", damaged)
        with pytest.raises(Damaged, match="use another name"):
            await ends(hub, sink)
