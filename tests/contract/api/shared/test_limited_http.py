"""HTTP servers and clients within limits, on real sockets."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from eventconsumer_api.shared.connections import CONNECTIONS, FRESH_SECONDS, HEADERS, LINE_BYTES, REQUEST_BYTES, Fresh
from eventconsumer_api.shared.limited_http import LimitedRunner, limited_session
from tests.support.waiting import HANG_SECONDS

HALF = b"GET /small HTTP/1.1\r\nHost: x\r\n"
WHOLE = HALF + b"\r\n"
LARGE = 4 * 1024 * 1024  # more than the kernel's buffers of a connection


class Server:
    """A server on a free port, and its clients."""

    def __init__(self, runner: LimitedRunner, port: int, stack: contextlib.ExitStack) -> None:
        self.runner = runner
        self.port = port
        self._stack = stack

    async def connect(self, sent: bytes = b"", address: str = "127.0.0.1") -> socket.socket:
        """A connection from an address, over which something was sent."""
        made = self._stack.enter_context(socket.socket())
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.setblocking(False)
        made.bind((address, 0))
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, ("127.0.0.1", self.port))
        await loop.sock_sendall(made, sent)
        return made


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async def small(_: web.Request) -> web.Response:
        return web.Response(text="small")

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=b" " * LARGE)

    application = web.Application()
    application.add_routes([web.get("/small", small), web.get("/large", large)])
    runner = LimitedRunner(application)
    port = await runner.listen(0)
    with contextlib.ExitStack() as stack:
        yield Server(runner, port, stack)
    await runner.cleanup()


async def answer(connection: socket.socket) -> bytes:
    """What comes next; nothing: it is closed."""
    async with asyncio.timeout(HANG_SECONDS):
        try:
            return await asyncio.get_running_loop().sock_recv(connection, 65536)
        except ConnectionError:
            return b""


async def test_a_crowd_from_one_address_loses_its_own_connections(server: Server) -> None:
    loop = asyncio.get_running_loop()
    other = await server.connect(HALF)
    crowd = [await server.connect(HALF, "127.0.0.2") for _ in range(CONNECTIONS + 3)]
    assert [await answer(each) for each in crowd[:4]] == [b""] * 4, "those that wait longest"
    for each in (other, crowd[-1], crowd[4]):
        await loop.sock_sendall(each, b"\r\n")
        assert (await answer(each)).endswith(b"small")
    newest = await server.connect(WHOLE, "127.0.0.3")
    assert (await answer(newest)).endswith(b"small")
    assert await answer(crowd[5]) == b"", "the one that was answered is not the one that waits longest"


async def test_an_idle_connection_is_used_again_and_no_other_stays_longer_than_its_time(server: Server) -> None:
    again = await server.connect(WHOLE)
    for _ in range(3):
        assert (await answer(again)).endswith(b"small")
        await asyncio.get_running_loop().sock_sendall(again, WHOLE)
    assert (await answer(again)).endswith(b"small")
    server.runner.connections.seconds = 0.5
    unread = await server.connect(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    waiting = [await server.connect(sent) for sent in (b"", b"GET", HALF, WHOLE)]
    assert (await answer(waiting[3])).endswith(b"small")
    assert [await answer(each) for each in waiting] == [b""] * 4
    await asyncio.get_running_loop().create_task(asyncio.sleep(0.5))
    got = 0
    while part := await answer(unread):
        got += len(part)
    assert 0 < got < LARGE, "the rest was dropped"


@pytest.mark.parametrize(
    "sent",
    [
        HALF + b"".join(b"h%d: x\r\n" % number for number in range(HEADERS + 1)) + b"\r\n",
        HALF + b"h: " + b"x" * (LINE_BYTES + 10) + b"\r\n\r\n",
        b"GET /small?" + b"x" * LINE_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"not HTTP\r\n\r\n",
    ],
    ids=["too many headers", "a long header", "a long line", "no HTTP"],
)
async def test_a_bad_request_is_refused_without_an_entry_in_the_log(
    server: Server, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "aiohttp.server"):
        connection = await server.connect(sent)
        assert (await answer(connection)).startswith(b"HTTP/1.0 400 ")
    assert not caplog.records


async def test_an_error_of_ours_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_: web.Request) -> web.Response:
        raise RuntimeError("broken")

    application = web.Application()
    application.add_routes([web.get("/small", broken)])
    runner = LimitedRunner(application)
    with contextlib.ExitStack() as stack:
        connection = await Server(runner, await runner.listen(0), stack).connect(WHOLE)
        assert (await answer(connection)).startswith(b"HTTP/1.1 500 ")
    await runner.cleanup()
    assert [str(record.exc_info and record.exc_info[1]) for record in caplog.records] == ["broken"]


async def test_a_request_has_a_limited_number_of_bytes(server: Server) -> None:
    line = b"h: " + b"x" * (LINE_BYTES // 2) + b"\r\n"
    connection = await server.connect(HALF)
    with contextlib.suppress(ConnectionError):
        for _ in range(2 * REQUEST_BYTES // len(line)):  # fewer headers than allowed
            await asyncio.get_running_loop().sock_sendall(connection, line)
            await asyncio.sleep(0)
    assert await answer(connection) == b""


async def test_it_says_that_a_port_is_taken() -> None:
    runner = LimitedRunner(web.Application())
    with socket.create_server(("", 0)) as taken, pytest.raises(OSError, match="in use"):
        await runner.listen(taken.getsockname()[1])
    await runner.cleanup()


async def test_a_session_talks_to_a_good_server(server: Server) -> None:
    timeout = aiohttp.ClientTimeout(total=HANG_SECONDS)
    async with limited_session(timeout, 2 * LARGE) as session:
        for path, size in (("small", 5), ("large", LARGE), ("small", 5)):
            async with session.get(f"http://127.0.0.1:{server.port}/{path}") as response:
                assert len(await response.read()) == size


def test_many_requests_make_one_answer_a_second() -> None:
    times = [0.0]
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"%d" % len(made))
        return made[-1]

    fresh = Fresh(make, lambda: times[0])
    assert [fresh.get(), fresh.get()] == [b"0", b"0"]
    times[0] += FRESH_SECONDS
    assert [fresh.get(), fresh.get()] == [b"1", b"1"]
