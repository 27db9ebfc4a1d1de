"""Blobs for Spark: the operations that a driver needs in addition to ABFS, without asyncio.

Azure's client repeats requests. So a repeated request may find the effect of its first attempt: `Conflict` from a
conditional write does not mean that another writer was first. Every failure is a subclass of `errors.StorageError`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from azure.core import MatchConditions
from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobLeaseClient, ContainerClient, ExponentialRetry

from eventconsumer_storage.account import StorageAccount
from eventconsumer_storage.blobs import Blob, BlobInfo, hierarchical_in, info_of
from eventconsumer_storage.errors import NotFound, Refused, Unauthorized, storage_error

READ_TIMEOUT = 60  # seconds; the default of the client
_ONCE: Mapping[str, Any] = {"retry_total": 0, "connection_timeout": 4, "read_timeout": 4}
# A renewal without a response must leave time for another attempt.


def _transport(connections: int) -> RequestsTransport:
    """HTTP with a pool of this size: the default pool keeps 10 connections, and closes each further one with a warning.

    Source: requests.readthedocs.io/en/latest/api/#requests.adapters.HTTPAdapter
    """
    transport = RequestsTransport(connection_timeout=10, read_timeout=READ_TIMEOUT)
    transport.open()
    for scheme in ("http://", "https://"):
        transport.session.get_adapter(scheme).init_poolmanager(connections, connections)
    return transport


class SyncBlobStore:
    """One container. All methods raise `StorageError`."""

    def __init__(self, account: StorageAccount, container: str, connections: int = 10) -> None:
        """Open no connection yet.

        Args:
            account: The account.
            container: Name of the container.
            connections: Connections that are kept: as many as requests at the same time, or more.
        """
        credential: Any = account.key_credential
        if account.client_id is not None:
            from azure.identity import WorkloadIdentityCredential  # import takes half a second: only if used

            credential = WorkloadIdentityCredential(client_id=account.client_id)
        self._client = ContainerClient(
            account.endpoint,
            container,
            credential=credential,
            # About half a minute; the default is three minutes.
            retry_policy=ExponentialRetry(initial_backoff=1, increment_base=2, retry_total=5),
            transport=_transport(connections),
            api_version=account.api_version,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def create_container(self) -> None:
        """Create the container; `Conflict` if it exists."""
        with _mapped("create_container"):
            self._client.create_container()

    def container_exists(self) -> bool:
        """Whether the container exists."""
        with _mapped("get_container"):
            return self._client.exists()

    def is_hierarchical(self) -> bool | None:
        """Whether the account has a hierarchical namespace; None if the credential may not ask, or nobody can say.

        A key and most signatures may ask; an identity needs the action blobServices/getInfo, which Storage Blob Data
        Contributor does not include. Source: learn.microsoft.com/rest/api/storageservices/get-account-information
        """
        try:
            with _mapped("get_account"):
                return hierarchical_in(self._client.get_account_information())
        except (Unauthorized, Refused, NotFound):
            return None

    def head(self, name: str) -> BlobInfo | None:
        """Properties of a blob; None if it does not exist."""
        try:
            with _mapped("head"):
                return info_of(self._client.get_blob_client(name).get_blob_properties())
        except NotFound:
            return None

    def read(self, name: str, limit: int) -> Blob | None:
        """A blob with at most `limit` bytes of its content; None if it does not exist."""
        try:
            with _mapped("read"):
                stream = self._client.download_blob(name, offset=0, length=limit, decompress=False)
                return Blob(info_of(stream.properties), bytes(stream.readall()))
        except NotFound:
            return None

    def put(
        self,
        name: str,
        data: bytes,
        *,
        lease_id: str | None = None,
        if_match: str | None = None,
        if_absent: bool = False,
    ) -> None:
        """Write a whole blob."""
        options: dict[str, Any] = {"lease": lease_id} if lease_id else {}
        if if_match:
            options |= {"etag": if_match, "match_condition": MatchConditions.IfNotModified}
        with _mapped("put"):
            self._client.upload_blob(name, data, overwrite=not if_absent, **options)

    def acquire_lease(self, name: str, lease_id: str, seconds: int) -> None:
        """Lease a free blob under the given id, for 15 to 60 s."""
        with _mapped("acquire_lease"):
            self._lease(name, lease_id).acquire(seconds)

    def renew_lease(self, name: str, lease_id: str) -> None:
        """Renew a lease. Not repeated, with a time limit of a few seconds."""
        with _mapped("renew_lease"):
            self._lease(name, lease_id).renew(**_ONCE)

    def release_lease(self, name: str, lease_id: str) -> None:
        """Release a lease. Not repeated, with a time limit of a few seconds."""
        with _mapped("release_lease"):
            self._lease(name, lease_id).release(**_ONCE)

    def break_lease(self, name: str, seconds: int) -> None:
        """Break the lease of a blob after `seconds`. Not repeated, with a time limit of a few seconds."""
        with _mapped("break_lease"):
            self._lease(name).break_lease(seconds, **_ONCE)

    def _lease(self, name: str, lease_id: str | None = None) -> BlobLeaseClient:
        return BlobLeaseClient(self._client.get_blob_client(name), lease_id=lease_id)


@contextmanager
def _mapped(operation: str) -> Iterator[None]:
    try:
        yield
    except (AzureError, OSError) as error:
        raise storage_error(operation, error) from error
