"""What time it is for storage: ages of blobs are told by its clock, never by that of this machine."""

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_storage.errors import Refused, storage_error


async def storage_time(service: BlobServiceClient, container: str) -> datetime:
    """The clock of a storage account, from the header Date of an answer; to the second.

    Args:
        service: The account.
        container: One to ask about; it need not be there.

    Raises:
        StorageError: No answer, or one without a time.
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
        raise Refused("get_container: the answer has no Date, so storage's clock is not known") from None
