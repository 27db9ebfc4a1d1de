"""How the host signs in: connection strings from mounted files, or workload identity.

A Secret is mounted as a file that may be missing (the mount is optional) and may change while the host runs. So reading
a credential is an operation that can fail with a `Problem`, and that is repeated; `Credentials.fingerprint` says when a
file has changed. No value of a connection string ever enters a message.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from azure.core.credentials_async import AsyncTokenCredential
from azure.storage.blob.aio import BlobServiceClient

from eventconsumer_api.conditions import Reason
from eventconsumer_api.connection_string import ConnectionStringError, parse_connection_string
from eventconsumer_api.endpoints import endpoint_problem
from eventconsumer_api.host_config import BlobContainer, Credential, HubConfig
from eventconsumer_processor.azureblobs import client_options
from eventconsumer_processor.errors import Blocked

_IDENTITY_ENV = ("AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE")


@dataclass(frozen=True)
class HubAccess:
    """An Event Hub and how to sign in to it: exactly one of `connection_string` and `identity` is set."""

    host: str  # host name, with the port where the connection string has one
    name: str
    consumer_group: str
    connection_string: str | None = field(default=None, repr=False)
    identity: AsyncTokenCredential | None = None

    @property
    def namespace(self) -> str:
        """Host name in lower case without a port: the same for every way of writing it."""
        return self.host.partition(":")[0].lower()


def fingerprint(credentials: Iterable[Credential]) -> str:
    """A hash of all connection string files: it changes when one appears, changes or goes away."""
    digest = hashlib.sha256()
    for credential in credentials:
        digest.update((_content(credential) or "").encode() + b"\0")
    return digest.hexdigest()


def hub_access(config: HubConfig, allow_insecure: bool, suffixes: Collection[str]) -> HubAccess:
    """How to reach the Event Hub.

    Args:
        config: The hub and its credential.
        allow_insecure: Whether plain connections, and any host, are allowed.
        suffixes: Else the domains under which its host name must be.

    Raises:
        Blocked: The Secret's key is missing, the text is no connection string of Event Hubs, contradicts the resource,
            or names a plain connection or a host that the administrator has not allowed.
    """
    credential = config.credential
    if credential.client_id is not None:
        if not config.fully_qualified_namespace or not config.name:
            raise Blocked(
                "spec.eventHub.name", Reason.SPEC_INVALID, "namespace and name are needed with workloadIdentity"
            )
        if not allow_insecure:
            _check_host("spec.eventHub.fullyQualifiedNamespace", "", config.fully_qualified_namespace, suffixes)
        return HubAccess(
            config.fully_qualified_namespace,
            config.name,
            config.consumer_group,
            identity=_identity(credential, Reason.EVENT_HUB_UNAUTHORIZED),
        )
    text, parts = _parts(credential, "Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…")
    host = urlsplit(parts.get("endpoint", "")).netloc
    if not host:
        raise _invalid(credential, "has no part Endpoint=sb://<namespace>/")
    signature, name, key = (
        parts.get(part) for part in ("sharedaccesssignature", "sharedaccesskeyname", "sharedaccesskey")
    )
    if not signature and not (name and key):
        raise _invalid(credential, "has neither SharedAccessKeyName and SharedAccessKey nor SharedAccessSignature")
    expected = config.fully_qualified_namespace
    if expected and expected.lower() != host.partition(":")[0].lower():
        raise _invalid(
            credential, f"is for {host}, but spec.eventHub.fullyQualifiedNamespace is {expected}: make them equal"
        )
    entity = parts.get("entitypath")
    if entity and config.name and entity.lower() != config.name.lower():
        raise _invalid(credential, f"has EntityPath={entity}, but spec.eventHub.name is {config.name}: make them equal")
    if not entity and not config.name:
        raise Blocked(
            "spec.eventHub.name",
            Reason.CONNECTION_STRING_INVALID,
            f"no Event Hub is named: set spec.eventHub.name, or add EntityPath=<hub> to {_where(credential)}",
        )
    if parts.get("usedevelopmentemulator", "").lower() == "true" and not allow_insecure:
        raise _insecure(credential, "asks for a connection without TLS (UseDevelopmentEmulator=true)")
    if not allow_insecure:
        _check_host(credential.field, f"{_where(credential)} names a host that is refused: ", host, suffixes)
    return HubAccess(host, config.name or entity or "", config.consumer_group, connection_string=text)


def blob_service(
    location: BlobContainer, owner_field: str, allow_insecure: bool, suffixes: Collection[str]
) -> BlobServiceClient:
    """A client of the storage account.

    Args:
        location: The account, container and credential.
        owner_field: `spec.leaseStore` or `spec.sink`, for messages.
        allow_insecure: Whether plain HTTP, and any host, is allowed.
        suffixes: Else the domains under which the account's host name must be.

    Raises:
        Blocked: As `hub_access`, for a connection string of a storage account.
    """
    credential = location.credential
    if credential.client_id is not None:
        if not location.storage_account_url:
            raise Blocked(f"{owner_field}.storageAccountUrl", Reason.SPEC_INVALID, "it is needed with workloadIdentity")
        if not location.storage_account_url.startswith("https://"):
            raise Blocked(
                f"{owner_field}.storageAccountUrl",
                Reason.INSECURE_ENDPOINT,
                "a token is sent over https only: write https://<account>.blob.core.windows.net",
            )
        if not allow_insecure:
            host = urlsplit(location.storage_account_url).netloc
            _check_host(f"{owner_field}.storageAccountUrl", "", host, suffixes)
        identity = _identity(credential, Reason.STORAGE_UNAUTHORIZED)
        return BlobServiceClient(location.storage_account_url, credential=identity, **client_options())
    text, parts = _parts(credential, "DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…")
    development = parts.get("usedevelopmentstorage", "").lower() == "true"
    if not development and not parts.get("sharedaccesssignature"):
        _check_account_key(credential, parts)
    try:
        client = BlobServiceClient.from_connection_string(text, **client_options())
    except (ValueError, KeyError):  # the library's message may hold parts of the text
        raise _invalid(credential, "is not a connection string of a storage account") from None
    if urlsplit(client.url).scheme != "https" and not allow_insecure:
        raise _insecure(credential, f"has a plain endpoint, {_endpoint(client.url)}")
    if not allow_insecure:
        for address in filter(None, (client.primary_hostname, client.secondary_hostname)):
            host = address.removeprefix("https://").partition("/")[0]
            _check_host(credential.field, f"{_where(credential)} names a host that is refused: ", host, suffixes)
    if location.storage_account_url and _endpoint(location.storage_account_url) != _endpoint(client.url):
        raise _invalid(
            credential,
            f"is for {_endpoint(client.url)}, but {owner_field}.storageAccountUrl is {location.storage_account_url}: "
            "make them equal",
        )
    return client


def _check_account_key(credential: Credential, parts: dict[str, str]) -> None:
    for part in ("AccountName", "AccountKey"):
        if not parts.get(part.lower()):
            raise _invalid(credential, f"has no part {part}=…")
    try:
        base64.b64decode(parts["accountkey"], validate=True)
    except (binascii.Error, ValueError):
        raise _invalid(credential, "has an AccountKey that is not base64: copy it again from the portal") from None


def _parts(credential: Credential, form: str) -> tuple[str, dict[str, str]]:
    text = _content(credential)
    if not text:
        missing = "is empty" if text == "" else f"has no key {credential.key}"
        subject = f"Secret {credential.secret}" if missing.startswith("has") else _where(credential)
        raise Blocked(
            credential.field,
            Reason.SECRET_KEY_MISSING,
            f"{subject} {missing}: create it with a connection string of the form {form}",
        )
    try:
        return text, parse_connection_string(text)
    except ConnectionStringError as error:
        raise _invalid(credential, f"is not a connection string: {error}") from None


def _content(credential: Credential) -> str | None:
    if credential.connection_string_file is None:
        return None
    try:
        return Path(credential.connection_string_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _identity(credential: Credential, reason: Reason) -> AsyncTokenCredential:
    missing = [name for name in _IDENTITY_ENV if not os.environ.get(name)]
    if missing:
        raise Blocked(
            credential.field,
            reason,
            f"workload identity is not injected into this pod ({', '.join(missing)} not set): install the workload "
            "identity webhook and annotate the hosts' service account with azure.workload.identity/client-id",
        )
    from azure.identity.aio import WorkloadIdentityCredential  # takes half a second: only where it is used

    return WorkloadIdentityCredential(client_id=credential.client_id)


def _where(credential: Credential) -> str:
    return f"key {credential.key} of Secret {credential.secret}"


def _invalid(credential: Credential, what: str) -> Blocked:
    return Blocked(credential.field, Reason.CONNECTION_STRING_INVALID, f"{_where(credential)} {what}")


def _insecure(credential: Credential, what: str) -> Blocked:
    return Blocked(
        credential.field,
        Reason.INSECURE_ENDPOINT,
        f"{_where(credential)} {what}: use a TLS endpoint, or let the administrator install the operator with "
        "allowInsecureEndpoints",
    )


def _check_host(field: str, subject: str, host: str, suffixes: Collection[str]) -> None:
    problem = endpoint_problem(host, suffixes)
    if problem is not None:
        raise Blocked(field, problem.reason, f"{subject}{problem.message}")


def _endpoint(url: str) -> str:
    """Scheme, host and path without a query (which may hold a signature)."""
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}{split.path}".rstrip("/").lower()
