"""Messages to hosts over HTTP: a host that refuses, hangs or is away delays no other host."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from eventconsumer_api.wire.fleet import FLEET_PATH, FLEET_SIGNATURE_HEADER
from eventconsumer_api.wire.host_report import HostReport, HostState
from eventconsumer_operator.resource import hosts
from eventconsumer_operator.resource.hosts import HttpHosts
from tests.support.azurite import free_port

REPORT = HostReport(owner="host", state=HostState.RUNNING)


async def test_messages_go_to_all_hosts_at_once_and_one_that_hangs_delays_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "TIMEOUT", aiohttp.ClientTimeout(total=0.3))
    bodies: list[tuple[str, bytes, str]] = []
    end = asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        host = str(request.url.host)
        if host == "127.0.0.3":
            await end.wait()
        bodies.append((host, await request.read(), request.headers[FLEET_SIGNATURE_HEADER]))
        if request.headers.get("Prefer") == "return=representation" and host != "127.0.0.4":  # an older host
            return web.Response(text=REPORT.model_dump_json(by_alias=True))
        return web.Response(status=403 if host == "127.0.0.2" else 204, text="no\n")

    application = web.Application()
    application.router.add_post(FLEET_PATH, take)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    addresses = {f"orders-host-{number}": f"127.0.0.{number}" for number in range(1, 5)} | {"orders-host-6": "::1"}
    try:
        async with hosts.host_session() as session:
            # Returns although one host never answers: each has a time limit of its own.
            sender = HttpHosts(session, port)
            assert await sender.send(addresses, json.dumps({}).encode(), "signature") == {}
            assert {host for host, _, _ in bodies} == {"127.0.0.1", "127.0.0.2", "127.0.0.4"}
            found = await sender.send(addresses, b"{}", "signature", with_reports=True)
        assert found == {"orders-host-1": REPORT, "orders-host-2": REPORT}
        assert {(body, signature) for _, body, signature in bodies} == {(b"{}", "signature")}
    finally:
        end.set()
        await runner.cleanup()
