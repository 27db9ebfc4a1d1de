"""The blobs around a batch: reads its manifest, looks at its files, puts its commit, makes the output's container.

Spark reads and writes the data through ABFS; this module serves what ABFS cannot give: ETags and put-if-absent. A
blob is created with `If-None-Match: *`, so whatever exists is never overwritten.
"""

import logging
from dataclasses import dataclass
from typing import Any, Protocol, Self

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.identity import WorkloadIdentityCredential
from azure.storage.blob import ContainerClient, ExponentialRetry

from eventconsumer_spark.account import StorageAccount
from eventconsumer_spark.errors import StorageError

log = logging.getLogger("eventconsumer.spark")


@dataclass(frozen=True)
class BlobFacts:
    """What storage says about a blob: ETag as storage writes it, size in bytes."""

    etag: str
    size: int


class BlobStore(Protocol):
    """One container."""

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None where there is none."""

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None where there is none."""

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if there is none of this name; False where there is one."""


class AzureBlobStore:
    """A container of the sink's storage account.

    Raises:
        StorageError: From every method, where the account refuses or does not answer.
    """

    def __init__(self, account: StorageAccount, container: str) -> None:
        self._container = container
        self._endpoint = account.endpoint
        self._client = ContainerClient(
            account.endpoint,
            container,
            credential=_credential(account),
            # About half a minute; the default waits for three.
            retry_policy=ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=5),
            connection_timeout=10,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ensure_container(self) -> None:
        """Create the container if there is none.

        Without the right to create one, this leaves it to the first write to find out whether it is there.
        """
        try:
            self._client.create_container()
        except ResourceExistsError:
            return
        except AzureError as error:
            if not _denied(error):
                raise self._failure("create", "the container itself", error) from error
            log.info("may not create container %s: it must exist", self._container)

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None where there is none."""
        try:
            return self._client.download_blob(name, offset=0, length=limit).readall()
        except ResourceNotFoundError:
            return None
        except AzureError as error:
            raise self._failure("read", name, error) from error

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None where there is none."""
        try:
            properties = self._client.get_blob_client(name).get_blob_properties()
        except ResourceNotFoundError:
            return None
        except AzureError as error:
            raise self._failure("look at", name, error) from error
        return BlobFacts(str(properties.etag), int(properties.size))

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if there is none of this name; False where there is one."""
        try:
            self._client.upload_blob(name, content, overwrite=False)
        except (ResourceExistsError, ResourceModifiedError):
            return False
        except AzureError as error:
            raise self._failure("write", name, error) from error
        return True

    def _failure(self, verb: str, name: str, error: AzureError) -> StorageError:
        cause = error.message.splitlines()[0] if error.message else type(error).__name__
        remedy = "check that the account is reachable from the Spark pods"
        if _denied(error):
            remedy = "check that the credential of spec.sink may read and write this container"
        place = f"container {self._container} of {self._endpoint}"
        return StorageError(f"cannot {verb} {name} in {place}: {cause}: {remedy}")


def _denied(error: AzureError) -> bool:
    status = error.status_code if isinstance(error, HttpResponseError) else None
    return status in (401, 403) or isinstance(error, ClientAuthenticationError)


def _credential(account: StorageAccount) -> Any:
    if account.client_id:
        return WorkloadIdentityCredential(client_id=account.client_id)
    if account.key:
        return {"account_name": account.name, "account_key": account.key}
    return account.sas
