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
from urllib.parse import quote_plus, urlencode

import structlog
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError

from eventconsumer_processor.amqp import codec
from eventconsumer_processor.amqp.connection import Connection
from eventconsumer_processor.amqp.requests import Requests, check, request
from eventconsumer_processor.errors import HubUnauthorized, HubUnreachable, SourceError

ADDRESS = "$cbs"
LIFETIME_SECONDS = 3600  # lifetime of a created signature
SCOPE = "https://eventhubs.azure.net/.default"
_RETRY_SECONDS = 30.0  # after a failed renewal
_SOON_SECONDS = 5.0  # at the earliest
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


def renew_after(token: Token, now: float, failed: bool = False) -> float | None:
    """Seconds until the token must be renewed: a tenth of its lifetime before it expires; None: never.

    Args:
        token: The last token.
        now: Seconds since 1970.
        failed: Whether a renewal just failed: the next one follows soon, the sooner the less time is left.
    """
    if token.expires_at is None or not token.renewable:
        return None
    left = token.expires_at - now
    return max(_SOON_SECONDS, min(_RETRY_SECONDS, left / 2) if failed else left * 0.9)


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
        self.token = ""
        """The text of the last token."""

    async def claim(self) -> None:
        """Attach to `$cbs`, put the first token, and start to renew it.

        Raises:
            HubUnauthorized: The token is refused.
            SourceError: There is no response.
        """
        await self._service.attach()
        self._renewing = asyncio.create_task(self._renew(await self._put()))

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

    async def _renew(self, token: Token) -> None:
        failed = False
        while (seconds := renew_after(token, time.time(), failed)) is not None:
            await asyncio.sleep(seconds)
            if self._connection.error is not None:
                return
            try:
                token, failed = await self._put(), False
            except SourceError as error:
                failed = True
                log.warning("failed to renew the token; retrying", error=str(error))

    async def _put(self) -> Token:
        token = await self._source(time.time())
        check(await self._service.ask(lambda identifier: put_token(token, self._audience, identifier)))
        self.token = token.text
        return token


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
