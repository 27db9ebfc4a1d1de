"""Opens containers, and adds two reads to `BlobStore`: a listing page by page, and the storage's clock."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_api.host_config import BlobContainer, HostConfig
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service
from eventconsumer_storage.blobs import BlobInfo, info_of
from eventconsumer_storage.errors import Refused, storage_error
from eventconsumer_storage.proxy import use_proxy

PAGE_RETRIES = 2  # of one page: a long listing must not restart

Walk = Callable[[str], AsyncIterator[BlobInfo]]
"""All blobs whose names start with a prefix, with metadata, in name order. Only one page is in memory."""


@asynccontextmanager
async def opened_service(config: HostConfig, field: str, location: BlobContainer) -> AsyncIterator[BlobServiceClient]:
    """The storage account of a container; it is closed at the end.

    Args:
        config: Its consumer.
        field: Of the resource, for messages: `problems.SINK` or `problems.LEASES`.
        location: The container.

    Raises:
        Blocked: The credential is missing, wrong, or not allowed.
    """
    use_proxy(config.proxy)
    service = blob_service(location, field, config.allow_insecure_endpoints, config.endpoint_suffixes)
    credential: Any = service.credential
    async with service:
        try:
            yield service
        finally:
            if hasattr(credential, "get_token"):
                await credential.close()


def blob_store(service: BlobServiceClient, container: str) -> AzureBlobStore:
    """A container; requests of commands are not counted in metrics."""
    return AzureBlobStore(service, container, lambda _, __: None)


async def walk(service: BlobServiceClient, container: str, prefix: str) -> AsyncIterator[BlobInfo]:
    """See `Walk`.

    Raises:
        StorageError: A request failed.
    """
    listing = service.get_container_client(container).list_blobs(prefix, include=["metadata"], retry_total=PAGE_RETRIES)
    try:
        async for found in listing:
            yield info_of(found)
    except (AzureError, OSError, TimeoutError, ValueError) as error:
        raise storage_error("list", error) from error


async def storage_time(service: BlobServiceClient, container: str) -> datetime:
    """The clock of a storage account, from the header Date of an answer; to the second.

    The age of a blob is measured by this clock, never by the clock of this machine.

    Args:
        service: The account.
        container: Any container of the account; it need not exist.

    Raises:
        StorageError: No response, or a response without a date.
    """
    seen: list[str] = []

    def note(response: Any) -> None:
        seen.append(response.http_response.headers.get("Date") or "")

    try:
        await service.get_container_client(container).get_container_properties(raw_response_hook=note)
    except ResourceNotFoundError:
        pass
    except (AzureError, OSError, TimeoutError, ValueError) as error:
        raise storage_error("get_container", error) from error
    try:
        return parsedate_to_datetime(seen[-1])
    except (IndexError, ValueError):
        raise Refused("get_container: the response has no Date header, so the storage's clock is unknown") from None
