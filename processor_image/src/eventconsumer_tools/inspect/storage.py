"""Opens containers, and adds reads to `BlobStore`: pages of a listing, the storage's clock, the account's settings."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core.exceptions import AzureError
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_api.wire.host_config import BlobContainer, HostConfig
from eventconsumer_storage.async_blobs import AzureBlobStore, blob_service
from eventconsumer_storage.blobs import BlobInfo, hierarchical_in, info_of
from eventconsumer_storage.errors import NotFound, Refused, Unauthorized, Unavailable, storage_error
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
    service = blob_service(location, field, config.allow_insecure_endpoints, config.storage_suffixes)
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


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """Settings of a storage account; None: unknown, because the credential may not ask or the service does not tell."""

    hierarchical: bool | None
    soft_delete: bool | None


async def account_facts(service: BlobServiceClient, container: str) -> AccountFacts:
    """Settings of the account of a container.

    Sources: learn.microsoft.com/rest/api/storageservices/get-account-information and get-blob-service-properties

    Raises:
        StorageError: Storage did not respond.
    """
    account = await _if_allowed(service.get_container_client(container).get_account_information)
    properties = await _if_allowed(service.get_service_properties)
    policy = None if properties is None else properties.get("delete_retention_policy")
    return AccountFacts(
        hierarchical=None if account is None else hierarchical_in(account),
        soft_delete=None if policy is None else bool(policy.enabled),
    )


async def _if_allowed(ask: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any] | None:
    try:
        return await ask()
    except (AzureError, OSError, TimeoutError, ValueError) as error:
        failure = storage_error("get_account", error)
        if isinstance(failure, Unavailable):
            raise failure from error
        return None


async def storage_time(service: BlobServiceClient, container: str) -> datetime:
    """The clock of a storage account, from the header Date of an answer; to the second.

    The age of a blob is measured by this clock, never by the clock of this machine.

    Args:
        service: The account.
        container: Any container of the account; it need not exist, and the credential need not permit to ask for it.

    Raises:
        StorageError: No response, or a response without a date.
    """
    seen: list[str] = []

    def note(response: Any) -> None:
        seen.append(response.http_response.headers.get("Date") or "")

    try:
        await service.get_container_client(container).get_container_properties(raw_response_hook=note)
    except (AzureError, OSError, TimeoutError, ValueError) as error:
        failure = storage_error("get_container", error)
        if not isinstance(failure, NotFound | Unauthorized):  # their answers have a date too
            raise failure from error
    try:
        return parsedate_to_datetime(seen[-1])
    except (IndexError, ValueError):
        raise Refused("get_container: the response has no Date header, so the storage's clock is unknown") from None
