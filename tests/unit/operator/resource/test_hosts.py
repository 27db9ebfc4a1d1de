"""Asking hosts over HTTP: good, slow, wrong and huge answers."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from eventconsumer_operator.resource import hosts
from eventconsumer_operator.resource.hosts import HttpHosts
from tests.support.azurite import free_port
from tests.unit.operator.worlds import fleet, report

GOOD = report(fleet=fleet())


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Hosts on loopback addresses: each answers in its own way."""

    async def answer(request: web.Request) -> web.StreamResponse:
        match request.url.host:
            case "127.0.0.2":
                return web.Response(text='{"owner": 1}')
            case "127.0.0.3":
                return web.Response(status=503)
            case "127.0.0.4":
                return web.Response(body=b" " * (5 * 1024 * 1024))
            case "127.0.0.5":
                await asyncio.sleep(30)
            case "127.0.0.6":
                raise web.HTTPFound("http://127.0.0.1/elsewhere")
        future = GOOD.model_dump_json(by_alias=True).replace("{", '{"fromTheFuture": 1,', 1)
        return web.Response(text=future)

    application = web.Application()
    application.router.add_get("/status", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    yield port
    await runner.cleanup()


async def test_good_answers_are_read_and_all_others_are_absent(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "TIMEOUT", aiohttp.ClientTimeout(total=0.3))
    addresses = {f"host-{number}": f"127.0.0.{number}" for number in range(1, 7)}
    async with aiohttp.ClientSession() as session:
        async with asyncio.timeout(10):  # the hanging one costs its own time limit, once
            reports = await HttpHosts(session, port).reports(addresses)
    assert reports == {"host-1": GOOD}


async def test_a_host_that_is_not_there_is_absent() -> None:
    async with aiohttp.ClientSession() as session:
        assert await HttpHosts(session, free_port()).reports({"a": "127.0.0.1", "b": "::1"}) == {}
        assert await HttpHosts(session, 1).reports({}) == {}
