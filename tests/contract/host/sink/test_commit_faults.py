"""Committing through a bad network to Azurite: one file in the slot, whole, whatever happens to the requests."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_host.sink.commit import commit
from eventconsumer_host.sink.content import Content
from eventconsumer_host.sink.slots import Slot
from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.blobs import BlobStore
from tests.support.azurite import AzuriteProcess
from tests.support.faultactions import Delay, Down, DropReply, Fail, Hold, Replay, ResetUpload, Slow, Truncate
from tests.support.faultproxy import Action, FaultProxy, Match
from tests.unit.host.chains import LAYOUTS, chain, draft

BLOCK = b"0123456789abcdef" * 4096
DATA = {"small": (BLOCK,), "large": (BLOCK, BLOCK, b"end")}
ACTIONS: dict[str, Callable[[], Action]] = {
    "no connection": Down,
    "answer lost": DropReply,
    "late": lambda: Delay(0.3),
    "twice": Replay,
    "reset mid-upload": ResetUpload,
    "answer broken off": lambda: Truncate(40),
    "slow": lambda: Slow(400_000),
    "busy": lambda: Fail(503, "ServerBusy"),
}
FILES = r"\.(parquet|avro)$"


@pytest.fixture(scope="module")
def proxy(azurite: AzuriteProcess) -> Iterator[FaultProxy]:
    """A bad network before Azurite."""
    bad = FaultProxy(azurite.port, azurite.connection_string)
    bad.start()
    yield bad
    bad.close()


@asynccontextmanager
async def store(connection_string: str, container: str) -> AsyncIterator[BlobStore]:
    """A client of the container."""
    client = BlobServiceClient.from_connection_string(connection_string, **client_options())
    opened = AzureBlobStore(client, container, lambda _, __: None)
    await opened.ensure_container()
    yield opened
    await opened.close()


async def write(blobs: BlobStore, layout: str, nonce: str, blocks: tuple[bytes, ...]) -> Slot | None:
    """Commit to slot 5."""
    facts = draft(5, 8, nonce=nonce)
    return await commit(
        chain(layout, blobs), facts, Content.of(*blocks), check=lambda: None, failed=lambda _: None, rng=Random(nonce)
    )


async def check(blobs: BlobStore, layout: str, nonce: str, blocks: tuple[bytes, ...]) -> None:
    """The slot holds this file, whole, and there is no other."""
    slot = await chain(layout, blobs).at(5)
    assert slot is not None and slot.nonce == nonce
    blob = await blobs.read(slot.path, 1024**2)
    assert blob is not None and blob.info.etag == slot.etag
    assert blob.data == b"".join(blocks)
    assert blob.info.metadata["sha256"] == hashlib.sha256(blob.data).hexdigest()
    files = [info.name for info in await blobs.list("p/") if not info.name.endswith(".json")]
    assert files == [slot.path]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", DATA)
@pytest.mark.parametrize("action", ACTIONS)
async def test_every_request_of_a_commit_may_fail(
    azurite: AzuriteProcess, proxy: FaultProxy, layout: str, size: str, action: str
) -> None:
    container = azurite.container()
    async with store(azurite.connection_string, container) as good:
        async with store(proxy.connection_string, container) as bad:
            # Each kind of request meets it once: the puts of file and record, a block, the list of blocks.
            for query in ({"comp": None}, {"comp": "block"}, {"comp": "blocklist"}):
                proxy.add(Match("PUT", path=f"/{container}/", query=query), ACTIONS[action](), times=1)
            assert await write(bad, layout, "mine", DATA[size]) is None
            proxy.clear()
        met = {
            exchange.request.query.get("comp") for exchange in proxy.met(Match(path=f"/{container}/")) if exchange.fault
        }
        blocks = {"block", "blocklist"} if size == "large" else set()
        assert met == blocks | ({None} if size == "small" or layout == "Capture" else set())
        await check(good, layout, "mine", DATA[size])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", DATA)
async def test_what_lands_after_a_takeover_changes_nothing(
    azurite: AzuriteProcess, proxy: FaultProxy, layout: str, size: str
) -> None:
    """The request that would commit is on its way while another writer commits, and lands afterwards."""
    container = azurite.container()
    ends = {"comp": "blocklist" if layout == "SequenceNumber" and size == "large" else None}
    deciding = Match("PUT", path=rf"/{container}/.*/from=", query=ends)
    async with store(azurite.connection_string, container) as good:
        async with store(proxy.connection_string, container) as bad:
            held = proxy.add(deciding, Hold(), times=1)
            zombie = asyncio.create_task(write(bad, layout, "zombie", DATA[size]))
            await asyncio.to_thread(held.wait, 10.0)
            successor = (b"of the successor",)
            assert await write(good, layout, "successor", successor) is None
            held.release()
            winner = await zombie
            assert winner is not None and winner.nonce == "successor"
            proxy.clear()
        await check(good, layout, "successor", successor)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_what_lands_after_its_own_second_try_changes_nothing(
    azurite: AzuriteProcess, proxy: FaultProxy, layout: str
) -> None:
    container = azurite.container()
    file = Match("PUT", path=rf"/{container}/.*{FILES}", query={"comp": None})
    async with store(azurite.connection_string, container) as good:
        async with store(proxy.connection_string, container) as bad:
            held = proxy.add(file, Hold(), times=1)
            first = asyncio.create_task(write(bad, layout, "mine", (BLOCK,)))
            await asyncio.to_thread(held.wait, 10.0)
            first.cancel()  # gave up on the answer; the request goes on
            await asyncio.gather(first, return_exceptions=True)
            assert await write(bad, layout, "mine", (BLOCK,)) is None
            held.release()
            await asyncio.sleep(0.3)
            proxy.clear()
        await check(good, layout, "mine", (BLOCK,))
