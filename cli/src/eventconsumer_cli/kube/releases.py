"""The release of the chart that serves a namespace: the images and accounts that commands may start pods with.

A release has a record: the ClusterRole `eventconsumer:serves:<namespace>` for each namespace that it serves, or
`eventconsumer:serves-all` for all. A user can give any name and labels to an object in a namespace of their own, but
the cluster's roles view, edit and admin do not permit to write a ClusterRole, which is in no namespace
(kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles). So a record is believed, and nothing else is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.shared.model import Report
from eventconsumer_cli.errors import Forbidden, NotFound, RefusedError
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import CLUSTER_ROLE, name_of

SERVES, SERVES_ALL = "eventconsumer:serves:", "eventconsumer:serves-all"
ANNOTATION = "installation.eventconsumer.io/"
"""Prefix of the annotation of each release, whose name ends with the release's namespace; its value is a `Settings`."""
LABEL_VERSION = "app.kubernetes.io/version"
_RESTORE = "ask an administrator of the cluster to restore it: helm upgrade does"


class Settings(Report):
    """Settings of a release that its record publishes: those of its operator, where commands do what the operator does.

    Attributes:
        version: Of this form.
        processor_image: Image of hosts.
        host_service_account: Service account of hosts.
        allow_insecure_endpoints: Whether plain HTTP and AMQP are allowed.
        hub_suffixes: Otherwise, the allowed suffixes of namespaces of Event Hubs; empty: those of Azure.
        storage_suffixes: Otherwise, the allowed suffixes of storage accounts; empty: those of Azure.
        schema_registries: Otherwise, the allowed schema registries.
    """

    model_config = ConfigDict(strict=True)

    version: Literal[1] = 1
    processor_image: str = Field(min_length=1)
    host_service_account: str = Field(min_length=1)
    allow_insecure_endpoints: bool = False
    hub_suffixes: tuple[str, ...] = ()
    storage_suffixes: tuple[str, ...] = ()
    schema_registries: tuple[str, ...] = ()


@dataclass(frozen=True)
class Release:
    """A release of the chart, as its record describes it.

    Attributes:
        record: Name of the ClusterRole.
        namespace: Namespace of its operator.
        version: Version of its chart; empty: unknown.
        settings: Its settings.
    """

    record: str
    namespace: str
    version: str
    settings: Settings

    def __str__(self) -> str:
        """For messages."""
        return f"the release in namespace {self.namespace} (ClusterRole {self.record})"


def serving(cluster: Cluster, namespace: str) -> Release:
    """The only release that serves the EventConsumers of a namespace.

    Args:
        cluster: The cluster.
        namespace: The namespace.

    Raises:
        NotFound: There is no record of such a release.
        Forbidden: There may be one, but the user may not read it.
        RefusedError: A record is damaged, or several releases claim the namespace.
    """
    claims: list[Release] = []
    refused: Forbidden | None = None
    for name in (SERVES + namespace, SERVES_ALL):
        try:
            claims += releases_of(cluster.get(CLUSTER_ROLE, "", name))
        except NotFound:
            continue
        except Forbidden as error:
            # RBAC refuses a name before it is looked up, so there may be no such record, or one for other readers
            # (recordReaders). Readers of a namespace's record may also read that of a release for all namespaces.
            refused = refused or error
    if len(claims) > 1:
        raise RefusedError(
            f"several releases claim namespace {namespace}: {' and '.join(map(str, claims))}",
            "ask an administrator of the cluster to serve it by one release (watchNamespaces, scope)",
        )
    if claims:
        return claims[0]
    remedy = (
        f"ask an administrator of the cluster to add {namespace} to the chart's watchNamespaces, or to upgrade a chart "
        "without such records"
    )
    if refused is not None:
        raise Forbidden(
            f"no record that you may read names a release for namespace {namespace}: {refused}",
            f"{remedy}, or to let you read them (recordReaders)",
        ) from refused
    raise NotFound(f"no record names a release for namespace {namespace} (ClusterRole {SERVES}{namespace})", remedy)


def releases_of(record: Manifest) -> Iterator[Release]:
    """The releases that a record names: one, unless several wrote into the same object.

    Raises:
        RefusedError: It is damaged.
    """
    name, metadata = name_of(record), record["metadata"]
    found = {key: value for key, value in metadata.get("annotations", {}).items() if key.startswith(ANNOTATION)}
    if not found:
        raise RefusedError(f"ClusterRole {name} is damaged: it has no annotation {ANNOTATION}<namespace>", _RESTORE)
    for key, value in sorted(found.items()):
        try:
            settings = Settings.model_validate_json(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join([key, *map(str, first["loc"])])
            raise RefusedError(f"ClusterRole {name} is damaged: {where}: {first['msg']}", _RESTORE) from error
        version = metadata.get("labels", {}).get(LABEL_VERSION, "")
        yield Release(record=name, namespace=key.removeprefix(ANNOTATION), version=version, settings=settings)
