"""A connection and its links against a scripted peer, in memory and in virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from eventconsumer_host.amqp import connection as connections
from eventconsumer_host.amqp import frames as amqp
from eventconsumer_host.amqp import link as links
from eventconsumer_host.amqp import session
from eventconsumer_host.amqp.connection import Connection, Endpoint
from eventconsumer_host.amqp.frames import Terminus
from eventconsumer_host.amqp.link import Receiver
from eventconsumer_host.amqp.requests import Sender
from eventconsumer_host.amqp.wire import messages_of
from eventconsumer_host.errors import HubNotFound, HubUnreachable, LinkStolen, PositionRefused
from eventconsumer_host.source.budget import LINK_BYTES, Budget
from eventhubs_emulator.codec import encode
from eventhubs_emulator.framing import AMQP_HEADER, SASL_FRAME, SASL_HEADER, FrameReader, frame
from eventhubs_emulator.performatives import (
    AMQP,
    SASL,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    SaslMechanisms,
    SaslOutcome,
    Transfer,
    parse,
)
from eventhubs_emulator.values import Described, Symbol, UInt, ULong
from tests.support.fakes.virtual import virtual


class Pipe(asyncio.WriteTransport):
    """The client's side of a connection in memory."""

    def __init__(self, sent: asyncio.StreamReader) -> None:
        super().__init__()
        self._sent = sent

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._sent.feed_data(data)

    def close(self) -> None:
        self._sent.feed_eof()

    abort = close


class Server:
    """One client's peer: performatives in and out."""

    def __init__(self, wire: asyncio.BufferedProtocol) -> None:
        self._wire, self._reader = wire, asyncio.StreamReader()
        self._frames = FrameReader(1 << 20)
        self.heartbeats = 0
        wire.connection_made(Pipe(self._reader))

    def send(self, *performatives: Performative, payload: bytes = b"", channel: int = 7) -> None:
        self.raw(b"".join(frame(channel, one.encode() + payload) for one in performatives))

    def raw(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._arrive, data)

    def end(self) -> None:
        """Close the connection without a word."""
        asyncio.get_running_loop().call_soon(self._wire.connection_lost, None)

    def _arrive(self, data: bytes) -> None:
        while data:
            room = self._wire.get_buffer(-1)
            part, data = data[: len(room)], data[len(room) :]
            room[: len(part)] = part
            self._wire.buffer_updated(len(part))

    async def header(self) -> bytes:
        while (found := self._frames.header()) is None:
            await self._feed()
        return found

    async def next(self, known: dict[int, type[Performative]] = AMQP) -> Any:
        """The next performative that is no heartbeat."""
        while True:
            found = self._frames.next()
            if found is None:
                await self._feed()
            elif found.body:
                return parse(found.body, known)[0]
            else:
                self.heartbeats += 1

    async def _feed(self) -> None:
        data = await self._reader.read(65536)
        if not data:
            raise ConnectionError("the client is gone")
        self._frames.feed(data)

    async def greet(self, idle_ms: int = 0, handle_max: int = 255, window: int = 100) -> None:
        assert await self.header() == SASL_HEADER
        self.raw(SASL_HEADER + frame(0, SaslMechanisms(("ANONYMOUS",)).encode(), SASL_FRAME))
        assert (await self.next(SASL)).mechanism == "ANONYMOUS"
        self.raw(frame(0, SaslOutcome(0).encode(), SASL_FRAME))
        assert await self.header() == AMQP_HEADER
        self.raw(AMQP_HEADER)
        assert isinstance(await self.next(), Open)
        assert isinstance(await self.next(), Begin)
        self.send(Open("server", max_frame_size=65536, idle_time_out=idle_ms), Begin(0, 5, window, 100, handle_max))

    async def attach(self, handle: int = 9, count: int = 0) -> Attach:
        """Take an attach, under a handle of our own."""
        found: Attach = await self.next()
        self.answer(found, handle, count)
        return found

    def answer(self, found: Attach, handle: int = 9, count: int = 0) -> None:
        """Answer an attach."""
        ends = {"source": Described(ULong(0x28), ["a"]), "target": Described(ULong(0x29), ["b"])}
        self.send(Attach(found.name, handle, False, initial_delivery_count=count, **ends))

    async def credit(self) -> Flow:
        """The client's next flow for a link."""
        while not isinstance(found := await self.next(), Flow) or found.handle is None:
            pass
        return found


Script = Callable[[Server], Any]


class ConnectionWorld:
    """Connects to a scripted peer; the connection stays open when its script has ended."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    async def connect(self, script: Script, idle_seconds: float = 60, seconds: float = 5) -> Connection:
        loop = asyncio.get_running_loop()

        async def serve(server: Server) -> None:
            try:
                await script(server)
            except BaseException:
                server.end()
                raise

        async def connect(make: Callable[[], asyncio.BufferedProtocol], *_: Any, **__: Any) -> None:
            self.tasks.append(loop.create_task(serve(Server(make()))))

        loop.create_connection = connect  # type: ignore[assignment, method-assign]
        connection = Connection("localhost", idle_seconds)
        await connection.connect(Endpoint("localhost", 5672, tls=False), seconds)
        return connection


@pytest.fixture
def world() -> Iterator[ConnectionWorld]:
    found = ConnectionWorld()
    yield found
    for task in found.tasks:
        if not task.cancelled() and not isinstance(error := task.exception(), ConnectionError | None):
            raise error


def receiver(connection: Connection, **options: Any) -> Receiver:
    ends = Terminus("address", "selector")
    attach = partial(amqp.attach, receives=True, source=ends, target=ends, settle_mode=amqp.SETTLED)
    return Receiver(connection, 10, attach, **options)


def error(condition: str, text: str = "why") -> Described:
    return Described(ULong(0x1D), [Symbol(condition), text, None])


def event(number: int, *, settled: bool = True, more: bool = False, aborted: bool = False, handle: int = 9) -> Transfer:
    return Transfer(handle, number, b"tag", 0, settled, more, None, None, False, aborted, False)


@virtual
async def test_deliveries_in_parts_aborted_and_unsettled(world: ConnectionWorld) -> None:
    said: list[Any] = []

    async def script(server: Server) -> None:
        await server.greet()
        attach = await server.attach(count=0xFFFFFFFE)  # about to wrap
        assert (attach.role, attach.snd_settle_mode, attach.rcv_settle_mode) == (True, 1, 0)
        flow = await server.next()
        assert (flow.delivery_count, flow.link_credit, flow.handle) == (
            0xFFFFFFFE,
            1,
            attach.handle,
        )  # sizes are unknown
        server.send(event(0), payload=b"one")
        server.send(event(1, more=True), payload=b"tw")
        server.send(event(1), payload=b"o")
        server.send(event(2, more=True), payload=b"never")
        server.send(event(2, aborted=True))
        server.send(event(3, settled=False, more=True), payload=b"thr")
        server.send(event(3, settled=False), payload=b"ee")
        server.send(event(4), payload=b"four")
        server.send(Flow(0, 100, 0, 100, 9, 2, 0, echo=True))
        while len(said) < 2:
            found = await server.next()
            if isinstance(found, Disposition) or (isinstance(found, Flow) and found.delivery_count == 3):
                said.append(found)

    link = receiver(await world.connect(script))
    await link.attach()
    found: list[bytes] = []
    while len(found) < 4:
        found += messages_of(await link.take(5))
    assert found == [b"one", b"two", b"three", b"four"]
    assert link._held == 0
    await asyncio.gather(*world.tasks)
    disposition = next(one for one in said if isinstance(one, Disposition))
    assert (disposition.first, disposition.last, disposition.settled, disposition.role) == (3, 3, True, True)


@virtual
async def test_a_number_beyond_32_bits_ends_the_connection(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        await server.attach()
        fields = [UInt(9), ULong(1 << 32), b"t", UInt(0), False, False]
        server.raw(frame(7, encode(Described(ULong(0x14), fields)) + b"message"))

    link = receiver(await world.connect(script))
    await link.attach()
    with pytest.raises(HubUnreachable, match="invalid AMQP: field 1 of performative 0x14 is not a number of 32 bits"):
        await link.take(5)


@virtual
async def test_links_share_the_budget_of_waiting_bytes_until_they_end(world: ConnectionWorld) -> None:
    servers: list[Server] = []

    async def script(server: Server) -> None:
        servers.append(server)
        await server.greet()
        for handle in (9, 8):
            await server.attach(handle=handle)
            assert (await server.next()).link_credit == 1
        detach = await server.next()
        server.send(Detach(9, True))
        assert detach.handle == 0

    budget = Budget(lambda: LINK_BYTES)
    connection = await world.connect(script)
    first, second = (receiver(connection, budget=budget) for _ in range(2))
    await first.attach()
    assert budget.each == LINK_BYTES
    await second.attach()
    assert budget.each == LINK_BYTES // 2
    await first.detach()
    assert budget.each == LINK_BYTES
    servers[0].end()
    with pytest.raises(HubUnreachable):
        await second.take(5)
    budget.join("another")
    assert budget.each == LINK_BYTES  # it is the only one


@virtual
async def test_the_window_is_refreshed_before_it_is_used_up(
    world: ConnectionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connections, session):
        monkeypatch.setattr(module, "WINDOW", 100)
    flows: list[Flow] = []

    async def script(server: Server) -> None:
        await server.greet()
        await server.attach()
        first = await server.next()
        server.send(*(event(number, more=True) for number in range(50)))
        while not flows:
            found = await server.next()
            if found.handle is None:
                flows.append(found)
        assert first.incoming_window == 100

    link = receiver(await world.connect(script))
    await link.attach()
    await asyncio.gather(*world.tasks)
    assert (flows[0].next_incoming_id, flows[0].incoming_window) == (55, 100)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("amqp:link:stolen", LinkStolen),
        ("amqp:not-found", HubNotFound),
        ("amqp:link:detach-forced", HubUnreachable),
        ("amqp:link:redirect", HubUnreachable),
        ("amqp:resource-limit-exceeded", HubUnreachable),
        ("com.microsoft:argument-error", PositionRefused),
    ],
)
@virtual
async def test_a_link_that_is_refused_or_detached_has_the_error_of_its_condition(
    world: ConnectionWorld, condition: str, expected: type[Exception]
) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        refused = await server.next()
        server.send(Attach(refused.name, 3, False), Detach(3, True, error(condition)))
        assert isinstance(await server.next(), Detach)
        await server.attach()
        server.send(Detach(9, True, error(condition)))

    connection = await world.connect(script)
    with pytest.raises(expected, match="why"):
        await receiver(connection).attach()
    link = receiver(connection)
    await link.attach()
    with pytest.raises(expected, match="why"):
        await link.take(5)
    await link.detach()
    assert connection.error is None


@pytest.mark.parametrize(
    "end",
    [
        lambda server: server.send(Close(error("amqp:connection:forced"))),
        lambda server: server.send(Close(error("amqp:connection:redirect"))),
        lambda server: server.send(Close(error("amqp:resource-limit-exceeded"))),
        lambda server: server.send(End(error("amqp:session:window-violation"))),
        lambda server: server.raw(b"\xff" * 100),
        lambda server: server.send(event(1, handle=55)),  # no such link
        lambda server: server.send(Begin(0, 1, 1, 1)),
        lambda server: server.raw(frame(0, SaslOutcome(0).encode(), SASL_FRAME)),
        lambda server: server.end(),
    ],
)
@virtual
async def test_the_end_of_the_connection_ends_its_links(world: ConnectionWorld, end: Script) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        await server.attach(9)
        await server.next()
        await server.attach(10)
        end(server)

    connection = await world.connect(script)
    links = [receiver(connection), receiver(connection)]
    for link in links:
        await link.attach()
    for link in links:
        with pytest.raises(HubUnreachable):
            await link.take(5)
    with pytest.raises(HubUnreachable):
        await receiver(connection).attach()
    assert not connection.is_usable
    await connection.close()


@virtual
async def test_heartbeats_are_sent_at_half_of_the_peers_limit_and_silence_ends_the_connection(
    world: ConnectionWorld,
) -> None:
    servers: list[Server] = []

    async def script(server: Server) -> None:
        servers.append(server)
        await server.greet(idle_ms=20_000)
        await server.attach()
        while True:
            await server.next()

    link = receiver(await world.connect(script, idle_seconds=60))
    await link.attach()
    started = asyncio.get_running_loop().time()
    with pytest.raises(HubUnreachable, match=r"silent for 60 s"):
        await link.take(3600)
    assert 60 < asyncio.get_running_loop().time() - started <= 65
    assert servers[0].heartbeats >= 60 / 10 - 1


@pytest.mark.parametrize(
    "answer", [b"", b"AMQP\x00\x00\x09\x01", SASL_HEADER + frame(0, SaslOutcome(1).encode(), SASL_FRAME), b"\x00" * 8]
)
@virtual
async def test_a_handshake_that_fails_or_hangs_is_an_error_in_time(world: ConnectionWorld, answer: bytes) -> None:
    async def script(server: Server) -> None:
        await server.header()
        server.raw(answer)

    with pytest.raises(HubUnreachable):
        await world.connect(script, seconds=0.5)


@virtual
async def test_closing_sends_a_close_and_frees_handles(world: ConnectionWorld) -> None:
    said: list[str] = []

    async def script(server: Server) -> None:
        await server.greet(handle_max=0)
        for _ in range(2):
            await server.attach()
            while not isinstance(found := await server.next(), Detach):
                assert isinstance(found, Flow)
            server.send(Detach(9, True))
        assert isinstance(await server.next(), Close)
        said.append("close")
        server.send(Close())

    connection = await world.connect(script)
    for _ in range(2):
        link = receiver(connection)
        await link.attach()
        assert not connection.is_usable
        with pytest.raises(HubUnreachable, match="at most 1 links"):
            await receiver(connection).attach()
        await link.detach()
        await link.detach()
        assert connection.is_usable
    await connection.close()
    assert said == ["close"]


@virtual
async def test_few_events_wait_for_more_and_many_do_not(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        await server.attach()
        server.send(event(0), payload=b"0")
        await asyncio.sleep(1)
        server.send(event(1), payload=b"1")
        await asyncio.sleep(3)
        for number in range(2, 6):
            server.send(event(number), payload=b"%d" % number)
        await asyncio.sleep(5)
        server.send(event(6), payload=b"6")

    clock = asyncio.get_running_loop().time
    link = receiver(await world.connect(script), linger=30)
    await link.attach()
    began = clock()
    for waited, expected in ((0, [b"0"]), (4, [b"1", b"2", b"3", b"4", b"5"]), (34, [b"6"])):
        assert messages_of(await link.take(3600)) == expected
        assert clock() - began == pytest.approx(waited)  # none was taken before; half of the credit is used; `linger`


@virtual
async def test_a_reader_that_is_about_to_leave_does_not_wait(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        await server.attach()
        server.send(event(0), payload=b"0")

    link = receiver(await world.connect(script))
    await link.attach()
    assert messages_of(await link.take(30)) == [b"0"]
    clock = asyncio.get_running_loop().time
    began = clock()
    asyncio.get_running_loop().call_later(5, link.hurry)
    assert await link.take(3600) == await link.take(3600) == []
    assert clock() - began == pytest.approx(5)


# --- credit ---


@virtual
async def test_credit_is_withdrawn_while_a_large_event_arrives(world: ConnectionWorld) -> None:
    credits: list[int] = []

    async def script(server: Server) -> None:
        await server.greet()
        await server.attach()
        assert (await server.credit()).link_credit == 1
        server.send(event(0), payload=b"x")  # small, as all events seem now
        credits.append((await server.credit()).link_credit)
        server.send(event(1, more=True), payload=bytes(200))
        while credits[-1]:
            flow = await server.credit()
            credits.append(flow.link_credit)
        assert flow.delivery_count == 2  # the event that arrives counts
        server.send(event(1), payload=b"end")

    link = receiver(await world.connect(script), budget=Budget(lambda: 100))
    await link.attach()
    await asyncio.gather(*world.tasks)
    assert max(credits) > 1
    found: list[bytes] = []
    while len(found) < 2:
        found += messages_of(await link.take(5))
    assert found == [b"x", bytes(200) + b"end"]


@virtual
async def test_a_reader_waits_while_a_large_event_arrives(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        await server.attach()
        server.send(event(0, more=True), payload=bytes(200))
        await asyncio.sleep(3)
        server.send(event(0), payload=b"end")

    link = receiver(await world.connect(script), budget=Budget(lambda: 100))
    await link.attach()
    clock = asyncio.get_running_loop().time
    began = clock()
    assert await link.take(1) == []
    assert clock() - began == pytest.approx(1)
    assert messages_of(await link.take(5)) == [bytes(200) + b"end"]


@virtual
async def test_a_link_with_too_many_waiting_bytes_ends_alone(
    world: ConnectionWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "LIMIT_BYTES", 1000)
    detached: list[int] = []

    async def script(server: Server) -> None:
        await server.greet()
        await server.attach(9)
        await server.attach(10)
        server.send(event(0), payload=bytes(600))
        server.send(event(1, more=True), payload=bytes(600))
        while not isinstance(found := await server.next(), Detach):
            pass
        detached.append(found.handle)
        server.send(event(1), payload=b"late")  # it was on its way
        server.send(Detach(9, True), event(2, handle=10), payload=b"y")

    connection = await world.connect(script)
    too_much, other = receiver(connection), receiver(connection)
    await asyncio.gather(too_much.attach(), other.attach())
    await asyncio.gather(*world.tasks)
    with pytest.raises(HubUnreachable, match="1000 bytes"):
        await too_much.take(5)
    await too_much.detach()
    assert detached == [0]
    assert messages_of(await other.take(5)) == [b"y"]
    assert connection.error is None


@virtual
async def test_a_drain_that_crosses_our_flow_does_not_stall_the_link(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        await server.attach()
        server.send(event(0), payload=b"0")
        while (flow := await server.credit()).link_credit < 8:
            pass
        # It gives up more credit than the client has given last: a flow with less is still on its way.
        drained = flow.delivery_count + flow.link_credit + 5
        server.send(Flow(0, 100, 0, 100, 9, drained, 0, drain=True))
        while (flow := await server.credit()).delivery_count != drained or not flow.link_credit:
            pass
        server.send(event(1), payload=b"1")

    link = receiver(await world.connect(script))
    await link.attach()
    found: list[bytes] = []
    async with asyncio.timeout(30):
        while len(found) < 2:
            found += messages_of(await link.take(5))
    assert found == [b"0", b"1"]


# --- handles, windows and outcomes ---


@virtual
async def test_an_attach_that_is_answered_late_leaves_its_handle_free(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet(handle_max=0)
        late = await server.next()
        assert isinstance(await server.next(), Detach)
        server.answer(late)
        server.send(Detach(9, True))
        await server.attach()
        server.send(event(0), payload=b"x")

    connection = await world.connect(script, idle_seconds=600)
    clock = asyncio.get_running_loop().time
    began = clock()
    with pytest.raises(HubUnreachable, match=r"within 60 s"):
        await receiver(connection).attach()
    assert clock() - began >= 60
    link = receiver(connection)
    await link.attach()
    assert messages_of(await link.take(5)) == [b"x"]


@virtual
async def test_an_attach_that_was_not_requested_ends_the_connection(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        found = await server.next()
        server.answer(Attach("another", 0, True))
        server.answer(found)

    connection = await world.connect(script)
    with pytest.raises(HubUnreachable, match="not requested"):
        await receiver(connection).attach()


async def sender(connection: connections.Connection, address: str = "$management") -> Sender:
    found = Sender(connection, address)
    await found.attach()
    return found


@virtual
async def test_requests_wait_for_the_window_of_the_peer(world: ConnectionWorld) -> None:
    received: list[int] = []

    async def script(server: Server) -> None:
        await server.greet(window=1)
        await server.attach()
        server.send(Flow(0, 1, 0, 100, 9, 0, 10))
        received.append((await server.next()).delivery_id)
        await asyncio.sleep(3)
        server.send(Flow(1, 0, 0, 100))  # still closed
        await asyncio.sleep(3)
        server.send(Flow(1, 1, 0, 100))
        received.append((await server.next()).delivery_id)
        server.send(Flow(1, 0, 0, 100))  # a window that shrinks: one transfer is on its way
        await asyncio.sleep(3)
        server.send(Flow(2, 5, 0, 100))
        received.append((await server.next()).delivery_id)

    link = await sender(await world.connect(script))
    clock = asyncio.get_running_loop().time
    began = clock()
    await asyncio.gather(*(link.send(b"request") for _ in range(3)))
    await asyncio.gather(*world.tasks)
    assert received == [0, 1, 2]
    assert clock() - began == pytest.approx(9)


@virtual
async def test_a_rejection_of_several_messages_reaches_each_of_them(world: ConnectionWorld) -> None:
    async def script(server: Server) -> None:
        await server.greet()
        for handle in (8, 9):
            await server.attach(handle)
            server.send(Flow(0, 100, 0, 100, handle, 0, 10))
        for _ in range(2):
            assert isinstance(await server.next(), Transfer)
        server.send(Disposition(True, 0, 1, True, Described(ULong(0x25), [error("amqp:not-allowed")])))

    connection = await world.connect(script)
    senders = [await sender(connection) for _ in range(2)]
    for one in senders:
        await one.send(b"request")
    for one in senders:
        with pytest.raises(HubUnreachable, match="rejects a request"):
            async with asyncio.timeout(5):
                await one.refused
