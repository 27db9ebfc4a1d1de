"""Our receiver against a broker on Proton's engine, with wires that AMQP 1.0 allows and our emulator does not have.

`test_hub` runs on that broker too.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from eventconsumer_api.v1alpha1 import Position, PositionType
from eventconsumer_host import compiled
from eventconsumer_host.amqp import cbs
from eventconsumer_host.amqp.connection import Connection, Endpoint
from eventconsumer_host.amqp.hub import AmqpHub
from eventconsumer_host.credentials import HubAccess
from eventconsumer_host.errors import SourceError
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.budget import LINK_BYTES
from eventconsumer_host.source.hub import Source
from eventconsumer_host.source.rows import EventRows
from tests.support.peer import codec, mixed
from tests.support.peer.codec import section
from tests.support.peer.hub import offset_of, time_of
from tests.support.peer.process import PeerProcess
from tests.support.waiting import HANG_SECONDS

GOOD = section(codec.DATA, b"good")
TURNS = 100  # receives of a tenth of a second, until nothing is expected any more
SECOND = 1000  # events: one a millisecond


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiled decoder, and as where it is not installed."""
    if request.param == "plain":
        monkeypatch.setattr(compiled, "find", lambda: None)


def access(peer: PeerProcess) -> HubAccess:
    return HubAccess("localhost", "orders", "$Default", peer.connection_string("orders"))


@pytest.fixture
async def hub(peer: PeerProcess) -> AsyncIterator[AmqpHub]:
    """A hub with two partitions."""
    peer.call("create", hub="orders", partitions=2)
    found = AmqpHub(access(peer))
    yield found
    await found.close()


async def receive(source: Source, count: int) -> EventBatch:
    """Receive until `count` events came, and put them together."""
    batches = []
    async with asyncio.timeout(HANG_SECONDS):
        while sum(map(len, batches)) < count:
            batches.append(await source.receive(300, 0.1))
    return EventBatch.joined([batch for batch in batches if len(batch)])


async def rows(source: Source, count: int) -> EventRows:
    """The same as lists."""
    return (await receive(source, count)).rows()


async def bodies(source: Source, turns: int = TURNS, enough: Callable[[list[bytes]], bool] = bool) -> list[bytes]:
    """Bodies that come until there are enough, or in `turns` receives: for a test of events that may never come."""
    found: list[bytes] = []
    for _ in range(turns):
        found += (await source.receive(300, 0.1)).rows().bodies
        if enough(found):
            break
    return found


# --- wires ---

WIRES: dict[str, dict[str, Any]] = {
    "transfers of one byte": {"split": 1},
    "transfers of 1,000 bytes": {"split": 1000},
    "aborted deliveries": {"abort_every": 3},
    "aborted deliveries in pieces": {"abort_every": 2, "split": 7},
    "tags of 4 bytes": {"tag_bytes": 4},
    "tags of 16 bytes": {"tag_bytes": 16},
    "tags of 32 bytes, not settled": {"tag_bytes": 32, "unsettled": True},
    "not settled, in pieces": {"tag_bytes": 4, "unsettled": True, "split": 100},
}


@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES.keys())
async def test_every_form_of_event_comes_over_every_wire(hub: AmqpHub, peer: PeerProcess, wire: dict[str, Any]) -> None:
    peer.call("wire", **wire)
    start = 4 if wire.get("split") == 1 else 0  # the first four are large
    count = len(mixed.FORMS) - start
    peer.call("produce_mixed", hub="orders", partition="0", count=count, start=start)
    source = await hub.open("0", -1, 1, 50)
    found = (await receive(source, count)).columns.to_pydict()
    assert found["sequence_number"] == list(range(count))
    assert found["offset"] == [offset_of(number) for number in range(count)]
    assert [time.timestamp() * 1000 for time in found["enqueued_time"]] == [time_of(number) for number in range(count)]
    for name, expected in mixed.expected(count, start).items():
        assert found[name] == expected, name
    await source.close()


async def test_drained_credit_is_granted_again(hub: AmqpHub, peer: PeerProcess) -> None:
    source = await hub.open("0", -1, 1, 100)
    for number in range(5):
        peer.produce(section(codec.DATA, b"%d" % number), drain=True)
        assert (await rows(source, 1)).bodies == [b"%d" % number]
    await source.close()


async def test_a_late_attach_is_waited_for(hub: AmqpHub, peer: PeerProcess) -> None:
    peer.call("wire", late_seconds=0.5)
    peer.produce(GOOD)
    source = await hub.open("0", -1, 1, 100)
    assert (await rows(source, 1)).bodies == [b"good"]
    await source.close()


@pytest.mark.parametrize("size", [1_000_000, 3_000_000])
async def test_large_events_in_small_frames(hub: AmqpHub, peer: PeerProcess, size: int) -> None:
    peer.produce(*(section(codec.DATA, b"%d" % number * size) for number in range(5)))
    source = await hub.open("0", -1, 1, 100)
    assert [len(body) for body in (await rows(source, 5)).bodies] == [size] * 5
    await source.close()


async def test_positions_are_located(hub: AmqpHub, peer: PeerProcess) -> None:
    def at(number: int) -> Position:
        return Position(
            type=PositionType.ENQUEUED_TIME, enqueued_time=datetime.fromtimestamp(time_of(number) / 1000, UTC)
        )

    peer.produce(*[GOOD] * 10)
    found = [await hub.locate("0", at(number), epoch) for epoch, number in enumerate((-5, 0, 4, 9, 9 + SECOND))]
    assert found == [0, 0, 4, 9, 10]
    behind = Position(type=PositionType.OFFSET, offset=offset_of(4))
    assert await hub.locate("0", behind, 10) == 5


async def test_properties_come_after_the_service_detached_its_links(hub: AmqpHub, peer: PeerProcess) -> None:
    assert (await hub.describe()).partition_ids == ("0", "1")
    for _ in range(3):
        peer.call("detach_service", name="$management")
        assert (await hub.partition("0")).last == -1


# --- findings ---

LEGAL: dict[str, bytes] = {
    "lists nested 101 deep": codec.described(codec.VALUE, codec.nested(101)),
    "1,025 booleans without bytes": codec.described(codec.VALUE, codec.booleans(1025)),
}


@pytest.mark.parametrize("odd", LEGAL.values(), ids=LEGAL.keys())
async def test_a_legal_event_never_holds_back_others(hub: AmqpHub, peer: PeerProcess, odd: bytes) -> None:
    peer.produce(section(codec.DATA, b"before"), odd, section(codec.DATA, b"behind"))
    source = await hub.open("0", -1, 1, 100)
    found = await bodies(source, enough=lambda some: b"before" in some and b"behind" in some)
    assert b"before" in found and b"behind" in found
    await source.close()


async def test_sections_that_are_described_by_name_are_read(hub: AmqpHub, peer: PeerProcess) -> None:
    peer.produce(
        section("amqp:data:binary", b"data"),
        section("amqp:amqp-value:*", "value"),
        section("amqp:amqp-sequence:list", [1]),
        section("amqp:properties:list", ["id"]) + section("amqp:application-properties:map", {"name": "text"}) + GOOD,
    )
    source = await hub.open("0", -1, 1, 100)
    found = await rows(source, 4)
    assert found.bodies == [b"data", b"value", b"[[1]]", b"good"]
    assert found.message_ids == [None, None, None, "id"]
    assert (found.properties.keys, found.properties.values) == (["name"], ["text"])
    await source.close()


UNKNOWN: dict[str, bytes] = {
    "a section of another number": section(0x79, b"lost") + GOOD,
    "a section of another name": section("com.example:section", b"lost") + GOOD,
    "a 14th field of the properties": section(codec.PROPERTIES, [None] * 13 + ["lost"]) + GOOD,
}


@pytest.mark.parametrize("odd", UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_nothing_of_an_event_is_ignored(hub: AmqpHub, peer: PeerProcess, odd: bytes) -> None:
    peer.produce(GOOD, odd, GOOD)
    source = await hub.open("0", -1, 1, 100)
    found = []
    for _ in range(TURNS):
        found.append(await source.receive(300, 0.1))
        if sum(map(len, found)) >= 3:
            break
    taken = [row for batch in found for row in batch.columns.to_pylist() if row["sequence_number"] == 1]
    assert not taken or "lost" in repr(taken)  # a dead letter, or a value of the event
    await source.close()


async def test_a_token_is_renewed_after_the_service_detached_its_link(
    hub: AmqpHub, peer: PeerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cbs, "_SOON_SECONDS", 0.05, raising=False)
    made = asyncio.Semaphore(0)

    async def make(now: float) -> cbs.Token:
        made.release()
        return cbs.Token("jwt", "text", now + 0.2)

    connection = Connection("localhost")
    await connection.connect(Endpoint("localhost", peer.port, tls=False), HANG_SECONDS)
    claims = cbs.Claims(connection, "sb://localhost/orders", make)
    try:
        await claims.claim()
        peer.call("detach_service", name="$cbs")
        before = peer.call("seen")["tokens"]
        async with asyncio.timeout(HANG_SECONDS):
            for _ in range(6):  # the first token, and attempts to renew it
                await made.acquire()
        assert peer.call("seen")["tokens"] > before
    finally:
        await claims.close()
        await connection.close()


async def test_a_connection_on_which_links_end_at_once_is_left(hub: AmqpHub, peer: PeerProcess) -> None:
    source = await hub.open("0", -1, 1, 100)
    peer.call("expire")
    peer.produce(GOOD)
    for epoch in range(2, 8):  # as the pump does
        try:
            found = await bodies(source)
            break
        except SourceError:
            await source.close()
            source = await hub.open("0", -1, epoch, 100)
    else:
        found = []
    assert found == [b"good"]
    await source.close()


async def test_the_handle_of_a_late_attach_is_used_again(hub: AmqpHub, peer: PeerProcess) -> None:
    peer.call("wire", late_seconds=1.0)
    stays = await hub.open("1", -1, 1, 100)
    for epoch in range(4):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await hub.open("0", -1, epoch, 100)
    last = await hub.open("0", -1, 10, 100)  # the broker answers in order: all others are answered
    await last.close()
    again = await hub.open("0", -1, 11, 100)
    (handles,) = peer.call("seen")["handles"]
    assert len(handles) == 2 + 1 + 4 + 2  # two of $cbs
    assert handles[-1] == handles[3]
    await again.close()
    await stays.close()


async def test_a_drain_that_crosses_our_flow_does_not_stall_the_link(hub: AmqpHub, peer: PeerProcess) -> None:
    source = await hub.open("0", -1, 1, 1000)
    peer.produce(*[GOOD] * 3000)  # so the credit grows to the number of small events
    assert len((await rows(source, 3000)).bodies) == 3000
    large = section(codec.DATA, b"x" * (LINK_BYTES // 20))
    peer.produce(*[large] * 30, drain=True)  # so our credit falls, while the broker uses up the former one
    assert len((await rows(source, 30)).bodies) == 30
    peer.produce(*[GOOD] * 5)
    assert len(await bodies(source, enough=lambda some: len(some) >= 5)) == 5
    await source.close()


async def test_requests_wait_for_the_session_window_of_the_service(hub: AmqpHub, peer: PeerProcess) -> None:
    peer.call("wire", window=2)
    peer.produce(GOOD)
    found = await asyncio.gather(*(hub.partition(str(number % 2)) for number in range(40)))
    assert [info.last for info in found] == [0, -1] * 20


async def test_a_null_body_differs_from_an_empty_one(hub: AmqpHub, peer: PeerProcess) -> None:
    peer.produce(section(codec.DATA, b""), b"", section(codec.VALUE, None))
    source = await hub.open("0", -1, 1, 100)
    found: list[bytes | None] = list((await rows(source, 3)).bodies)
    assert found == [b"", None, None]
    await source.close()
