"""Allowed endpoints of a resource, or of a connection string in a Secret. Pure.

Hosts and Spark drivers hold credentials and run inside the cluster's network: a user who may create a resource or a
Secret must not be able to direct them to the node, to another service of the network, or to a machine that collects
credentials. So a host name must have the form of its role, under a suffix that the administrator allows for this role.
One list for all roles is not sufficient: under `servicebus.windows.net`, a hybrid connection of Azure Relay is a web
server of any Azure customer, and would receive the token for storage
(learn.microsoft.com/azure/azure-relay/relay-hybrid-connections-protocol).

By default the suffixes are those of Azure's clouds. The operator checks the spec; hosts and Spark drivers check
connection strings. There is no check if the administrator allowed insecure endpoints, which are for emulators.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from eventconsumer_api.spec.conditions import Reason

# Azure, Azure Government, Azure in China. Sources: learn.microsoft.com/azure/china/resources-developer-guide,
# learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure
AZURE_HUB_SUFFIXES = ("servicebus.windows.net", "servicebus.usgovcloudapi.net", "servicebus.chinacloudapi.cn")
_DNS_ZONES = "storage.azure.net"
AZURE_STORAGE_SUFFIXES = ("core.windows.net", _DNS_ZONES, "core.usgovcloudapi.net", "core.chinacloudapi.cn")

SUFFIX_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
HostSuffix = Annotated[str, Field(max_length=253, pattern=SUFFIX_PATTERN)]

# The endpoint of notices: a host name in lower case and a path, no user, password, query or encoded character, so that
# an allowed prefix and a URL are compared as texts.
# Clients resolve segments of one or two dots, so that a path would be another one: no segment has only dots.
_SEGMENT = "[.]*[A-Za-z0-9_~-][A-Za-z0-9._~-]*"
NOTICE_URL_PATTERN = rf"^https?://[a-z0-9.-]+(:[0-9]{{1,5}})?/({_SEGMENT}/)*({_SEGMENT})?$"
# The URL of a schema registry, in the same form, without a slash at its end: paths of schemas are added to it.
REGISTRY_URL_PATTERN = rf"^https?://[a-z0-9.-]+(:[0-9]{{1,5}})?(/{_SEGMENT})*$"

_NAME = re.compile(r"[a-z0-9.-]+(:[0-9]{1,5})?")
# One label, and the ports of AMQP and WebSockets. A namespace with a private endpoint keeps this name.
# Source: learn.microsoft.com/azure/event-hubs/private-link-service
_HUB = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.SUFFIX(:(5671|443))?"
# A name of 3 to 24 letters and digits, a route, the secondary region, a DNS zone. An account with a private endpoint
# keeps its name; its privatelink name is not for clients. Sources, below learn.microsoft.com/azure/storage/common:
# storage-account-overview (names, zones), network-routing-preference, storage-redundancy, storage-private-endpoints.
_ACCOUNT = r"[a-z0-9]{3,24}(-(internet|microsoft)routing)?(-secondary)?"
_STORAGE = rf"{_ACCOUNT}\.(blob|dfs)\.SUFFIX"
_STORAGE_IN_ZONE = rf"{_ACCOUNT}\.z[0-9]{{1,2}}\.(blob|dfs)\.SUFFIX"
_SERVICE = re.compile(r"([^.]+(?:\.z[0-9]{1,2})?)\.(blob|dfs)\.(.+)")


@dataclass(frozen=True)
class EndpointProblem:
    """Why an endpoint is refused: a reason for programs, and a message with the remedy."""

    reason: Reason
    message: str


def hub_refusal(host: str, suffixes: Collection[str]) -> EndpointProblem | None:
    """Why hosts must not connect to a namespace of Event Hubs, or None if they may.

    Args:
        host: Its host name, in any case, with or without a port: `<namespace>.<suffix>`.
        suffixes: The allowed suffixes, in lower case.
    """
    forms = (_with_suffix(_HUB, suffix) for suffix in suffixes)
    return _problem(host, forms, f"<namespace>.<suffix> with an allowed suffix ({', '.join(suffixes)})", "hubSuffixes")


def storage_refusal(host: str, suffixes: Collection[str]) -> EndpointProblem | None:
    """Why hosts and Spark must not connect to a storage account, or None if they may.

    Args:
        host: What follows `https://` in the endpoint, without a slash at the end, in any case:
            `<account>.blob.<suffix>` or `<account>.dfs.<suffix>`.
        suffixes: The allowed suffixes, in lower case: the part EndpointSuffix of connection strings.
    """
    forms = (_with_suffix(_STORAGE_IN_ZONE if each == _DNS_ZONES else _STORAGE, each) for each in suffixes)
    form = f"<account>.blob.<suffix> or <account>.dfs.<suffix> with an allowed suffix ({', '.join(suffixes)})"
    return _problem(host, forms, form, "storageSuffixes")


def proxy_problem(host: str, suffixes: Collection[str]) -> EndpointProblem | None:
    """Why hosts and Spark must not connect through a proxy, or None if they may.

    Args:
        host: Its host name, in any case, with or without a port.
        suffixes: The allowed domains, in lower case; a host may be one of them or a subdomain.
    """
    forms = (_with_suffix(r"([a-z0-9-]+\.)*SUFFIX(:[0-9]{1,5})?", suffix) for suffix in suffixes)
    return _problem(host, forms, f"under an allowed domain ({', '.join(suffixes) or 'there is none'})", "proxySuffixes")


def notice_problem(url: str, allowed: Collection[str]) -> EndpointProblem | None:
    """Why hosts must not send notices to a URL, or None if they may.

    Plain HTTP and addresses are allowed where the administrator names them: a receiver may be inside the network.

    Args:
        url: Of the form of NOTICE_URL_PATTERN.
        allowed: Allowed URLs; one that ends with a slash allows all URLs below it.
    """
    if any(url.startswith(each) if each.endswith("/") else url == each for each in allowed):
        return None
    choice = ", ".join(allowed) or "there is none"
    return EndpointProblem(
        Reason.ENDPOINT_NOT_ALLOWED,
        f"{url} is not an allowed endpoint ({choice}): correct the URL, or ask the operator's administrator to extend "
        "noticeEndpoints",
    )


def registry_problem(url: str, allowed: Collection[str]) -> EndpointProblem | None:
    """Why Spark must not read schemas from a URL, or None if it may.

    Plain HTTP and addresses are allowed where the administrator names them, as for notices.

    Args:
        url: Of the form of REGISTRY_URL_PATTERN.
        allowed: Allowed URLs.
    """
    if url in allowed:
        return None
    return EndpointProblem(
        Reason.ENDPOINT_NOT_ALLOWED,
        f"{url} is not an allowed schema registry ({', '.join(allowed) or 'there is none'}): correct the URL, or ask "
        "the operator's administrator to extend schemaRegistries",
    )


def port_of(url: str) -> int:
    """The port of a URL of the form of NOTICE_URL_PATTERN."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def service_of(host: str) -> str:
    """The service of a storage endpoint, by its host name: blob, dfs, or nothing."""
    found = _SERVICE.fullmatch(host.lower())
    return found[2] if found else ""


def same_account(host: str, other: str) -> bool:
    """Whether two hosts, with their ports, belong to one storage account: only `blob` and `dfs` may differ."""
    return _as_blob(host) == _as_blob(other)


def account_name(url: str) -> str:
    """Name of the storage account of a blob endpoint: path of `http://127.0.0.1:10000/name`, otherwise the first label.

    Azure's clients do the same (`StorageAccountHostsMixin` of azure-storage-blob).
    """
    parts = urlsplit(url)
    return parts.path.strip("/") or (parts.hostname or "").split(".", 1)[0]


def _as_blob(host: str) -> str:
    found = _SERVICE.fullmatch(host.lower())
    return f"{found[1]}.blob.{found[3]}" if found else host.lower()


def _with_suffix(form: str, suffix: str) -> str:
    return form.replace("SUFFIX", re.escape(suffix))


def _problem(address: str, forms: Iterable[str], form: str, setting: str) -> EndpointProblem | None:
    name = address.lower()
    inside = _is_inside(_host_in(name))
    # ASCII only: some other characters have an ASCII letter as their lower case, and resolvers map more of them (IDNA).
    if address.isascii() and not inside and any(re.fullmatch(each, name) for each in forms):
        return None
    host = name.rpartition("@")[2]  # without a user and password
    host = host if _NAME.fullmatch(host) else ascii(host)
    if inside:
        return EndpointProblem(
            Reason.INSECURE_ENDPOINT, f"{host} is an address of this machine or network: use a host name"
        )
    return EndpointProblem(
        Reason.ENDPOINT_NOT_ALLOWED,
        f"{host} is not {form}: correct the host name, or ask the operator's administrator to extend {setting}",
    )


def _host_in(address: str) -> str:
    """The host, and the port, without a user and password before it or a path behind it."""
    return re.split(r"[/?#\\]", address, maxsplit=1)[0].rpartition("@")[2]


def _is_inside(host: str) -> bool:
    """Whether a host is an address in any notation that resolvers accept, or this machine."""
    name, colon, port = host.rpartition(":")
    name = (name if colon and port.isdigit() else host).rstrip(".")
    last = name.rpartition(".")[2]
    if last == "localhost" or not last:
        return True
    # Resolvers accept "127.1", "0x7f.1" and "2130706433" as addresses; no top-level domain starts with a digit.
    if last[0].isdigit():
        return True
    try:
        ipaddress.ip_address(name.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True
