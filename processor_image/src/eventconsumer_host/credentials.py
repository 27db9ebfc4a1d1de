"""The host's credential for Event Hubs: a connection string from a mounted file, or workload identity."""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import structlog
from azure.core.credentials import AccessToken
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.spec.endpoints import hub_refusal
from eventconsumer_api.v1alpha1 import HubTransport
from eventconsumer_api.wire.host_config import Credential, HubConfig
from eventconsumer_storage.credential import (
    check_workload_identity,
    insecure,
    invalid,
    place,
    read_connection_string,
    refuse,
    refuse_named,
)

REUSE_SECONDS = 900.0  # a token with less time is not reused; above `cbs.MARGIN_SECONDS`
log = structlog.get_logger(__name__)


class FreshIdentity:
    """An identity whose tokens are valid for at least `REUSE_SECONDS`, or new.

    A credential of azure-identity returns its cached token until 5 minutes before it expires, and has no option for
    another time: `DEFAULT_REFRESH_OFFSET` in
    https://github.com/Azure/azure-sdk-for-python/blob/main/sdk/identity/azure-identity/azure/identity/_constants.py
    So each request to Entra uses a new credential.

    Args:
        make: Makes a credential.
    """

    def __init__(self, make: Callable[[], AsyncTokenCredential]) -> None:
        self._make = make
        self._tokens: dict[tuple[str, ...], AccessToken] = {}  # by scopes
        self._asking = asyncio.Lock()

    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """A token. If Entra gives none, the last one is reused until it expires.

        Raises:
            AzureError, OSError: Entra gives no token.
        """
        async with self._asking:
            last = self._tokens.get(scopes)
            left = 0.0 if last is None else last.expires_on - time.time()
            if last is not None and left > REUSE_SECONDS:
                return last
            try:
                async with self._make() as credential:
                    self._tokens[scopes] = await credential.get_token(*scopes, **options)
            except (AzureError, OSError) as error:
                if last is None or left <= 0:
                    raise
                log.warning("failed to renew the token of the identity", error=str(error), seconds_left=round(left))
                return last
            return self._tokens[scopes]

    async def close(self) -> None:
        """Nothing stays open."""

    async def __aenter__(self) -> "FreshIdentity":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Nothing stays open."""


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
        suffixes: Otherwise, the allowed suffixes of namespaces.

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
            problem = hub_refusal(config.fully_qualified_namespace, suffixes)
            refuse("spec.eventHub.fullyQualifiedNamespace", problem)
        return HubAccess(
            config.fully_qualified_namespace,
            config.name,
            config.consumer_group,
            identity=_identity(credential, Reason.EVENT_HUB_UNAUTHORIZED),
            transport=config.transport,
        )
    text, parts = read_connection_string(credential, "Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…")
    try:
        host = urlsplit(parts.get("endpoint", "")).netloc
    except ValueError:  # its text contains the endpoint
        raise invalid(credential, "has an Endpoint that is not a URL") from None
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
        refuse_named(credential, hub_refusal(host, suffixes))
    asked = parts.get("transporttype", "")
    if asked and asked.lower() != config.transport.value.lower():
        # Not followed: the operator, which reads no Secret, opens the port of spec.eventHub.transport alone.
        log.warning(
            "the connection string asks for another transport than spec.eventHub.transport, which decides",
            secret=credential.secret,
            transport=config.transport.value,
        )
    name = config.name or entity or ""
    return HubAccess(host, name, config.consumer_group, connection_string=text, transport=config.transport)


def _identity(credential: Credential, reason: Reason) -> AsyncTokenCredential:
    check_workload_identity(credential, reason)
    from azure.identity.aio import WorkloadIdentityCredential  # the import takes half a second: only if it is used

    return FreshIdentity(lambda: WorkloadIdentityCredential(client_id=credential.client_id))
