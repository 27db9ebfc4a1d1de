"""Claims-based security: tokens for a hub, the request on `$cbs` that puts a token, and the renewal before it expires.

Tokens are shared access signatures, created here or given, and tokens of an identity. The key is used only for the
signature; messages and reprs contain neither key nor token.
"""

import asyncio
import base64
import hmac
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote_plus, urlencode

import structlog
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError

from eventconsumer_host.amqp import codec
from eventconsumer_host.amqp.connection import Connection
from eventconsumer_host.amqp.requests import Requests, check, request
from eventconsumer_host.errors import HubBusy, HubUnauthorized, HubUnreachable, SourceError

ADDRESS = "$cbs"
LIFETIME_SECONDS = 3600  # lifetime of a created signature
SCOPE = "https://eventhubs.azure.net/.default"
# Microsoft's clients renew 10 minutes early, too, so that clocks may differ and renewals may fail:
# https://github.com/Azure/azure-sdk-for-go/blob/main/sdk/messaging/azeventhubs/internal/namespace.go
MARGIN_SECONDS = 600.0
_SOON_SECONDS = 5.0  # at the earliest, and after the first failed renewal
_RETRY_SECONDS = 60.0  # the longest pause after failed renewals
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Token:
    """A token to put.

    Attributes:
        kind: Its type for `$cbs`.
        text: The token.
        expires_at: Seconds since 1970; None: unknown.
        renewable: Whether it can be renewed.
    """

    kind: str
    text: str = field(repr=False)
    expires_at: float | None
    renewable: bool = True


TokenSource = Callable[[float], Awaitable[Token]]
"""Creates a token, given the time in seconds since 1970; raises SourceError."""


def sign(audience: str, name: str, key: str, expires_at: int) -> str:
    """A shared access signature.

    Args:
        audience: Its resource.
        name: The name of the shared access policy.
        key: Its key.
        expires_at: Seconds since 1970.
    """
    signed = f"{quote_plus(audience)}\n{expires_at}"
    signature = base64.b64encode(hmac.digest(key.encode(), signed.encode(), "sha256"))
    parts = {"sr": audience, "sig": signature, "se": str(expires_at), "skn": quote_plus(name)}
    return "SharedAccessSignature " + urlencode(parts)


def signing(audience: str, name: str, key: str) -> TokenSource:
    """Signatures by a policy's key."""

    async def make(now: float) -> Token:
        expires_at = int(now) + LIFETIME_SECONDS
        return Token("servicebus.windows.net:sastoken", sign(audience, name, key, expires_at), expires_at)

    return make


def ready_made(signature: str) -> TokenSource:
    """A given signature, which is used until it expires."""
    expiry = signature.partition("se=")[2].partition("&")[0]
    expires_at = float(expiry) if expiry.isdecimal() and expiry.isascii() else None

    async def make(now: float) -> Token:
        if expires_at is not None and expires_at <= now:
            raise HubUnauthorized("the shared access signature has expired: create a new one")
        return Token("servicebus.windows.net:sastoken", signature, expires_at, renewable=False)

    return make


def of_identity(identity: AsyncTokenCredential) -> TokenSource:
    """Tokens of an identity, which keeps and renews them itself."""

    async def make(now: float) -> Token:
        try:
            found = await identity.get_token(SCOPE)
        except ClientAuthenticationError as error:
            raise HubUnauthorized(" ".join(str(error).split())) from error
        except (AzureError, OSError) as error:
            raise HubUnreachable(" ".join(str(error).split())) from error
        return Token("jwt", found.token, float(found.expires_on))

    return make


def renew_after(token: Token, now: float, failures: int = 0) -> float | None:
    """Seconds until the token must be renewed; None: never.

    A token is renewed `MARGIN_SECONDS` before it expires, and one with a short lifetime after half of it.

    Args:
        token: The last token.
        now: Seconds since 1970.
        failures: Failed renewals since then. The pause doubles with each, and is shorter if little time is left.
    """
    if token.expires_at is None or not token.renewable:
        return None
    left = token.expires_at - now
    if failures:
        return max(_SOON_SECONDS, min(_RETRY_SECONDS, _SOON_SECONDS * float(2 ** min(failures - 1, 10)), left / 2))
    return max(_SOON_SECONDS, left - min(MARGIN_SECONDS, left / 2))


class Claims:
    """The claims of one connection.

    Args:
        connection: An open connection.
        audience: The resource to access.
        source: Creates tokens for it.
    """

    def __init__(self, connection: Connection, audience: str, source: TokenSource) -> None:
        self._connection = connection
        self._audience = audience
        self._source = source
        self._service = Requests(connection, ADDRESS)
        self._renewing: asyncio.Task[None] | None = None
        self._token: Token | None = None
        self._failure: SourceError | None = None  # of the last renewal
        self._unusable = False  # the peer detaches `$cbs`, or does not respond

    @property
    def token(self) -> str:
        """The text of the last token."""
        return "" if self._token is None else self._token.text

    @property
    def are_good(self) -> bool:
        """Whether links can be attached with them: the token is valid, and can be renewed on this connection."""
        return not self._unusable and not self._has_expired()

    def explain(self, error: SourceError) -> SourceError:
        """The error of a link, which the peer detaches when the token has expired.

        The peer's condition for this is a general one, `amqp:link:detach-forced`
        (https://github.com/Azure/azure-sdk-for-python/issues/5314).
        """
        if self._token is None or not self._has_expired() or not isinstance(error, HubUnreachable | HubUnauthorized):
            return error
        expiry = datetime.fromtimestamp(self._token.expires_at or 0, UTC).isoformat(timespec="seconds")
        why = f"could not be renewed: {self._failure}" if self._failure else "was not renewed: create a new one"
        return HubUnauthorized(f"the token expired at {expiry} and {why} ({error})")

    async def claim(self) -> None:
        """Attach to `$cbs`, put the first token, and start to renew it.

        Raises:
            HubUnauthorized: The token is refused.
            SourceError: There is no response.
        """
        await self._service.attach()
        await self._put()
        self._renewing = asyncio.create_task(self._renew())

    async def renew(self) -> None:
        """Put a new token now.

        Raises:
            HubUnauthorized: The token is refused.
            SourceError: There is no response.
        """
        await self._put()

    async def close(self) -> None:
        """Stop renewing; never fails."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])

    async def _renew(self) -> None:
        failures = 0
        while self._token and (seconds := renew_after(self._token, time.time(), failures)) is not None:
            await asyncio.sleep(seconds)
            if self._connection.error is not None:
                return
            try:
                await self._put()
                failures = 0
            except SourceError as error:
                failures += 1
                self._failure = error
                log.warning("failed to renew the token; retrying", error=str(error))

    async def _put(self) -> None:
        token = await self._source(time.time())
        try:
            answer = await self._service.ask(lambda identifier: put_token(token, self._audience, identifier))
        except SourceError as error:
            self._unusable = not isinstance(error, HubBusy)
            raise
        check(answer)
        self._token, self._failure, self._unusable = token, None, False

    def _has_expired(self) -> bool:
        expiry = None if self._token is None else self._token.expires_at
        return expiry is not None and expiry <= time.time()


def put_token(token: Token, audience: str, identifier: bytes) -> bytes:
    """The request that puts a token; `identifier` is the UUID of the message."""
    properties = {
        "operation": codec.string("put-token"),
        "type": codec.string(token.kind),
        "name": codec.string(audience),
    }
    if token.expires_at is not None:
        properties["expiration"] = codec.timestamp(int(token.expires_at * 1000))
    return request(identifier, ADDRESS, properties, codec.string(token.text))
