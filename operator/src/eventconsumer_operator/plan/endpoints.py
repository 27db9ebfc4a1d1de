"""Rejects endpoints to which hosts and Spark must not connect. Pure.

The rules are those of `eventconsumer_api.spec.endpoints`; hosts and Spark drivers check the endpoints of connection
strings with them.
"""

from urllib.parse import urlsplit

from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.spec.endpoints import (
    EndpointProblem,
    hub_refusal,
    notice_problem,
    proxy_problem,
    registry_problem,
    same_account,
    storage_refusal,
)
from eventconsumer_api.spec.spark import RegistryType
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings

_OUTPUT = "spec.spark.output.path"
_REGISTRY = "spec.spark.output.body.registry.url"


def check_endpoints(spec: EventConsumerSpec, settings: Settings) -> None:
    """Check every endpoint that the spec names.

    Raises:
        SpecError: A port does not exist, or an endpoint is not HTTPS, is not a host name, is outside the allowed
            domains of its role, or the output is in another account than the sink.
    """
    _check_ports(spec)
    if settings.allow_insecure_endpoints:
        return
    for field, url in (
        ("spec.checkpointStore.storageAccountUrl", spec.checkpoint_store.storage_account_url),
        ("spec.sink.storageAccountUrl", spec.sink.storage_account_url),
    ):
        if url is None:
            continue
        if not url.startswith("https://"):
            raise SpecError(field, f"{url} is not encrypted: use https://", Reason.INSECURE_ENDPOINT)
        _refuse(field, storage_refusal(_host_of(url), settings.storage_suffixes))
    if spec.spark and spec.spark.output:
        host = urlsplit(spec.spark.output.path).netloc.rpartition("@")[2]  # <container>@<host>, by the schema
        _refuse(_OUTPUT, storage_refusal(host, settings.storage_suffixes))
        sink = _host_of(spec.sink.storage_account_url or "")  # else it is in the connection string: the driver checks
        if sink and not same_account(host, sink):
            raise SpecError(_OUTPUT, f"it is in {host}, the sink in {sink}: write to the sink's account")
        if registry := spec.spark.output.body.registry:
            _refuse(_REGISTRY, registry_problem(registry.url, settings.schema_registries))
            if registry.type is RegistryType.AZURE and not registry.url.startswith("https://"):
                raise SpecError(_REGISTRY, f"{registry.url} is not encrypted: use https://", Reason.INSECURE_ENDPOINT)
    if spec.proxy is not None:
        # TLS keeps credentials of Azure from a proxy, but pods connect to its address, and may sign in there.
        _refuse("spec.proxy.url", proxy_problem(urlsplit(spec.proxy.url).netloc, settings.proxy_suffixes))
    if spec.sink.notices is not None:
        _refuse("spec.sink.notices.url", notice_problem(spec.sink.notices.url, settings.notice_endpoints))
    if spec.event_hub.fully_qualified_namespace:
        problem = hub_refusal(spec.event_hub.fully_qualified_namespace, settings.hub_suffixes)
        _refuse("spec.eventHub.fullyQualifiedNamespace", problem)


def _check_ports(spec: EventConsumerSpec) -> None:
    """The schema lets five digits through. The ports are in network policies, and the API server would refuse these."""
    output = spec.spark.output if spec.spark else None
    registry = output.body.registry if output else None
    for field, url in (
        ("spec.checkpointStore.storageAccountUrl", spec.checkpoint_store.storage_account_url),
        ("spec.sink.storageAccountUrl", spec.sink.storage_account_url),
        ("spec.sink.notices.url", spec.sink.notices.url if spec.sink.notices else None),
        ("spec.proxy.url", spec.proxy.url if spec.proxy else None),
        (_OUTPUT, output.path if output else None),
        (_REGISTRY, registry.url if registry else None),
    ):
        if url and not _has_port(url):
            raise SpecError(field, f"{url} has no valid port: use one from 1 to 65535")


def _has_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _host_of(url: str) -> str:
    return url.removeprefix("https://").rstrip("/")


def _refuse(field: str, problem: EndpointProblem | None) -> None:
    if problem is not None:
        raise SpecError(field, problem.message, problem.reason)
