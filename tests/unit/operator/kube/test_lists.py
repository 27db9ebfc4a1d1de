"""Lists in pages: few requests for usual objects, and bounded memory for large ones."""

from typing import Any

from aiohttp import web
from kubernetes.aio import client

from eventconsumer_operator.kube.api import LONG_PAGE, LONG_PAGE_BYTES, PAGE, KubernetesApi
from eventconsumer_operator.kube.manifest import EVENT_CONSUMER, name_of


class Lists:
    """An API server that serves one list, and remembers the limits of its pages."""

    def __init__(self, count: int, text: str) -> None:
        self.limits: list[int] = []
        self._items = [
            {"metadata": {"name": f"c{number}", "namespace": "shop", "resourceVersion": "1", "uid": "u"}, "text": text}
            for number in range(count)
        ]

    async def answer(self, request: web.Request) -> web.Response:
        limit, start = int(request.query["limit"]), int(request.query.get("continue", 0))
        self.limits.append(limit)
        end = start + limit
        metadata: dict[str, Any] = {"resourceVersion": "7"}
        if end < len(self._items):
            metadata["continue"] = str(end)
        return web.json_response({"metadata": metadata, "items": self._items[start:end]})

    async def names(self) -> list[str]:
        """The names that a client of this server lists."""
        application = web.Application()
        application.router.add_get("/{path:.*}", self.answer)
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            settings = client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}")
            async with client.ApiClient(settings) as connection:
                listing = await KubernetesApi(connection).list(EVENT_CONSUMER, "")
        finally:
            await runner.cleanup()
        assert listing.version == "7"
        return [name_of(item) for item in listing.items]


async def test_usual_objects_are_listed_in_long_pages() -> None:
    server = Lists(2 * LONG_PAGE + 1, "")
    assert await server.names() == [f"c{number}" for number in range(2 * LONG_PAGE + 1)]
    assert server.limits == [LONG_PAGE] * 3


async def test_large_objects_are_listed_in_short_pages() -> None:
    large = "x" * (LONG_PAGE_BYTES // 40)
    server = Lists(3 * PAGE, large)
    assert await server.names() == [f"c{number}" for number in range(3 * PAGE)]
    assert server.limits == [LONG_PAGE, PAGE, PAGE, PAGE]
