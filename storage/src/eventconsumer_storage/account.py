"""The storage account of a container: endpoint and credential, from the resource and a connection string.

It is resolved once for the host's clients, Spark's client and Spark's ABFS connector. Fields with a secret are excluded
from `repr`.
"""

import base64
import binascii
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.storage.blob import BlobServiceClient

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.spec.endpoints import account_name, storage_refusal
from eventconsumer_api.wire.host_config import BlobContainer, Credential
from eventconsumer_storage.credential import (
    check_workload_identity,
    insecure,
    invalid,
    read_connection_string,
    refuse,
    refuse_named,
)


@dataclass(frozen=True)
class StorageAccount:
    """A blob endpoint and a credential: exactly one of `key`, `sas` and `client_id` is set."""

    endpoint: str  # without a slash at the end
    name: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    client_id: str | None = None
    api_version: str | None = None  # of the REST API; None: the client library's default

    @property
    def secure(self) -> bool:
        """Whether the endpoint uses TLS."""
        return self.endpoint.startswith("https://")

    @property
    def key_credential(self) -> AzureNamedKeyCredential | AzureSasCredential | None:
        """Key or signature in the form of Azure's clients; None for an identity.

        Not plain text: the client appends a text signature to its URL, which appears in messages
        (azure-storage-blob, `StorageAccountHostsMixin._format_query_string`).
        """
        if self.key is not None:
            return AzureNamedKeyCredential(self.name, self.key)
        return AzureSasCredential(self.sas) if self.sas is not None else None


def resolve_account(
    location: BlobContainer, owner_field: str, *, allow_insecure: bool, suffixes: Collection[str]
) -> StorageAccount:
    """The account of a container.

    Args:
        location: The account, container and credential.
        owner_field: `spec.checkpointStore` or `spec.sink`, for messages.
        allow_insecure: Whether plain HTTP, and any host, is allowed.
        suffixes: Otherwise, the allowed suffixes of storage accounts.

    Raises:
        Blocked: The Secret's key is missing; or the text is not a connection string of a storage account, contradicts
            the resource, or names a plain endpoint or a host that the administrator has not allowed; or the client
            library does not know the version of the API.
    """
    _check_version(location.storage_api_version, owner_field)
    credential = location.credential
    if credential.client_id is not None:
        return _of_identity(location, owner_field, None if allow_insecure else suffixes)
    text, parts = read_connection_string(credential, "DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…")
    signature = parts.get("sharedaccesssignature")
    development = parts.get("usedevelopmentstorage", "").lower() == "true"
    if not development and not signature:
        _check_account_key(credential, parts)
    try:
        with BlobServiceClient.from_connection_string(text) as client:
            endpoint = _endpoint(client.url)
            key = getattr(client.credential, "account_key", None)
    except (ValueError, KeyError):  # the library's message may contain parts of the text
        raise invalid(credential, "is not a connection string of a storage account") from None
    if not allow_insecure:
        if not endpoint.startswith("https://"):
            raise insecure(credential, f"has a plain endpoint, {endpoint}")
        for address in filter(None, (endpoint, parts.get("blobsecondaryendpoint"))):
            refuse_named(credential, storage_refusal(_address(address), suffixes))
    if location.storage_account_url and _endpoint(location.storage_account_url).lower() != endpoint.lower():
        raise invalid(
            credential,
            f"is for {endpoint}, but {owner_field}.storageAccountUrl is {location.storage_account_url}: "
            "make them equal",
        )
    name = parts.get("accountname") or account_name(endpoint)
    version = location.storage_api_version
    if signature:
        return StorageAccount(endpoint, name, sas=signature.lstrip("?"), api_version=version)
    return StorageAccount(endpoint, name, key=key, api_version=version)


def _of_identity(location: BlobContainer, owner_field: str, suffixes: Collection[str] | None) -> StorageAccount:
    url, credential = location.storage_account_url, location.credential
    if not url:
        raise Blocked(f"{owner_field}.storageAccountUrl", Reason.SPEC_INVALID, "required with workloadIdentity")
    if not url.startswith("https://"):
        raise Blocked(
            f"{owner_field}.storageAccountUrl",
            Reason.INSECURE_ENDPOINT,
            "tokens are sent over https only: set https://<account>.blob.core.windows.net",
        )
    if suffixes is not None:
        refuse(f"{owner_field}.storageAccountUrl", storage_refusal(_address(url), suffixes))
    check_workload_identity(credential, Reason.STORAGE_UNAUTHORIZED)
    endpoint = _endpoint(url)
    return StorageAccount(
        endpoint, account_name(endpoint), client_id=credential.client_id, api_version=location.storage_api_version
    )


def _check_version(version: str | None, owner_field: str) -> None:
    """Verify that the client library knows a version: it raises ValueError with the list of those that it knows."""
    if version is not None:
        try:
            BlobServiceClient("https://account.blob.core.windows.net", api_version=version).close()
        except ValueError as error:
            known = " ".join(str(error).split())
            raise Blocked(f"{owner_field}.storageApiVersion", Reason.SPEC_INVALID, known) from None


def _check_account_key(credential: Credential, parts: dict[str, str]) -> None:
    for part in ("AccountName", "AccountKey"):
        if not parts.get(part.lower()):
            raise invalid(credential, f"has no part {part}=…")
    try:
        base64.b64decode(parts["accountkey"], validate=True)
    except (binascii.Error, ValueError):
        raise invalid(credential, "has an AccountKey that is not base64: copy it again from the portal") from None


def _address(url: str) -> str:
    return url.removeprefix("https://").rstrip("/")


def _endpoint(url: str) -> str:
    """Scheme, host and path without the query (which may contain a signature)."""
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}{split.path}".rstrip("/")
