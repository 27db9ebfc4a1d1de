"""The auditor's access to a container: read-only, so that the audit cannot change anything.

Reads are retried if storage does not respond; a long listing continues from its last page. Listings are streamed page
by page, so that a million blobs are never in memory.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

import structlog
from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_storage.blobs import BlobInfo, BlobStore, info_of
from eventconsumer_storage.confined.reader import Vanished
from eventconsumer_storage.errors import Conflict, Damaged, NotFound, StorageError, Unavailable, storage_error
from eventconsumer_storage.listing import page_of

T = TypeVar("T")
Range = Callable[[int, int], Awaitable[bytes]]

log = structlog.get_logger(__name__)

PAGE = 5000  # blobs in one response: the service's maximum
ATTEMPTS = 5  # of the first request: its URL may be wrong
OUTAGE_SECONDS = 300.0  # later, an audit of millions of files waits so long for storage
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0  # seconds
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

    def ranges(self, info: BlobInfo) -> Range:
        """Reads a range of a blob, by start and size, in the version of `info`.

        Raises:
            Vanished: It was deleted or replaced.
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

    def ranges(self, info: BlobInfo) -> Range:
        """See `Container`."""
        return partial(_range, partial(self.store.read_range, info.name, if_match=info.etag), info.name)


class AzureContainer:
    """`Container` on Azure Blob Storage or Azurite."""

    def __init__(self, service: BlobServiceClient, name: str, page: int = PAGE) -> None:
        self.name = name
        self._page = page
        self._client = service.get_container_client(name)
        self._responded = False

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        """See `Container`."""
        token = ""
        while True:
            page, token = await self._patiently("list", partial(page_of, self._client, prefix, token, limit=self._page))
            for info in page:
                yield info
            if not token:
                return

    async def head(self, name: str) -> BlobInfo | None:
        """See `Container`."""

        async def ask() -> BlobInfo:
            return info_of(await self._client.get_blob_client(name).get_blob_properties())

        try:
            return await self._patiently("head", ask)
        except NotFound:
            return None

    async def read(self, name: str, limit: int = RECORD_MAX_BYTES) -> bytes | None:
        """See `Container`."""

        async def ask() -> bytes:
            # Its first part only. Whoever writes a blob may say that it is compressed: that counts for nothing here.
            content = await self._client.download_blob(name, decompress=False)
            if content.size > limit:
                raise _too_large(name, content.size, limit)
            data: bytes = await content.readall()
            return data

        try:
            return await self._patiently("read", ask)
        except NotFound:
            return None

    def ranges(self, info: BlobInfo) -> Range:
        """See `Container`."""

        async def read(start: int, size: int) -> bytes:
            async def ask() -> bytes:
                found = await self._client.download_blob(
                    info.name, offset=start, length=size, decompress=False,
                    etag=info.etag, match_condition=MatchConditions.IfNotModified,
                )  # fmt: skip
                data: bytes = await found.readall()
                return data

            return await self._patiently("read", ask)

        return partial(_range, read, info.name)

    async def _patiently(self, operation: str, ask: Callable[[], Awaitable[T]]) -> T:
        began, attempt = time.monotonic(), 0
        while True:
            try:
                result = await ask()
            except (AzureError, OSError, TimeoutError, ValueError) as error:
                mapped: StorageError = storage_error(operation, error)
                over = time.monotonic() - began > OUTAGE_SECONDS if self._responded else attempt == ATTEMPTS - 1
                if not isinstance(mapped, Unavailable):
                    self._responded = True
                    raise mapped from error
                if over:
                    raise mapped from error
                if attempt == ATTEMPTS - 1:
                    log.error(
                        "storage does not respond: the request is repeated", error=str(mapped), seconds=OUTAGE_SECONDS
                    )
            else:
                self._responded = True
                return result
            await asyncio.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE))
            attempt += 1


async def _range(read: Range, name: str, start: int, size: int) -> bytes:
    try:
        return await read(start, size)
    except (NotFound, Conflict):
        raise Vanished(f"blob {name} was deleted or replaced while it was read") from None


def _too_large(name: str, size: int, limit: int) -> Damaged:
    return Damaged(
        f"blob {name} has {size} bytes, and hosts write {limit} at most: another program has written it; restore it "
        "from a backup"
    )
