"""What the host relies on in an Event Hub: against the fake, the emulator through either adapter, and another stack."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import pytest

from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_host import compiled
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import HubUnreachable, LinkStolen, SourceError
from eventconsumer_host.source.hub import Hub, Source
from eventconsumer_host.source.sdk import SdkHub
from tests.support.fakes.hub import FakeHub
from tests.support.peer.process import PeerProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import HANG_SECONDS


class HubWorld(Protocol):
    """A hub with two partitions, and what its administrator can do."""

    hub: Hub

    def produce(self, count: int) -> None:
        """Enqueue events in partition 0."""

    def retain_from(self, number: int) -> None:
        """Let retention remove what is below."""

    def redeliver(self, number: int) -> None:
        """Let the attached reader continue from a number again."""

    def start_early(self, events: int) -> None:
        """Let new links start before their position."""

    def drop(self) -> None:
        """Lose the reader's connection."""

    def freeze(self) -> None:
        """Let the reader's link be silent."""

    def recreate(self) -> None:
        """Delete the hub and create it again."""

    def grow(self) -> None:
        """Add a partition."""


class Fake:
    """The fake."""

    def __init__(self) -> None:
        self.fake = FakeHub(2)
        self.hub: Hub = self.fake

    def _reader(self) -> Any:
        return self.fake.partitions["0"].reader

    def produce(self, count: int) -> None:
        self.fake.partitions["0"].add(*[b"event"] * count)

    def retain_from(self, number: int) -> None:
        self.fake.partitions["0"].retain_from(number)

    def redeliver(self, number: int) -> None:
        self._reader().position = number - 1

    def start_early(self, events: int) -> None:
        self.fake.partitions["0"].early = events

    def drop(self) -> None:
        self._reader().broken = True

    def freeze(self) -> None:
        self._reader().frozen = True

    def recreate(self) -> None:
        self.fake.recreate()

    def grow(self) -> None:
        self.fake.add_partition()


class Emulated:
    """The emulator, by either adapter."""

    def __init__(self, emulator: EmulatorProcess, adapter: Callable[[HubAccess], Hub], transport: HubTransport) -> None:
        self.admin = emulator.admin
        self.admin.create_hub("orders", partitions=2)
        host, text = f"localhost:{emulator.port}", emulator.connection_string("orders")
        self.hub = adapter(HubAccess(host, "orders", "$Default", text, transport=transport))

    def produce(self, count: int) -> None:
        for _ in range(count):
            self.admin.put_event("orders", "0", b"event")

    def retain_from(self, number: int) -> None:
        self.admin.move_retention("orders", "0", before=number)

    def redeliver(self, number: int) -> None:
        self.admin.redeliver(number, hub="orders", partition="0")

    def start_early(self, events: int) -> None:
        self.admin.start_early(events, hub="orders", partition="0")

    def drop(self) -> None:
        self.admin.drop_connections()

    def freeze(self) -> None:
        self.admin.freeze(hub="orders", partition="0")

    def recreate(self) -> None:
        self.admin.recreate_hub("orders")

    def grow(self) -> None:
        self.admin.add_partitions("orders", total=3)


class Peered:
    """A broker on Proton's engine, by our adapter."""

    def __init__(self, peer: PeerProcess, transport: HubTransport) -> None:
        self.peer = peer.by_websockets() if transport is HubTransport.AMQP_WEB_SOCKETS else peer
        self.place = {"hub": "orders", "partition": "0"}
        peer.call("create", hub="orders", partitions=2)
        text = self.peer.connection_string("orders")
        self.hub: Hub = AmqpHub(HubAccess("localhost", "orders", "$Default", text, transport=transport))

    def produce(self, count: int) -> None:
        self.peer.call("produce_mixed", count=count, **self.place)

    def retain_from(self, number: int) -> None:
        self.peer.call("retain_from", number=number, **self.place)

    def redeliver(self, number: int) -> None:
        self.peer.call("redeliver", number=number, **self.place)

    def start_early(self, events: int) -> None:
        self.peer.call("start_early", events=events, **self.place)

    def drop(self) -> None:
        self.peer.call("drop")

    def freeze(self) -> None:
        self.peer.call("freeze", **self.place)

    def recreate(self) -> None:
        self.peer.call("recreate", hub="orders")

    def grow(self) -> None:
        self.peer.call("grow", hub="orders")


@pytest.fixture(
    params=[
        "fake",
        *("sdk", "sdk, websockets"),
        *("amqp", "amqp, plain", "amqp, websockets"),
        *("peer", "peer, plain", "peer, websockets"),
    ]
)
async def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HubWorld]:
    """The fake, the emulator, and a broker of another stack; `plain` as where the compiled decoder is not installed."""
    server, _, variant = request.param.partition(", ")
    transport = HubTransport.AMQP_WEB_SOCKETS if variant == "websockets" else HubTransport.AMQP
    if variant == "plain":
        monkeypatch.setattr(compiled, "find", lambda: None)
    found: HubWorld
    if server == "fake":
        found = Fake()
    elif server == "peer":
        found = Peered(request.getfixturevalue("peer"), transport)
    else:
        found = Emulated(request.getfixturevalue("emulator"), SdkHub if server == "sdk" else AmqpHub, transport)
    yield found
    await found.hub.close()


async def numbers(source: Source, count: int, most: int = 300) -> list[int]:
    """Receive until `count` events came."""
    found: list[int] = []
    async with asyncio.timeout(HANG_SECONDS):
        while len(found) < count:
            batch = await source.receive(most, 0.3)
            assert len(batch) <= most
            found += batch.numbers.tolist()
    return found


async def test_events_come_in_order_behind_the_position(world: HubWorld) -> None:
    world.produce(8)
    source = await world.hub.open("0", 2, 1, 100)
    assert await numbers(source, 5) == [3, 4, 5, 6, 7]
    assert len(await source.receive(10, 0.3)) == 0
    world.produce(2)
    assert await numbers(source, 2) == [8, 9]
    await source.close()


async def test_a_reader_of_a_partition_that_was_never_used_gets_its_first_events(world: HubWorld) -> None:
    source = await world.hub.open("0", -1, 1, 100)
    world.produce(2)
    assert await numbers(source, 2) == [0, 1]
    await source.close()


async def test_no_more_events_come_than_asked_for_at_a_time(world: HubWorld) -> None:
    world.produce(7)
    source = await world.hub.open("0", -1, 1, 100)
    assert await numbers(source, 7, most=3) == list(range(7))
    await source.close()


async def test_what_is_retained_and_where_the_end_is(world: HubWorld) -> None:
    empty = await world.hub.partition("0")
    assert (empty.is_empty, empty.last, empty.earliest) == (True, -1, 0)
    world.produce(6)
    world.retain_from(4)
    some = await world.hub.partition("0")
    assert (some.is_empty, some.last, some.earliest) == (False, 5, 4)
    source = await world.hub.open("0", 1, 1, 100)  # retention passed the position: what is left comes
    assert await numbers(source, 2) == [4, 5]
    await source.close()
    world.retain_from(6)
    none = await world.hub.partition("0")
    assert (none.is_empty, none.last, none.earliest) == (True, 5, 6)


@pytest.mark.parametrize("above", [0, 1])
async def test_a_reader_of_an_equal_or_higher_epoch_displaces_the_one_there(world: HubWorld, above: int) -> None:
    world.produce(3)
    former = await world.hub.open("0", -1, 5, 100)
    assert await numbers(former, 3) == [0, 1, 2]
    successor = await world.hub.open("0", 2, 5 + above, 100)
    with pytest.raises(LinkStolen):
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                await former.receive(10, 0.3)
    world.produce(1)
    assert await numbers(successor, 1) == [3]
    await former.close()
    await successor.close()


async def test_a_reader_of_a_lower_epoch_is_refused_until_the_higher_one_is_gone(world: HubWorld) -> None:
    there = await world.hub.open("0", -1, 5, 100)
    with pytest.raises(LinkStolen):
        await world.hub.open("0", -1, 4, 100)
    await there.close()
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            try:
                source = await world.hub.open("0", -1, 4, 100)
                break
            except LinkStolen:
                await asyncio.sleep(0.2)
    world.produce(1)
    assert await numbers(source, 1) == [0]
    await source.close()


async def test_a_lost_connection_ends_the_link_and_a_new_one_continues(world: HubWorld) -> None:
    world.produce(2)
    source = await world.hub.open("0", -1, 1, 100)
    assert await numbers(source, 2) == [0, 1]
    world.drop()
    with pytest.raises(HubUnreachable):
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                await source.receive(10, 0.3)
    await source.close()
    world.produce(1)
    again = await world.hub.open("0", 1, 1, 100)
    assert await numbers(again, 1) == [2]
    await again.close()


async def test_a_frozen_link_is_silent_while_the_hub_has_events(world: HubWorld) -> None:
    source = await world.hub.open("0", -1, 1, 100)
    world.freeze()
    world.produce(2)
    assert len(await source.receive(10, 1.0)) == 0
    assert (await world.hub.partition("0")).last == 1
    await source.close()


async def test_events_may_come_again(world: HubWorld) -> None:
    world.produce(4)
    source = await world.hub.open("0", -1, 1, 100)
    assert await numbers(source, 4) == [0, 1, 2, 3]
    world.redeliver(2)
    world.produce(1)
    assert await numbers(source, 3) == [2, 3, 4]
    await source.close()


async def test_a_link_may_start_before_its_position(world: HubWorld) -> None:
    world.produce(6)
    world.start_early(3)
    source = await world.hub.open("0", 4, 1, 100)
    assert await numbers(source, 4) == [2, 3, 4, 5]
    await source.close()


async def test_behind_the_end_nothing_comes_until_the_hub_has_got_there(world: HubWorld) -> None:
    world.produce(2)
    try:
        source = await world.hub.open("0", 4, 1, 100)
    except SourceError:
        return  # refused is as good: nothing is read, and nothing is skipped
    world.produce(2)
    assert len(await source.receive(10, 0.5)) == 0
    world.produce(3)
    assert await numbers(source, 2) == [5, 6]
    await source.close()


async def test_a_hub_created_again_is_another_one_and_ends_all_links(world: HubWorld) -> None:
    world.produce(3)
    before = await world.hub.describe()
    source = await world.hub.open("0", -1, 1, 100)
    assert await numbers(source, 3) == [0, 1, 2]
    world.recreate()
    with pytest.raises(SourceError):
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                await source.receive(10, 0.3)
    await source.close()
    after = await world.hub.describe()
    assert after.created_at > before.created_at
    assert (await world.hub.partition("0")).last == -1


async def test_partitions_may_be_added(world: HubWorld) -> None:
    assert (await world.hub.describe()).partition_ids == ("0", "1")
    world.grow()
    assert (await world.hub.describe()).partition_ids == ("0", "1", "2")
    assert (await world.hub.partition("2")).is_empty
