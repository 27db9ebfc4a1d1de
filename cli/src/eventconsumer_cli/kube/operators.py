"""The operators of a cluster, from their Deployments: namespace, served namespaces and images."""

import argparse
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eventconsumer_api import labels
from eventconsumer_api.endpoints import AZURE_HUB_SUFFIXES, AZURE_STORAGE_SUFFIXES
from eventconsumer_api.kinds import Manifest
from eventconsumer_cli.errors import Forbidden
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import DEPLOYMENT, name_of, namespace_of

LABELS = {labels.LABEL_NAME: "eventconsumer", labels.LABEL_COMPONENT: "operator"}
LABEL_VERSION = "app.kubernetes.io/version"
CONTAINER = "operator"


@dataclass(frozen=True)
class Operator:
    """One Deployment of the operator.

    Attributes:
        namespace: Its namespace.
        name: Name of the Deployment.
        version: Version of its chart; empty: unknown.
        image: Its image.
        desired: Replicas wanted.
        ready: Replicas ready.
        namespaces: Served namespaces; empty: all.
        processor_image: Image of hosts.
        host_service_account: Service account of hosts.
        allow_insecure_endpoints: Whether plain HTTP and AMQP are allowed.
        hub_suffixes: Otherwise, the allowed suffixes of namespaces of Event Hubs.
        storage_suffixes: Otherwise, the allowed suffixes of storage accounts.
        schema_registries: Otherwise, the allowed schema registries.
    """

    namespace: str
    name: str
    version: str
    image: str
    desired: int
    ready: int
    namespaces: tuple[str, ...]
    processor_image: str
    host_service_account: str
    allow_insecure_endpoints: bool
    hub_suffixes: tuple[str, ...]
    storage_suffixes: tuple[str, ...]
    schema_registries: tuple[str, ...]

    def serves(self, namespace: str) -> bool:
        """Whether it serves the EventConsumers of a namespace."""
        return not self.namespaces or namespace in self.namespaces


def find(cluster: Cluster, near: Iterable[str]) -> list[Operator]:
    """The operators that the user has permission to read.

    Args:
        cluster: The cluster.
        near: Namespaces to list if the user may not list all.

    Raises:
        Forbidden: The user may list none of them.
    """
    try:
        found = cluster.list(DEPLOYMENT, "", LABELS)
    except Forbidden as refused:
        found, seen = [], False
        for namespace in dict.fromkeys(near):
            with contextlib.suppress(Forbidden):
                found += cluster.list(DEPLOYMENT, namespace, LABELS)
                seen = True
        if not seen:
            raise refused
    return [operator_of(each) for each in found]


def operator_of(deployment: Manifest) -> Operator:
    """Parse a Deployment."""
    namespace = namespace_of(deployment)
    containers = deployment["spec"]["template"]["spec"]["containers"]
    container = next((each for each in containers if each["name"] == CONTAINER), containers[0])
    flags = _flags(container.get("args", []))
    return Operator(
        namespace=namespace,
        name=name_of(deployment),
        version=deployment["metadata"].get("labels", {}).get(LABEL_VERSION, ""),
        image=container.get("image", ""),
        desired=deployment["spec"].get("replicas", 1),
        ready=deployment.get("status", {}).get("readyReplicas", 0),
        namespaces=() if flags.all_namespaces else tuple(flags.namespace) or (namespace,),
        processor_image=flags.processor_image,
        host_service_account=flags.host_service_account,
        allow_insecure_endpoints=flags.allow_insecure_endpoints,
        hub_suffixes=tuple(flags.hub_suffix) or AZURE_HUB_SUFFIXES,
        storage_suffixes=tuple(flags.storage_suffix) or AZURE_STORAGE_SUFFIXES,
        schema_registries=tuple(flags.schema_registry),
    )


def _flags(arguments: Sequence[str]) -> argparse.Namespace:
    """The relevant flags of the operator; others are ignored, and may be newer."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--processor-image", default="")
    parser.add_argument("--host-service-account", default=labels.HOST_SERVICE_ACCOUNT)
    parser.add_argument("--all-namespaces", action="store_true")
    parser.add_argument("--namespace", action="append", default=[])
    parser.add_argument("--allow-insecure-endpoints", action="store_true")
    parser.add_argument("--hub-suffix", action="append", default=[])
    parser.add_argument("--storage-suffix", action="append", default=[])
    parser.add_argument("--schema-registry", action="append", default=[])
    return parser.parse_known_args(list(arguments))[0]
