"""Tokens for a hub: shared access signatures, created here or given, and tokens of an identity; and their renewal.

The key is used only for the signature; messages and reprs contain neither key nor token.
"""

import base64
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError

from eventconsumer_processor.errors import HubUnauthorized, HubUnreachable

LIFETIME_SECONDS = 3600  # lifetime of a created signature
SCOPE = "https://eventhubs.azure.net/.default"
_RETRY_SECONDS = 30.0  # after a failed renewal
_SOON_SECONDS = 5.0  # at the earliest


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
