"""The host's credential for Event Hubs: a connection string from a mounted file, or workload identity."""

from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from azure.core.credentials_async import AsyncTokenCredential

from eventconsumer_api.conditions import Reason
from eventconsumer_api.errors import Blocked
from eventconsumer_api.host_config import Credential, HubConfig
from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_storage.credential import (
    check_host,
    check_identity,
    check_named_host,
    insecure,
    invalid,
    place,
    read_connection_string,
)


@dataclass(frozen=True)
class HubAccess:
    """An Event Hub and its credential: exactly one of `connection_string` and `identity` is set."""

    host: str  # host name, with the port if the connection string has one
    name: str
    consumer_group: str
    connection_string: str | None = field(default=None, repr=False)
    identity: AsyncTokenCredential | None = None
    transport: HubTransport = HubTransport.AMQP

    @property
    def namespace(self) -> str:
        """Host name in lower case without a port: equal for all spellings."""
        return self.host.partition(":")[0].lower()


def hub_access(config: HubConfig, allow_insecure: bool, suffixes: Collection[str]) -> HubAccess:
    """Read and validate the credential of an Event Hub.

    Args:
        config: The hub and its credential.
        allow_insecure: Whether connections without TLS, and any host, are allowed.
        suffixes: The allowed domains otherwise.

    Raises:
        Blocked: The Secret's key is missing; or the text is not a connection string of Event Hubs, contradicts the
            resource, or names a connection without TLS or a host that the administrator has not allowed.
    """
    credential = config.credential
    if credential.client_id is not None:
        if not config.fully_qualified_namespace or not config.name:
            raise Blocked(
                "spec.eventHub.name", Reason.SPEC_INVALID, "namespace and name are needed with workloadIdentity"
            )
        if not allow_insecure:
            check_host("spec.eventHub.fullyQualifiedNamespace", "", config.fully_qualified_namespace, suffixes)
        return HubAccess(
            config.fully_qualified_namespace,
            config.name,
            config.consumer_group,
            identity=_identity(credential, Reason.EVENT_HUB_UNAUTHORIZED),
            transport=config.transport,
        )
    text, parts = read_connection_string(credential, "Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…")
    host = urlsplit(parts.get("endpoint", "")).netloc
    if not host:
        raise invalid(credential, "has no part Endpoint=sb://<namespace>/")
    signature, name, key = (
        parts.get(part) for part in ("sharedaccesssignature", "sharedaccesskeyname", "sharedaccesskey")
    )
    if not signature and not (name and key):
        raise invalid(credential, "has neither SharedAccessKeyName and SharedAccessKey nor SharedAccessSignature")
    expected = config.fully_qualified_namespace
    if expected and expected.lower() != host.partition(":")[0].lower():
        raise invalid(
            credential, f"is for {host}, but spec.eventHub.fullyQualifiedNamespace is {expected}: make them equal"
        )
    entity = parts.get("entitypath")
    if entity and config.name and entity.lower() != config.name.lower():
        raise invalid(credential, f"has EntityPath={entity}, but spec.eventHub.name is {config.name}: make them equal")
    if not entity and not config.name:
        raise Blocked(
            "spec.eventHub.name",
            Reason.CONNECTION_STRING_INVALID,
            f"the Event Hub has no name: set spec.eventHub.name, or add EntityPath=<hub> to {place(credential)}",
        )
    if parts.get("usedevelopmentemulator", "").lower() == "true" and not allow_insecure:
        raise insecure(credential, "asks for a connection without TLS (UseDevelopmentEmulator=true)")
    if not allow_insecure:
        check_named_host(credential, host, suffixes)
    name = config.name or entity or ""
    return HubAccess(host, name, config.consumer_group, connection_string=text, transport=config.transport)


def _identity(credential: Credential, reason: Reason) -> AsyncTokenCredential:
    check_identity(credential, reason)
    from azure.identity.aio import WorkloadIdentityCredential  # the import takes half a second: only if it is used

    return WorkloadIdentityCredential(client_id=credential.client_id)
