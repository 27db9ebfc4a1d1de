"""Asking hosts over HTTP: good, slow, wrong and huge answers."""

import asyncio
import gzip
import itertools
import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from eventconsumer_operator.resource import hosts
from eventconsumer_operator.resource.hosts import (
    BACKOFF_MAX_SECONDS,
    BACKOFF_SECONDS,
    HELD_MAX_BYTES,
    RESOURCE_MAX_BYTES,
    HttpHosts,
)
from tests.support.azurite import free_port
from tests.unit.operator.worlds import fleet, report

GOOD = report(fleet=fleet())


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[int]:
    """A port on which hosts at all loopback addresses give this answer."""
    application = web.Application()
    application.router.add_get("/status", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    yield port
    await runner.cleanup()


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

    async with serving(answer) as port:
        yield port


async def test_good_answers_are_read_and_all_others_are_absent(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "TIMEOUT", aiohttp.ClientTimeout(total=0.3))
    addresses = {f"host-{number}": f"127.0.0.{number}" for number in range(1, 7)}
    async with hosts.host_session() as session:
        async with asyncio.timeout(10):  # the hanging one costs its own time limit, once
            reports = await HttpHosts(session, port).reports(addresses)
    assert reports == {"host-1": GOOD}


async def test_a_host_that_is_not_there_is_absent() -> None:
    async with hosts.host_session() as session:
        assert await HttpHosts(session, free_port()).reports({"a": "127.0.0.1", "b": "::1"}) == {}
        assert await HttpHosts(session, 1).reports({}) == {}


def telling(**fields: Any) -> bytes:
    """A good report with other values in some fields of the leading host's measurements."""
    return json.dumps(json.loads(GOOD.model_dump_json(by_alias=True, exclude={"fleet"})) | fields).encode()


def leading(**fields: Any) -> bytes:
    """A good report of a leading host with other values in some fields of its measurements."""
    return telling(fleet=json.loads(fleet().model_dump_json(by_alias=True)) | fields)


def owner(number: int) -> str:
    return f"shop/orders/orders-host-{number}.00000000-0000-0000-0000-{number:012d}"


MANY = 62_000
HOSTILE = {
    "62,000 invented owners": leading(owners={str(number): owner(number) for number in range(MANY)}),
    "62,000 lags": leading(lags={str(number): {} for number in range(MANY)}),
    "62,000 gaps": leading(gaps=dict.fromkeys(map(str, range(MANY)), "")),
    "400,000 wrong partitions": telling(partitions=[1] * 400_000),
    "62,000 wrong owners": leading(owners=dict.fromkeys(map(str, range(MANY)), 1)),
    "62,000 problems": telling(problems=[{"field": "f", "reason": str(n), "message": ""} for n in range(MANY)]),
    "long partition ids": leading(lags={f"{number:0>4000}": {} for number in range(200)}),
    "a negative number": leading(files=-1),
    "a number above 64 bits": leading(events=1 << 64),
    "infinity": leading(lagSeconds=float("inf")),
    "not a number": leading(pendingSeconds=float("nan")),
    "a time without a zone": leading(hubCreatedAt="2026-01-01T00:00:00"),
    "a hub of a million partitions": telling(partitionCount=1_000_000),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_report_beyond_the_limits_is_refused_with_little_memory_and_one_entry_in_the_log(body: bytes) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with serving(answer) as port, hosts.host_session() as session:
        found = HttpHosts(session, port)
        tracemalloc.start()
        try:
            with capture_logs() as entries:
                for _ in range(3):
                    assert await found.reports({"host": "127.0.0.1"}) == {}
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert [entry["log_level"] for entry in entries] == ["warning"]
    assert peak < 16 * 1024 * 1024


async def test_a_compressed_report_is_not_decompressed() -> None:
    body = gzip.compress(leading(chain="x" * 900_000))
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.headers["Accept-Encoding"])
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    async with serving(answer) as port, hosts.host_session() as session:
        assert await HttpHosts(session, port).reports({"host": "127.0.0.1"}) == {}
    assert asked == ["identity"]


async def test_long_texts_of_a_host_are_cut() -> None:
    problem = {"field": "f" * 10_000, "reason": "r" * 10_000, "message": "m" * 100_000}

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=telling(problems=[problem]))

    async with serving(answer) as port, hosts.host_session() as session:
        (report,) = (await HttpHosts(session, port).reports({"host": "127.0.0.1"})).values()
    (found,) = report.problems
    assert (len(found.field), len(found.reason), len(found.message)) == (256, 256, 4096)


async def test_the_hosts_of_a_resource_have_a_budget_and_its_end_leaves_room_for_others() -> None:
    large = telling(fromTheFuture=["x" * 1000] * 900)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=large)

    async with serving(answer) as port, hosts.host_session() as session:
        found = HttpHosts(session, port)
        many = {f"host-{number}": f"127.0.0.{number}" for number in range(1, 31)}
        for _ in range(3):
            assert 1 <= len(await found.reports(many)) <= RESOURCE_MAX_BYTES // len(large)
        # Reports count as long as they are in memory.
        kept = [await found.reports({"host": "127.0.0.1"}) for _ in range(HELD_MAX_BYTES // len(large) + 5)]
        assert sum(map(len, kept)) == HELD_MAX_BYTES // len(large)
        kept.clear()
        assert len(await found.reports({"host": "127.0.0.1"})) == 1


async def test_the_largest_report_of_a_real_consumer_is_accepted() -> None:
    """1,024 partitions, which is the most that Event Hubs has, and the longest names that Kubernetes allows."""
    name = f"{'n' * 63}/{'c' * 47}/{'c' * 47}-host-1023.{'0' * 36}"
    most, time = 2**63 - 1, "2026-01-01T00:00:00.123456Z"
    ids = [str(number) for number in range(1024)]
    numbers = dict.fromkeys(("epoch", "nextSequenceNumber", "sequenceNumber", "events", "files"), most)
    body = telling(
        owner=name,
        partitions=[{"id": each, "enqueuedTime": time, "retrievedTime": time} | numbers for each in ids],
        fleet=json.loads(fleet().model_dump_json(by_alias=True))
        | {"owners": dict.fromkeys(ids, name), "gaps": dict.fromkeys(ids, f"{most}-{most}")}
        | {"lags": {each: {"events": most, "seconds": 31536000.5} for each in ids}, "partitionCount": 1024},
    )

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with serving(answer) as port, hosts.host_session() as session:
        (report,) = (await HttpHosts(session, port).reports({"host": "127.0.0.1"})).values()
    assert report.fleet is not None
    assert set(report.fleet.owners.values()) == {name} and len(report.partitions) == 1024


@pytest.mark.slow
async def test_a_host_that_answers_badly_is_asked_later_and_later_until_it_answers_well() -> None:
    now, good, asked = [0.0], [False], [0.0]

    async def answer(request: web.Request) -> web.Response:
        if request.url.host == "127.0.0.1":
            return web.Response(text=GOOD.model_dump_json(by_alias=True))
        asked.append(now[0])
        return web.Response(text=GOOD.model_dump_json(by_alias=True) if good[0] else "{}")

    async with serving(answer) as port, hosts.host_session() as session:
        found = HttpHosts(session, port, lambda: now[0])
        both = {"good": "127.0.0.1", "bad": "127.0.0.2"}
        while now[0] < 3600:
            assert await found.reports(both) == {"good": GOOD}
            now[0] += BACKOFF_SECONDS
        pauses = [later - before for before, later in itertools.pairwise(asked[1:])]
        assert pauses[:4] == [BACKOFF_SECONDS * 2**number for number in range(4)]
        assert pauses == sorted(pauses) and pauses[-1] == BACKOFF_MAX_SECONDS
        assert await found.send({"bad": "127.0.0.2"}, b"{}", "signature") == {}, "nor is it sent a message"
        assert await found.reports({"bad": "127.0.0.3"}) == {} and asked[-1] == now[0], "another pod of this name is"
        good[0], now[0] = True, now[0] + BACKOFF_MAX_SECONDS
        for _ in range(2):
            assert await found.reports(both) == {"good": GOOD, "bad": GOOD}
