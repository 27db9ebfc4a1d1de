"""Allowed endpoints of a resource, or of a connection string in a Secret. Pure.

Hosts hold credentials and run inside the cluster's network: a user who may create a resource or a Secret must not be
able to direct them to the node, to another service of the network, or to a machine that collects credentials. So a host
name must be under a suffix that the administrator allows; by default the suffixes of Azure's clouds. Operator and hosts
use this function: the operator for the spec, the hosts for connection strings. There is no check if the administrator
allowed insecure endpoints, which are for emulators.
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
    "storage.azure.net",  # accounts with their own DNS zone: <account>.z01.blob.storage.azure.net
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
    """Why an endpoint is refused: a reason for programs, and a message with the remedy."""

    reason: Reason
    message: str


def endpoint_problem(host: str, suffixes: Collection[str]) -> EndpointProblem | None:
    """Why hosts must not connect to a host name, or None if they may.

    Args:
        host: A host name, in any case, with or without a port and a final dot.
        suffixes: Domains in lower case; a host may be one of them or a subdomain.
    """
    name = _name(host)
    if _is_inside(name):
        return EndpointProblem(
            Reason.INSECURE_ENDPOINT, f"{name} is an address of this machine or network: use a host name"
        )
    # Only characters that cannot end a host name: `evil.example?.blob.core.windows.net` is a URL of evil.example.
    if _NAME.fullmatch(name) and any(name == suffix or name.endswith(f".{suffix}") for suffix in suffixes):
        return None
    return EndpointProblem(
        Reason.ENDPOINT_NOT_ALLOWED,
        f"{name} is not under one of the allowed domains ({', '.join(suffixes)}): correct the host name, or ask the "
        "operator's administrator to add its domain to endpointSuffixes",
    )


def account_name(url: str) -> str:
    """Name of the storage account of a blob endpoint: path of `http://127.0.0.1:10000/name`, otherwise the first label.

    Azure's clients do the same (`StorageAccountHostsMixin` of azure-storage-blob).
    """
    parts = urlsplit(url)
    return parts.path.strip("/") or (parts.hostname or "").split(".", 1)[0]


def _name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower().rstrip(".")


def _is_inside(name: str) -> bool:
    """Whether a host is an address in any notation that resolvers accept, or this machine."""
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
