"""The HTTP proxy of a process: the environment, or the resource's `spec.proxy`, which replaces the environment.

The variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY are the one place that all clients read: those of storage and sign-in
(requests, aiohttp) and the receiver. `NO_PROXY` has host names and suffixes, as `urllib` reads it; no address ranges.

The user and password of a proxy are added inside the process, from a mounted Secret: they are in no pod's environment.
"""

import os
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.host_config import Credential, ProxyConfig
from eventconsumer_storage.credential import invalid, read_secret

USER_FORM = "<user>:<password>"


@dataclass(frozen=True)
class EnvironmentProxy:
    """A proxy of the environment."""

    url: str = field(repr=False)  # may contain the password
    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.port}"


def use_proxy(config: ProxyConfig | None) -> None:
    """Set the proxy of this process, for all clients that are made later.

    Args:
        config: From the resource; None: the environment stays as it is.

    Raises:
        Blocked: The Secret's key is missing or has another form.
    """
    if config is None:
        return
    url = config.url
    if config.credential is not None:
        scheme, _, address = url.partition("://")
        url = f"{scheme}://{_user_info(config.credential)}@{address}"
    # urllib prefers the names in lower case.
    os.environ |= {"https_proxy": url, "http_proxy": url, "no_proxy": ",".join(config.no_proxy)}


def proxy_for(scheme: str, host: str) -> EnvironmentProxy | None:
    """The proxy for a host; None: a direct connection.

    Args:
        scheme: http or https.
        host: Host name, without a port.

    Raises:
        Blocked: The variable is not a URL of the form http://<host>:<port>.
    """
    url = None if proxy_bypass(host) else getproxies().get(scheme)
    if not url:
        return None
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or not parts.hostname or port is None:
        name = f"{scheme.upper()}_PROXY"
        raise Blocked(name, Reason.SPEC_INVALID, f"{name} must have the form http://<host>:<port>")
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    return EnvironmentProxy(url, parts.hostname, port, user, password)


def proxy_refusal(status: int, where: str, proxy: str) -> str:
    """Cause and remedy, where a proxy answered with an error instead of connecting.

    Args:
        status: HTTP status of its answer.
        where: Requested host and port, or their role.
        proxy: Its host and port.
    """
    if status == 407:
        remedy = f"it requires a user and password: name a Secret with {USER_FORM} in spec.proxy.credentialsSecretRef"
    elif status == 401:  # of tinyproxy, for a wrong password
        remedy = "correct the user and password in the Secret of spec.proxy.credentialsSecretRef"
    elif status in {403, 405}:
        remedy = "allow this host and port in the proxy, or add the host to spec.proxy.noProxy"
    else:
        remedy = "it cannot reach this host: check the host name, and the proxy's own network"
    return f"the proxy {proxy} answered {status} to CONNECT {where}: {remedy}"


def _user_info(credential: Credential) -> str:
    user, colon, password = read_secret(credential, USER_FORM).partition(":")
    if not user or not colon:
        raise invalid(credential, f"has not the form {USER_FORM}")
    return f"{quote(user, safe='')}:{quote(password, safe='')}"
