"""Each contract runs against the fake on a clock of its own, and against Azurite in real time.

The fake runs twice: as an account with a flat namespace, and as one with a hierarchical namespace may behave.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from azure.storage.blob.aio import BlobLeaseClient, BlobServiceClient

from eventconsumer_storage.async_blobs import AzureBlobStore, client_options
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.lease_time import boottime
from tests.support.clocks import ManualClock
from tests.support.fakes.blobs import FakeBlobStore


@dataclass
class ContainerWorld:
    """A container and its time."""

    blobs: BlobStore
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    other: BlobStore  # another client of the same container
    break_lease: Callable[[str, int], Awaitable[None]]  # as an administrator: blob, seconds
    delete_container: Callable[[], Awaitable[None]]  # likewise
    delete_blob: Callable[[str], Awaitable[None]]  # likewise, whoever leases it


@pytest.fixture(params=["fake", "hierarchical", "azurite"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[ContainerWorld]:
    """The fake in both forms, then Azurite."""
    if request.param != "azurite":
        time = ManualClock()
        fake = FakeBlobStore(time, hierarchical=request.param == "hierarchical")

        async def break_fake(name: str, seconds: int) -> None:
            fake.break_lease(name, seconds)

        async def delete_fake() -> None:
            fake.delete_container()

        async def delete_blob_fake(blob: str) -> None:
            fake.delete(blob)

        yield ContainerWorld(fake, time, time.pause, fake, break_fake, delete_fake, delete_blob_fake)
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
    admin = BlobServiceClient.from_connection_string(azurite.connection_string)

    async def break_real(blob: str, seconds: int) -> None:
        await BlobLeaseClient(admin.get_blob_client(name, blob), "").break_lease(lease_break_period=seconds)

    async def delete_real() -> None:
        await admin.delete_container(name)

    async def delete_blob_real(blob: str) -> None:
        client = admin.get_blob_client(name, blob)
        if (await client.get_blob_properties()).lease.state == "leased":
            await break_real(blob, 0)
        await client.delete_blob()

    yield ContainerWorld(stores[0], boottime, asyncio.sleep, stores[1], break_real, delete_real, delete_blob_real)
    for store in stores:
        await store.close()
    await admin.close()
