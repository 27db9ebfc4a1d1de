"""PURE: the storage account of the sink, from the job's description and the connection string.

One account serves everything a batch touches: manifest, drained files, output and commit. It is resolved once; a
secret stays in fields that no `repr` shows.
"""

from dataclasses import dataclass, field

from eventconsumer_api.connection_string import ConnectionStringError, parse_connection_string
from eventconsumer_api.endpoints import account_name
from eventconsumer_api.host_config import BlobLocation, Credential
from eventconsumer_spark.errors import ConfigurationError


@dataclass(frozen=True)
class StorageAccount:
    """A blob endpoint and how to sign in: exactly one of `key`, `sas` and `client_id` is set."""

    endpoint: str
    name: str
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    client_id: str | None = None

    @property
    def secure(self) -> bool:
        """Whether the endpoint speaks TLS."""
        return self.endpoint.startswith("https://")


def resolve_account(sink: BlobLocation, connection_string: str | None) -> StorageAccount:
    """Return the account of `sink`; `connection_string` is the content of the credential's file, if it has one.

    Raises:
        ConfigurationError: Neither gives an endpoint and a way to sign in; names the resource's field.
    """
    credential = sink.credential
    if connection_string is None:
        if not sink.storage_account_url or not credential.client_id:
            raise ConfigurationError(
                f"{credential.field}: workload identity needs a client id and sink.storageAccountUrl: set both"
            )
        endpoint = sink.storage_account_url.rstrip("/")
        return StorageAccount(endpoint, account_name(endpoint), client_id=credential.client_id)
    where = describe(credential)
    try:
        parts = parse_connection_string(connection_string)
    except ConnectionStringError as error:
        raise ConfigurationError(f"{where} is not a storage connection string: {error}") from None
    endpoint = (sink.storage_account_url or _endpoint(parts, where)).rstrip("/")
    name = parts.get("accountname") or account_name(endpoint)
    if key := parts.get("accountkey"):
        return StorageAccount(endpoint, name, key=key)
    if sas := parts.get("sharedaccesssignature"):
        return StorageAccount(endpoint, name, sas=sas.lstrip("?"))
    raise ConfigurationError(
        f"{where} has neither AccountKey nor SharedAccessSignature: copy the storage account's whole connection string"
    )


def describe(credential: Credential) -> str:
    """The credential as its user knows it, for messages."""
    return f"{credential.field} (Secret {credential.secret!r}, key {credential.key!r})"


def _endpoint(parts: dict[str, str], where: str) -> str:
    if endpoint := parts.get("blobendpoint"):
        return endpoint
    if name := parts.get("accountname"):
        protocol = parts.get("defaultendpointsprotocol", "https")
        return f"{protocol}://{name}.blob.{parts.get('endpointsuffix', 'core.windows.net')}"
    raise ConfigurationError(f"{where} has neither BlobEndpoint nor AccountName: copy the whole connection string")
