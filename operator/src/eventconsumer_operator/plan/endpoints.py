"""Refuses endpoints that a user must not make the hosts talk to. Pure.

Hosts hold credentials and stand inside the cluster's network: a resource must not point them at plain-text endpoints,
at the node (localhost, link-local) or at bare addresses. Endpoints inside connection strings are checked by the
hosts, by the same rules.
"""

import ipaddress
from urllib.parse import urlsplit

from eventconsumer_api.conditions import Reason
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError


def check_endpoints(spec: EventConsumerSpec) -> None:
    """Check every endpoint that the spec names.

    Raises:
        SpecError: An endpoint is not HTTPS, is an IP address, or is the host itself.
    """
    for field, url in (
        ("spec.leaseStore.storageAccountUrl", spec.lease_store.storage_account_url),
        ("spec.sink.storageAccountUrl", spec.sink.storage_account_url),
    ):
        if url is None:
            continue
        parts = urlsplit(url)
        if parts.scheme != "https":
            raise SpecError(field, f"{url} is not encrypted: write https://", Reason.INSECURE_ENDPOINT)
        _check_host(field, parts.hostname or "")
    if spec.event_hub.fully_qualified_namespace:
        _check_host("spec.eventHub.fullyQualifiedNamespace", spec.event_hub.fully_qualified_namespace)


def _check_host(field: str, host: str) -> None:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if host.lower().rstrip(".").rpartition(".")[2] != "localhost":
            return
    raise SpecError(
        field,
        f"{host} is an address of this machine or network: write the account's host name",
        Reason.INSECURE_ENDPOINT,
    )
