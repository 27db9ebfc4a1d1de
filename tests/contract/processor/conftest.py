"""Each contract runs twice: against the fake on a clock of its own, and against Azurite in real time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_processor.lease.keeper import boottime
from eventconsumer_processor.storage import AzureBlobStore, BlobStore, client_options
from tests.fakes.blobs import FakeBlobStore


@dataclass
class World:
    """A container and its time."""

    blobs: BlobStore
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    other: BlobStore  # another client of the same container


class _Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(params=["fake", "azurite"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """The fake, then Azurite."""
    if request.param == "fake":
        time = _Time()
        fake = FakeBlobStore(time)
        yield World(fake, time, time.sleep, fake)
        return
    azurite: Any = request.getfixturevalue("azurite")
    name = azurite.container()
    stores = [
        AzureBlobStore(
            BlobServiceClient.from_connection_string(azurite.connection_string, **client_options()),
            name,
            lambda _, __: None,
        )
        for _ in range(2)
    ]
    await stores[0].ensure_container()
    yield World(stores[0], boottime, asyncio.sleep, stores[1])
    for store in stores:
        await store.close()
