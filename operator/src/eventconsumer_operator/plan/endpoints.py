"""Rejects endpoints to which hosts and Spark must not connect. Pure.

The rules are those of `eventconsumer_api.endpoints`; hosts check the endpoints of connection strings with them.
"""

from urllib.parse import urlsplit

from eventconsumer_api.conditions import Reason
from eventconsumer_api.endpoints import endpoint_problem
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings


def check_endpoints(spec: EventConsumerSpec, settings: Settings) -> None:
    """Check every endpoint that the spec names.

    Raises:
        SpecError: An endpoint is not HTTPS, is not a host name, or is outside the allowed domains.
    """
    if settings.allow_insecure_endpoints:
        return
    for field, url in (
        ("spec.leaseStore.storageAccountUrl", spec.lease_store.storage_account_url),
        ("spec.sink.storageAccountUrl", spec.sink.storage_account_url),
        ("spec.spark.output.path", spec.spark.output.path if spec.spark and spec.spark.output else None),
    ):
        if url is None:
            continue
        parts = urlsplit(url)
        if parts.scheme == "http":
            raise SpecError(field, f"{url} is not encrypted: use https://", Reason.INSECURE_ENDPOINT)
        _check_host(field, parts.netloc.rpartition("@")[2], settings)
    if spec.proxy is not None:
        # TLS keeps credentials from a proxy, but hosts connect to its address.
        _check_host("spec.proxy.url", urlsplit(spec.proxy.url).netloc, settings)
    if spec.event_hub.fully_qualified_namespace:
        _check_host("spec.eventHub.fullyQualifiedNamespace", spec.event_hub.fully_qualified_namespace, settings)


def _check_host(field: str, host: str, settings: Settings) -> None:
    problem = endpoint_problem(host, settings.endpoint_suffixes)
    if problem is not None:
        raise SpecError(field, problem.message, problem.reason)
