"""The status page over HTTP: what is served, with which headers, and what is not."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from eventconsumer_operator.page.model import ConsumerDetail, ConsumerList
from tests.contract.operator.conftest import Cluster
from tests.contract.operator.pageworld import BLOCKED, KEY, PARTITIONS, PageServer, filled_book, serving
from tests.contract.operator.test_operator import SPEC, Operator
from tests.support.azurite import free_port
from tests.support.fakes.kubernetes import event_consumer
from tests.support.waiting import HANG_SECONDS


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with serving(filled_book()) as running:
        yield running


async def ask(
    server: PageServer, path: str, method: str = "GET", **headers: str
) -> tuple[aiohttp.ClientResponse, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, server.url + path, headers=headers, allow_redirects=False) as response,
    ):
        return response, await response.read()


async def test_the_list_and_one_consumer_follow_the_models(server: PageServer) -> None:
    response, body = await ask(server, "api/consumers")
    assert (response.status, response.content_type) == (200, "application/json")
    found = ConsumerList.model_validate_json(body)
    assert [(each.name, each.severity) for each in found.consumers] == [("orders", "notice"), ("payments", "problem")]
    response, body = await ask(server, f"api/consumers/{KEY}")
    detail = ConsumerDetail.model_validate_json(body)
    assert detail.summary == found.consumers[0]
    assert len(detail.partitions) == PARTITIONS
    assert all(len(each.events) == len(each.seconds) == detail.timeline.slots for each in detail.partitions)
    assert [each.number for each in detail.batches] == [5, 4, 3, 2, 1]
    assert {move.source for move in detail.moves} >= {"", "orders-host-0"}
    written = json.loads(body)
    assert {"observedAt", "severity"} <= written["summary"].keys(), "names are as in the resource's status"


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["orders", "payments"]),
        ("?sort=lag", ["orders", "payments"]),
        ("?sort=state", ["payments", "orders"]),
        ("?state=notice", ["orders"]),
        ("?search=SHOP/P", ["payments"]),
        ("?search=nothing", []),
        ("?limit=1&page=2", ["payments"]),
        ("?limit=1&page=99", ["payments"]),
    ],
)
async def test_a_query_chooses_consumers(server: PageServer, query: str, names: list[str]) -> None:
    response, body = await ask(server, f"api/consumers{query}")
    found = ConsumerList.model_validate_json(body)
    assert response.status == 200 and [each.name for each in found.consumers] == names
    assert found.total == 2 and found.states == {"problem": 1, "notice": 1, "ok": 0}


@pytest.mark.parametrize("query", ["sort=size", "state=True", "page=0", "page=x", "limit=1001", f"search={'x' * 101}"])
async def test_a_wrong_query_is_refused_with_the_cause(server: PageServer, query: str) -> None:
    response, body = await ask(server, f"api/consumers?{query}")
    assert response.status == 400
    assert json.loads(body)["error"].startswith(f"{query.partition('=')[0]}: ")


async def test_an_unchanged_answer_is_not_sent_again(server: PageServer) -> None:
    for path in ("api/consumers", f"api/consumers/{KEY}", "", "page.js", "page.css", "icon.svg"):
        response, body = await ask(server, path)
        assert response.status == 200 and body
        tag = response.headers["ETag"]
        again, nothing = await ask(server, path, **{"If-None-Match": tag})
        assert (again.status, nothing, again.headers["ETag"]) == (304, b"", tag)
        other, body_again = await ask(server, path, **{"If-None-Match": 'W/"other"'})
        assert (other.status, body_again) == (200, body)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("", 200),
        ("page.js", 200),
        ("api/consumers", 200),
        (f"api/consumers/{BLOCKED}", 200),
        ("api/consumers/shop/none", 404),
        ("none", 404),
    ],
)
async def test_every_answer_forbids_scripts_of_other_servers(server: PageServer, path: str, status: int) -> None:
    response, _ = await ask(server, path)
    assert response.status == status
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self'; ") and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and "form-action 'none'" in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert response.headers["Cache-Control"] == "no-cache"
    assert "Access-Control-Allow-Origin" not in response.headers
    assert "aiohttp" not in response.headers["Server"], "what it is made of is nobody's business"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_changed(server: PageServer, method: str) -> None:
    for path in ("api/consumers", f"api/consumers/{KEY}", ""):
        response, _ = await ask(server, path, method)
        assert response.status == 405
        assert set(response.headers["Allow"].split(",")) == {"GET", "HEAD"}
        assert "Content-Security-Policy" in response.headers


@pytest.mark.parametrize(
    "path", ["static/page.js", "..%2f..%2fetc/passwd", "api/consumers/shop/..%2f..", "api/consumers/shop"]
)
async def test_only_named_paths_are_served(server: PageServer, path: str) -> None:
    response, body = await ask(server, path)
    assert response.status == 404 and b"root:" not in body
    _, body = await ask(server, "api/consumers/shop/none")
    assert json.loads(body) == {"error": "EventConsumer shop/none does not exist, or its namespace is not served"}


async def test_one_that_does_not_lead_sends_the_browser_on() -> None:
    with serving(None) as standby:
        for path in ("api/consumers", f"api/consumers/{KEY}"):
            response, body = await ask(standby, path)
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
            assert response.headers["Connection"] == "close", "the next connection may find the one that leads"
            assert "lead" in json.loads(body)["error"]
        response, _ = await ask(standby, "")
        assert response.status == 200, "the page itself is the same everywhere"


async def _until(port: int, path: str) -> bytes:
    """The answer at a port, once there is one."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(HANG_SECONDS):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/{path}") as response:
                    if response.status == 200:
                        return await response.read()
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)


async def test_the_operator_serves_it_only_with_the_flag(cluster: Cluster, tmp_path: Path) -> None:
    namespace, port = cluster.namespace(), free_port()
    cluster.install_chart(namespace)
    assert cluster.apply(event_consumer("orders", SPEC, namespace)) == ""
    operator = Operator(cluster, namespace, tmp_path / "with.log", "--status-page-port", str(port))
    operator.start()
    try:
        async with asyncio.timeout(HANG_SECONDS):
            while not (found := ConsumerList.model_validate_json(await _until(port, "api/consumers")).consumers):
                await asyncio.sleep(0.2)
        assert [(each.namespace, each.name) for each in found] == [(namespace, "orders")]
        assert found[0].reason in {"NoReport", "Progressing"}, "no host pod exists here, and that is what it saw"
    finally:
        operator.stop()
    plain = Operator(cluster, namespace, tmp_path / "without.log")
    plain.start()
    try:
        await _until(plain.port, "healthz")
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://127.0.0.1:{port}/")
            async with session.get(f"http://127.0.0.1:{plain.port}/api/consumers") as other:
                assert other.status == 404, "nor is it on the port of the probes"
    finally:
        plain.stop()
