"""Authorisation: shared access policies, SAS tokens and JWTs. Pure: the time is an argument.

A token is checked as in Azure: signature over the resource as spelled in the token, expiry, and that the resource
covers the audience. Only paths are compared, because one emulator has many host names. A JWT is accepted without
verification (the emulator has no directory), and only with the option for it.
"""

import base64
import binascii
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from .errors import EmulatorError, UsageError

LISTEN, SEND, MANAGE = "Listen", "Send", "Manage"
RIGHTS = frozenset((LISTEN, SEND, MANAGE))
SAS_TYPE = "servicebus.windows.net:sastoken"
NEVER = float("inf")


class TokenRefused(EmulatorError):
    """The token does not authenticate; the text is Azure's response with status 401."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A shared access policy.

    Attributes:
        name: the SharedAccessKeyName.
        key: the SharedAccessKey.
        rights: some of Listen, Send and Manage; Manage includes the others.
    """

    name: str
    key: str
    rights: frozenset[str]

    @classmethod
    def of(cls, name: str, key: str, rights: Iterable[str]) -> "Policy":
        """A policy from names of rights in any case.

        Raises:
            UsageError: a right is unknown, or name or key are empty.
        """
        known = {right.lower(): right for right in RIGHTS}
        asked = [right.strip() for right in rights if right.strip()]
        if unknown := [right for right in asked if right.lower() not in known]:
            raise UsageError(f"policy {name!r} has the unknown right {unknown[0]!r}: use Listen, Send or Manage")
        if not name or not key or not asked:
            raise UsageError(f"policy {name!r} needs a name, a key and at least one right (Name=Key:Listen,Send)")
        named = {known[right.lower()] for right in asked}
        return cls(name, key, RIGHTS if MANAGE in named else frozenset(named))

    def __repr__(self) -> str:
        # Keys must not appear in logs, also in the emulator.
        return f"Policy({self.name!r}, {sorted(self.rights)})"


DEFAULT_POLICY = Policy("RootManageSharedAccessKey", "SAS_KEY_VALUE", RIGHTS)
"""The policy of Microsoft's own emulator, so that its well-known connection string works too."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a token.

    Attributes:
        path: lower-case path that it covers, without slashes at the ends; "" covers the namespace.
        rights: its rights for the path.
        expires_at: seconds since the epoch.
    """

    path: str
    rights: frozenset[str]
    expires_at: float

    def covers(self, path: str) -> bool:
        """Whether the path or one of its parents was granted."""
        return not self.path or path == self.path or path.startswith(self.path + "/")


def path_of(uri: str) -> str:
    """The lower-case path of a resource given as URI or as bare path, without slashes at the ends."""
    return (urlsplit(uri).path if "://" in uri else uri).strip("/").lower()


def check_sas(token: str, audience: str, policies: Mapping[str, Policy], now: float) -> Grant:
    """Verifies a shared access signature.

    Args:
        token: ``SharedAccessSignature sr=...&sig=...&se=...&skn=...``.
        audience: the resource of the request.
        policies: the policies by name.
        now: seconds since the epoch.

    Raises:
        TokenRefused: with the reason.
    """
    kind, _, query = token.partition(" ")
    raw = dict(part.partition("=")[::2] for part in query.split("&"))
    fields = dict(parse_qsl(query, keep_blank_values=True))
    if kind != "SharedAccessSignature" or not all(fields.get(name) for name in ("sr", "sig", "se", "skn")):
        raise TokenRefused("MalformedToken: The token is not 'SharedAccessSignature sr=..&sig=..&se=..&skn=..'.")
    if not fields["se"].isascii() or not fields["se"].isdecimal():
        raise TokenRefused("MalformedToken: The expiry 'se' of the token is not a number of seconds.")
    policy = policies.get(unquote_plus(fields["skn"])) or policies.get(fields["skn"])
    if policy is None:
        raise TokenRefused("InvalidSignature: The token has an invalid signature.")
    signed = f"{raw['sr']}\n{raw['se']}".encode()
    expected = base64.b64encode(hmac.digest(policy.key.encode(), signed, "sha256")).decode()
    if not hmac.compare_digest(expected.encode(), fields["sig"].encode()):
        raise TokenRefused("InvalidSignature: The token has an invalid signature.")
    if (expires_at := float(fields["se"])) <= now:
        raise TokenRefused(f"ExpiredToken: The token is expired. Expiration time: '{fields['se']}'.")
    grant = Grant(path_of(fields["sr"]), policy.rights, expires_at)
    if not grant.covers(path_of(audience)):
        raise TokenRefused("InvalidAudience: The authorization header contains a token with a wrong audience.")
    return Grant(path_of(audience), policy.rights, expires_at)


def check_jwt(token: str, audience: str, expires_at: float | None, now: float) -> Grant:
    """Accepts a bearer token for every right until it expires; its signature is not verified.

    Args:
        token: the token; its ``exp`` claim is used if it can be read.
        audience: the resource of the request.
        expires_at: expiry from the client, seconds since the epoch, used if the token has none.
        now: seconds since the epoch.

    Raises:
        TokenRefused: it is empty or expired.
    """
    if not token:
        raise TokenRefused("MalformedToken: The token is empty.")
    claimed = _claims(token).get("exp")
    until = float(claimed) if isinstance(claimed, int | float) else expires_at if expires_at is not None else NEVER
    if until <= now:
        raise TokenRefused(f"ExpiredToken: The token is expired. Expiration time: '{int(until)}'.")
    return Grant(path_of(audience), RIGHTS, until)


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
