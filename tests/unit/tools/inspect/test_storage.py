"""A listing page by page, and the storage's clock, from answers of a server on this machine."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from aiohttp import web
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_storage.async_blobs import client_options
from eventconsumer_storage.errors import Unauthorized
from eventconsumer_tools.inspect.storage import storage_time, walk

DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
BLOB = (
    "<Blob><Name>{name}</Name><Properties><Last-Modified>" + DATE + "</Last-Modified><Etag>0x1</Etag>"
    "<Content-Length>5</Content-Length><BlobType>BlockBlob</BlobType><LeaseState>leased</LeaseState></Properties>"
    "<Metadata><Key>value</Key></Metadata></Blob>"
)
PAGE = (
    '<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Prefix>p/</Prefix><Blobs>{blobs}</Blobs>'
    "<NextMarker>{next}</NextMarker></EnumerationResults>"
)


@dataclass
class Account:
    """A storage account with two pages of blobs."""

    asked: list[str] = field(default_factory=list)
    status: int = 200
    service: BlobServiceClient = field(init=False)

    async def answer(self, request: web.Request) -> web.Response:
        """List, or describe the container."""
        self.asked.append(request.query.get("marker", ""))
        headers = {"Date": DATE, "Content-Type": "application/xml"}
        if self.status != 200:
            return web.Response(status=self.status, headers={"x-ms-error-code": "AuthorizationFailure"} | headers)
        if request.query.get("comp") != "list":
            return web.Response(headers={"ETag": '"1"', "Last-Modified": DATE} | headers)
        assert (request.query["prefix"], request.query["include"]) == ("p/", "metadata")
        first, second = ("a", "b") if "marker" not in request.query else ("c", "d")
        blobs = BLOB.format(name=f"p/{first}") + BLOB.format(name=f"p/{second}")
        text = PAGE.format(blobs=blobs, next="" if "marker" in request.query else "2")
        return web.Response(text=text, headers=headers)


@pytest.fixture
async def account() -> AsyncIterator[Account]:
    """An account on a free port."""
    found, application = Account(), web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/account"
    async with BlobServiceClient(url, **client_options()) as found.service:
        yield found
    await runner.cleanup()


async def test_a_listing_is_read_page_by_page(account: Account) -> None:
    seen = []
    async for info in walk(account.service, "c", "p/"):
        seen.append((info.name, info.etag, info.size, info.metadata, info.leased, len(account.asked)))
    facts = ('"0x1"', 5, {"Key": "value"}, True)
    assert seen == [(f"p/{name}", *facts, page) for name, page in (("a", 1), ("b", 1), ("c", 2), ("d", 2))]
    assert account.asked == ["", "2"]


async def test_a_listing_that_is_refused_is_an_error_of_storage(account: Account) -> None:
    account.status = 403
    with pytest.raises(Unauthorized):
        _ = [info async for info in walk(account.service, "c", "p/")]


@pytest.mark.parametrize("status", [200, 404])
async def test_the_clock_is_known_also_where_the_container_is_not_there(account: Account, status: int) -> None:
    account.status = status
    assert await storage_time(account.service, "c") == datetime(2026, 1, 1, tzinfo=UTC)
