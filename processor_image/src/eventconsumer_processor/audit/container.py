"""The auditor's access to a container: read-only, so that the audit cannot change anything.

Reads are retried if storage does not respond; a long listing continues from its last page. Listings are streamed page
by page, so that a million blobs are never in memory.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeVar

from azure.core.exceptions import AzureError
from azure.storage.blob import BlobProperties
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_storage.blobs import BlobInfo, BlobStore
from eventconsumer_storage.errors import Damaged, NotFound, StorageError, Unavailable, storage_error

T = TypeVar("T")
PAGE = 5000  # blobs in one response: the service's maximum
ATTEMPTS = 5
FIRST_PAUSE = 0.5
RECORD_MAX_BYTES = 64 * 1024 * 1024  # a batch manifest, the largest record, has 250 bytes for each file
FILE_MAX_BYTES = 1280 * 1024 * 1024  # above the greatest `sink.roll.maxBytes` and one event


class Container(Protocol):
    """One container, read-only. All methods raise `StorageError`."""

    @property
    def name(self) -> str:
        """Its name."""

    def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """All blobs whose names start with `prefix`, with metadata, in name order."""

    async def head(self, name: str) -> BlobInfo | None:
        """Properties of a blob; None where it does not exist."""

    async def read(self, name: str, limit: int = RECORD_MAX_BYTES) -> bytes | None:
        """A blob's content; None where it does not exist.

        Raises:
            Damaged: It has more than `limit` bytes, so no host has written it.
        """


class StoreContainer:
    """`Container` on a store of a host; nothing is retried."""

    def __init__(self, store: BlobStore, name: str = "") -> None:
        self.name = name
        self.store = store

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """See `Container`."""
        for info in await self.store.list(prefix, metadata=True):
            yield info

    async def head(self, name: str) -> BlobInfo | None:
        """See `Container`."""
        return await self.store.head(name)

    async def read(self, name: str, limit: int = RECORD_MAX_BYTES) -> bytes | None:
        """See `Container`."""
        blob = await self.store.read(name, limit)
        if blob is not None and blob.info.size > limit:
            raise _too_large(name, blob.info.size, limit)
        return blob.data if blob else None


class AzureContainer:
    """`Container` on Azure Blob Storage or Azurite."""

    def __init__(self, service: BlobServiceClient, name: str, page: int = PAGE) -> None:
        self.name = name
        self._page = page
        self._client = service.get_container_client(name)

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """See `Container`."""
        token: str | None = None
        while True:
            pages = self._client.list_blobs(prefix, include=["metadata"], results_per_page=self._page).by_page(token)

            async def next_page(pages: AsyncIterator[AsyncIterator[BlobProperties]] = pages) -> list[BlobInfo]:
                return [_info(blob) async for blob in await anext(pages)]

            try:
                page = await self._patiently("list", next_page)
            except StopAsyncIteration:
                return
            for info in page:
                yield info
            token = getattr(pages, "continuation_token", None)
            if not token:
                return

    async def head(self, name: str) -> BlobInfo | None:
        """See `Container`."""

        async def ask() -> BlobInfo:
            return _info(await self._client.get_blob_client(name).get_blob_properties())

        try:
            return await self._patiently("head", ask)
        except NotFound:
            return None

    async def read(self, name: str, limit: int = RECORD_MAX_BYTES) -> bytes | None:
        """See `Container`."""

        async def ask() -> bytes:
            content = await self._client.download_blob(name)  # its first part only
            if content.size > limit:
                raise _too_large(name, content.size, limit)
            data: bytes = await content.readall()
            return data

        try:
            return await self._patiently("read", ask)
        except NotFound:
            return None

    async def _patiently(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        for attempt in range(ATTEMPTS):
            try:
                return await ask()
            except (AzureError, OSError, TimeoutError, ValueError) as error:
                mapped: StorageError = storage_error(operation, error)
                if not isinstance(mapped, Unavailable) or attempt == ATTEMPTS - 1:
                    raise mapped from error
            await asyncio.sleep(FIRST_PAUSE * 2**attempt)
        raise AssertionError("unreachable")


def _too_large(name: str, size: int, limit: int) -> Damaged:
    return Damaged(
        f"blob {name} has {size} bytes, and hosts write {limit} at most: another program has written it; restore it "
        "from a backup"
    )


def _info(properties: BlobProperties) -> BlobInfo:
    return BlobInfo(
        name=str(properties.name),
        etag=str(properties.etag),
        size=int(properties.size or 0),
        last_modified=properties.last_modified,
        metadata=dict(properties.metadata or {}),
        leased=properties.lease.state in {"leased", "breaking"},
    )
