"""Blobs on Azure Blob Storage or Azurite, through Azure's client library; every call has a time limit."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from aiohttp import ClientHttpProxyError
from azure.core import MatchConditions
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ResourceExistsError
from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import BlobClient, BlobLeaseClient, BlobServiceClient, ContainerClient

from eventconsumer_api.spec.endpoints import account_name
from eventconsumer_api.wire.host_config import BlobContainer
from eventconsumer_storage.account import resolve_account
from eventconsumer_storage.blobs import Blob, BlobInfo, info_of, quoted
from eventconsumer_storage.errors import NotFound, StorageError, Unauthorized, Unavailable, storage_error
from eventconsumer_storage.listing import page_of
from eventconsumer_storage.proxy import proxy_refusal

CONNECT_SECONDS = 5
READ_SECONDS = 20
CALL_SECONDS = 120  # limit of one request, however slow the transfer
MAX_PUT_BYTES = 2 * 1024**3  # `put` is always one request; large files are uploaded in blocks

Observer = Callable[[str, str], None]
"""Called once per request with the operation and the outcome: ok, or the error's class in snake case."""


class AzureBlobStore:
    """`BlobStore` on Azure Blob Storage or Azurite."""

    def __init__(self, service: BlobServiceClient, container: str, observe: Observer) -> None:
        self._service = service
        self._container: ContainerClient = service.get_container_client(container)
        self._observe = observe

    @property
    def account(self) -> str:
        """See `BlobStore`."""
        return account_name(self._service.url)

    @property
    def url(self) -> str:
        """See `BlobStore`. The client's URL may contain a shared access signature."""
        return urlsplit(self._container.url)._replace(query="", fragment="").geturl().rstrip("/")

    async def ensure_container(self) -> None:
        """See `BlobStore`. Checks first, so that a credential without permission to create containers can be used."""
        if await self.container_exists():
            return
        try:
            async with self._call("create_container"):
                try:
                    await self._container.create_container()
                except ResourceExistsError:  # another host created it first
                    if not await self._container.exists():
                        raise  # it is being deleted
        except Unauthorized as error:
            raise NotFound(
                f"the credential may not create container {self._container.container_name} ({error})",
                404,
                "ContainerNotFound",
            ) from error

    async def container_exists(self) -> bool:
        """Whether the container exists.

        A shared access signature of a container does not permit to ask (403). A listing, which it permits, decides
        then. Source: learn.microsoft.com/rest/api/storageservices/create-service-sas, "Permissions for a container".

        Raises:
            StorageError: A request failed.
        """
        try:
            async with self._call("get_container"):
                return await self._container.exists()
        except Unauthorized:
            try:
                await self.list("", limit=1)
            except NotFound:
                return False
            return True

    async def head(self, name: str) -> BlobInfo | None:
        """See `BlobStore`."""
        try:
            async with self._call("head"):
                return info_of(await self._blob(name).get_blob_properties())
        except NotFound:
            return None

    async def read(self, name: str, limit: int) -> Blob | None:
        """See `BlobStore`."""
        try:
            async with self._call("read"):
                # Whoever writes a blob may say that it is compressed, and the client would decompress without a limit.
                stream = await self._blob(name).download_blob(offset=0, length=limit, decompress=False)
                return Blob(info_of(stream.properties), await stream.readall())
        except NotFound:
            return None
        except StorageError as error:
            if error.status != 416:  # an empty blob has no range
                raise
            info = await self.head(name)
            return Blob(info, b"") if info else None

    async def read_range(self, name: str, start: int, size: int, *, if_match: str) -> bytes:
        """See `BlobStore`."""
        async with self._call("read"):
            options: dict[str, Any] = {"etag": if_match, "match_condition": MatchConditions.IfNotModified}
            stream = await self._blob(name).download_blob(offset=start, length=size, decompress=False, **options)
            data: bytes = await stream.readall()
            return data

    async def put(
        self,
        name: str,
        data: bytes,
        *,
        metadata: Mapping[str, str] | None = None,
        lease_id: str | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
    ) -> str:
        """See `BlobStore`."""
        options: dict[str, Any] = {}
        if lease_id:
            options["lease"] = lease_id
        if if_match:
            options |= {"etag": if_match, "match_condition": MatchConditions.IfNotModified}
        async with self._call("put"):
            answer = await self._blob(name).upload_blob(
                data, overwrite=not if_absent, metadata=dict(metadata or {}), **options
            )
            return quoted(answer["etag"])

    async def set_metadata(self, name: str, metadata: Mapping[str, str], *, if_match: str | None = None) -> str:
        """See `BlobStore`."""
        options: dict[str, Any] = {}
        if if_match:
            options = {"etag": if_match, "match_condition": MatchConditions.IfNotModified}
        async with self._call("set_metadata"):
            answer = await self._blob(name).set_blob_metadata(dict(metadata), **options)
            return quoted(answer["etag"])

    async def put_block(self, name: str, block_id: str, data: bytes) -> None:
        """See `BlobStore`."""
        async with self._call("put_block"):
            await self._blob(name).stage_block(block_id, data, length=len(data))

    async def put_block_list(
        self, name: str, block_ids: Sequence[str], *, metadata: Mapping[str, str] | None = None, if_absent: bool = False
    ) -> str:
        """See `BlobStore`."""
        options: dict[str, Any] = {"match_condition": MatchConditions.IfMissing} if if_absent else {}
        blocks = [BlobBlock(block_id) for block_id in block_ids]
        async with self._call("put_block_list"):
            answer = await self._blob(name).commit_block_list(blocks, metadata=dict(metadata or {}), **options)
            return quoted(answer["etag"])

    async def remove(self, name: str, *, if_match: str) -> None:
        """See `BlobStore`."""
        async with self._call("remove"):
            await self._blob(name).delete_blob(etag=if_match, match_condition=MatchConditions.IfNotModified)

    async def list(self, prefix: str, *, metadata: bool = False, limit: int | None = None) -> list[BlobInfo]:
        """See `BlobStore`."""
        infos: list[BlobInfo] = []
        token = ""
        while True:
            async with self._call("list"):  # each page is a separate request
                page, token = await page_of(self._container, prefix, token, metadata=metadata, limit=limit)
            infos += page
            if not token or (limit is not None and len(infos) >= limit):
                return infos[:limit]

    async def level(self, prefix: str) -> Sequence[str]:
        """See `BlobStore`."""
        names: list[str] = []
        pages = self._container.walk_blobs(name_starts_with=prefix, delimiter="/").by_page()
        while True:
            async with self._call("list"):  # each page is a separate request
                page = await anext(pages, None)
                if page is None:
                    return names
                names += [str(item.name) async for item in page]

    async def list_page(self, prefix: str, token: str = "", *, limit: int = 5000) -> tuple[Sequence[BlobInfo], str]:
        """See `BlobStore`."""
        async with self._call("list"):
            return await page_of(self._container, prefix, token, limit=limit)

    async def acquire_lease(self, name: str, lease_id: str, seconds: int) -> None:
        """See `BlobStore`."""
        async with self._call("acquire_lease"):
            await BlobLeaseClient(self._blob(name), lease_id).acquire(lease_duration=seconds)

    async def renew_lease(self, name: str, lease_id: str) -> None:
        """See `BlobStore`."""
        async with self._call("renew_lease"):
            await BlobLeaseClient(self._blob(name), lease_id).renew()

    async def release_lease(self, name: str, lease_id: str) -> None:
        """See `BlobStore`."""
        async with self._call("release_lease"):
            await BlobLeaseClient(self._blob(name), lease_id).release()

    async def close(self) -> None:
        """See `BlobStore`."""
        await self._service.close()
        if isinstance(self._service.credential, AsyncTokenCredential):
            await self._service.credential.close()

    def _refused_by_proxy(self, operation: str, error: Exception) -> StorageError | None:
        cause, url = getattr(error, "inner_exception", None), urlsplit(self._service.url)
        if not isinstance(cause, ClientHttpProxyError):
            return None
        proxy = cause.request_info.real_url
        refusal = proxy_refusal(cause.status, f"{url.hostname}:{url.port or 443}", f"{proxy.host}:{proxy.port}")
        return Unavailable(f"{operation}: no connection: {refusal}")

    def _blob(self, name: str) -> BlobClient:
        return self._container.get_blob_client(name)

    @asynccontextmanager
    async def _call(self, operation: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                yield
        except (AzureError, OSError, TimeoutError, ValueError) as error:
            mapped = self._refused_by_proxy(operation, error) or storage_error(operation, error)
            self._observe(operation, type(mapped).__name__.lower())
            raise mapped from error
        except asyncio.CancelledError:
            self._observe(operation, "cancelled")
            raise
        self._observe(operation, "ok")


def blob_service(
    location: BlobContainer, owner_field: str, allow_insecure: bool, suffixes: Collection[str]
) -> BlobServiceClient:
    """A client of the account of a container; see `account.resolve_account`."""
    account = resolve_account(location, owner_field, allow_insecure=allow_insecure, suffixes=suffixes)
    credential: Any = account.key_credential
    if account.client_id is not None:
        from azure.identity.aio import WorkloadIdentityCredential  # import takes half a second: only if used

        credential = WorkloadIdentityCredential(client_id=account.client_id)
    return BlobServiceClient(
        account.endpoint, credential=credential, api_version=account.api_version, **client_options()
    )


def client_options() -> dict[str, Any]:
    """Options of every storage client: bounded connect and read times, no retries, a file in one request."""
    return {
        "connection_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "retry_total": 0,
        "max_single_put_size": MAX_PUT_BYTES,
        "logging_enable": False,
    }
