"""Which endpoints a resource, or a connection string in a Secret, may send hosts to. Pure.

Hosts hold credentials and run inside the cluster's network: a user who may create a resource or a Secret must not be
able to point them at the node, at another service of the network, or at a machine that collects credentials. So a host
name must lie under a suffix that the administrator allows; by default those of Azure's clouds. Operator and hosts ask
this one function: the operator about the spec, the hosts about connection strings. Nothing is asked where the
administrator allowed insecure endpoints, which is for emulators.
"""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from eventconsumer_api.conditions import Reason

AZURE_SUFFIXES = (
    # Azure, Azure Government, Azure in China: Event Hubs, and the Blob and Data Lake endpoints of storage accounts.
    "servicebus.windows.net",
    "blob.core.windows.net",
    "dfs.core.windows.net",
    "storage.azure.net",  # accounts with a DNS zone of their own: <account>.z01.blob.storage.azure.net
    "servicebus.usgovcloudapi.net",
    "blob.core.usgovcloudapi.net",
    "dfs.core.usgovcloudapi.net",
    "servicebus.chinacloudapi.cn",
    "blob.core.chinacloudapi.cn",
    "dfs.core.chinacloudapi.cn",
)

SUFFIX_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_NAME = re.compile(r"[a-z0-9.-]+")
HostSuffix = Annotated[str, Field(max_length=253, pattern=SUFFIX_PATTERN)]


@dataclass(frozen=True)
class EndpointProblem:
    """Why an endpoint is refused: a reason for programs, a sentence with the remedy for people."""

    reason: Reason
    message: str


def endpoint_problem(host: str, suffixes: Collection[str]) -> EndpointProblem | None:
    """Why hosts must not connect there, or None if they may.

    Args:
        host: A host name, in any case, with or without a port and a final dot.
        suffixes: Domains in lower case; a host may be one of them or lie below one.
    """
    name = _name(host)
    if _is_inside(name):
        return EndpointProblem(
            Reason.INSECURE_ENDPOINT, f"{name} is an address of this machine or network: write the account's host name"
        )
    # Only letters that cannot end a host name: `evil.example?.blob.core.windows.net` is a URL of evil.example.
    if _NAME.fullmatch(name) and any(name == suffix or name.endswith(f".{suffix}") for suffix in suffixes):
        return None
    return EndpointProblem(
        Reason.ENDPOINT_NOT_ALLOWED,
        f"{name} is not under one of the allowed domains ({', '.join(suffixes)}): correct the host name, or let the "
        "operator's administrator add its domain to endpointSuffixes",
    )


def account_name(url: str) -> str:
    """Name of the storage account of a blob endpoint: the path of `http://127.0.0.1:10000/name`, else the first label.

    Azure's clients read it from the same places (`StorageAccountHostsMixin` of azure-storage-blob).
    """
    parts = urlsplit(url)
    return parts.path.strip("/") or (parts.hostname or "").split(".", 1)[0]


def _name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower().rstrip(".")


def _is_inside(name: str) -> bool:
    """An address instead of a name, in any notation that a resolver takes for one, or this machine."""
    last = name.rpartition(".")[2]
    if last == "localhost" or not last:
        return True
    # A resolver reads "127.1", "0x7f.1" and "2130706433" as addresses; no top-level domain starts with a digit.
    if last[0].isdigit():
        return True
    try:
        ipaddress.ip_address(name.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True
