"""The blobs around a batch: manifest, files, claim and commit, and the output's container.

Spark reads and writes the data through ABFS; this module serves what ABFS cannot give: ETags, leases, put-if-absent and
put-if-unchanged. Nothing is overwritten that was not named by its ETag. A request whose answer was lost is repeated by
the client and may meet its own effect: False from a conditional write means "not in this state", not "not by me".
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobLeaseClient, ContainerClient, ExponentialRetry

from eventconsumer_spark.errors import StorageError
from eventconsumer_spark.storage.account import StorageAccount

log = logging.getLogger("eventconsumer.spark")

_RENEW_TIMEOUT: Mapping[str, Any] = {"retry_total": 0, "connection_timeout": 4, "read_timeout": 4}
# A renewal that hangs must leave time for another one.


@dataclass(frozen=True)
class BlobFacts:
    """What storage says about a blob: ETag as storage writes it, size in bytes."""

    etag: str
    size: int


@dataclass(frozen=True)
class Version:
    """A blob as it was at one moment."""

    etag: str
    content: bytes


class BlobStore(Protocol):
    """One container."""

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None where there is none."""

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None where there is none."""

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if there is none of this name; False where there is one."""


class ClaimStore(BlobStore, Protocol):
    """One container whose blobs can be leased."""

    def load(self, name: str, limit: int) -> Version | None:
        """Content, at most `limit` bytes of it, with the ETag it has; None where there is no such blob."""

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still is the version `etag` and `lease` is held; False where not."""

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Take a lease of a blob under the id `lease`; False while another one is held, or where there is no blob."""

    def renew(self, name: str, lease: str) -> bool:
        """Start the time of a lease anew; False where it is not held. Not repeated, and bounded to a few seconds."""

    def release(self, name: str, lease: str) -> None:
        """End a lease at once; nothing where it is not held."""

    def break_off(self, name: str, seconds: int) -> None:
        """Let the lease of a blob end after `seconds`, whatever becomes of its holder; nothing where there is none."""


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
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ensure_container(self) -> bool:
        """Create the container if there is none; False where there is none and none may be created.

        Without the right to look, this leaves it to the first write to find out whether it is there.
        """
        try:
            self._client.create_container()
        except ResourceExistsError:
            return True
        except AzureError as error:
            if not _denied(error):
                raise self._failure("create", "the container itself", error) from error
            log.info("may not create container %s: it must exist", self._container)
            return self._may_exist()
        return True

    def _may_exist(self) -> bool:
        try:
            return self._client.exists()
        except AzureError as error:
            if not _denied(error):
                raise self._failure("look at", "the container itself", error) from error
            return True

    def read(self, name: str, limit: int) -> bytes | None:
        """Content of a blob, at most `limit` bytes of it; None where there is none."""
        version = self.load(name, limit)
        return None if version is None else version.content

    def load(self, name: str, limit: int) -> Version | None:
        """Content, at most `limit` bytes of it, with the ETag it has; None where there is no such blob."""
        with self._request("read", name):
            try:
                answer = self._client.download_blob(name, offset=0, length=limit)
                return Version(str(answer.properties.etag), bytes(answer.readall()))
            except ResourceNotFoundError:
                return None

    def facts(self, name: str) -> BlobFacts | None:
        """ETag and size of a blob; None where there is none."""
        with self._request("look at", name):
            try:
                properties = self._client.get_blob_client(name).get_blob_properties()
            except ResourceNotFoundError:
                return None
            return BlobFacts(str(properties.etag), int(properties.size))

    def create(self, name: str, content: bytes) -> bool:
        """Put a blob if there is none of this name; False where there is one."""
        with self._request("write", name):
            try:
                self._client.upload_blob(name, content, overwrite=False)
            except (ResourceExistsError, ResourceModifiedError):
                return False
            return True

    def replace(self, name: str, content: bytes, etag: str, lease: str) -> bool:
        """Put if the blob still is the version `etag` and `lease` is held; False where not."""

        def put() -> Any:
            unchanged = MatchConditions.IfNotModified
            return self._client.upload_blob(
                name, content, overwrite=True, lease=lease, etag=etag, match_condition=unchanged
            )

        with self._request("write", name):
            return _unless_refused(put)

    def acquire(self, name: str, seconds: int, lease: str) -> bool:
        """Take a lease of a blob under the id `lease`; False while another one is held, or where there is no blob."""
        with self._request("lease", name):
            return _unless_refused(lambda: self._lease(name, lease).acquire(seconds))

    def renew(self, name: str, lease: str) -> bool:
        """Start the time of a lease anew; False where it is not held. Not repeated, and bounded to a few seconds."""
        with self._request("renew the lease of", name):
            return _unless_refused(lambda: self._lease(name, lease).renew(**_RENEW_TIMEOUT))

    def release(self, name: str, lease: str) -> None:
        """End a lease at once; nothing where it is not held."""
        with self._request("release", name):
            _unless_refused(lambda: self._lease(name, lease).release(**_RENEW_TIMEOUT))

    def break_off(self, name: str, seconds: int) -> None:
        """Let the lease of a blob end after `seconds`, whatever becomes of its holder; nothing where there is none."""
        with self._request("break the lease of", name):
            _unless_refused(lambda: self._lease(name).break_lease(seconds, **_RENEW_TIMEOUT))

    def _lease(self, name: str, lease: str | None = None) -> BlobLeaseClient:
        return BlobLeaseClient(self._client.get_blob_client(name), lease_id=lease)

    @contextmanager
    def _request(self, verb: str, name: str) -> Iterator[None]:
        try:
            yield
        except AzureError as error:
            raise self._failure(verb, name, error) from error

    def _failure(self, verb: str, name: str, error: AzureError) -> StorageError:
        cause = error.message.splitlines()[0] if error.message else type(error).__name__
        remedy = "check that the account is reachable from the Spark pods"
        if _denied(error):
            remedy = "check that the credential of spec.sink may read and write this container"
        place = f"container {self._container} of {self._endpoint}"
        return StorageError(f"cannot {verb} {name} in {place}: {cause}: {remedy}")


def _unless_refused(request: Callable[[], Any]) -> bool:
    """False where the blob is not in the state that the request asks for: 404, 409 and 412."""
    try:
        request()
    except HttpResponseError as error:
        if error.status_code not in (404, 409, 412):
            raise
        # A container that is missing or being deleted is no state of a blob.
        if str(getattr(error, "error_code", "")).startswith("Container"):
            raise
        return False
    return True


def _denied(error: AzureError) -> bool:
    status = error.status_code if isinstance(error, HttpResponseError) else None
    return status in (401, 403) or isinstance(error, ClientAuthenticationError)


def _credential(account: StorageAccount) -> Any:
    if account.client_id:
        from azure.identity import WorkloadIdentityCredential  # takes half a second: only where it is used

        return WorkloadIdentityCredential(client_id=account.client_id)
    if account.key:
        return {"account_name": account.name, "account_key": account.key}
    return account.sas
