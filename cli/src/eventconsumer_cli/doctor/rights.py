"""Permissions of the user: one SelfSubjectAccessReview for each permission."""

from collections.abc import Iterator
from dataclasses import dataclass

from eventconsumer_api.v1alpha1 import GROUP, PLURAL
from eventconsumer_cli.doctor.findings import Finding, Level
from eventconsumer_cli.errors import CliError
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import ACCESS_REVIEW


@dataclass(frozen=True)
class Right:
    """A permission that commands need.

    Attributes:
        verb: Such as get.
        group: API group; empty: core.
        resource: Resource with its subresource, such as pods/exec.
        commands: Commands that need it.
    """

    verb: str
    group: str
    resource: str
    commands: str

    def __str__(self) -> str:
        """In the terms of RBAC."""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


_TOOLS = "leases, files, lag, audit, checkpoint, hub, migrate, adopt, doctor"
NEEDED = (
    Right("get", GROUP, PLURAL, "everything"),
    Right("list", GROUP, PLURAL, "everything"),
    Right("patch", GROUP, PLURAL, "suspend, resume, replay"),
    Right("create", GROUP, PLURAL, "init"),
    Right("list", "", "pods", "hosts, logs, and " + _TOOLS),
    Right("get", "", "pods/log", "logs"),
    Right("create", "", "pods/exec", _TOOLS),
    Right("get", "", "pods/exec", _TOOLS),
    Right("get", "", "pods", _TOOLS + ", where no host runs"),
    Right("create", "", "pods", _TOOLS + ", where no host runs; doctor of a schema registry; init"),
    Right("delete", "", "pods", _TOOLS + ", where no host runs; doctor of a schema registry; init"),
    Right("get", "apps", "statefulsets", _TOOLS + ", where no host runs"),
)
REPORTS = (
    Right("get", "", "pods/proxy", "top, partitions, hosts, batches with the present reports of hosts"),
    Right("create", "", "pods/portforward", "top, partitions, hosts, batches with the present reports of hosts"),
)
"""One of them is sufficient."""


def is_allowed(cluster: Cluster, right: Right, namespace: str) -> bool:
    """Whether the user has a permission in a namespace."""
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "namespace": namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
    }
    review = {
        "apiVersion": ACCESS_REVIEW.api_version,
        "kind": ACCESS_REVIEW.name,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    return bool(cluster.create(ACCESS_REVIEW, review).get("status", {}).get("allowed"))


def look(cluster: Cluster, namespace: str) -> Iterator[Finding]:
    """Missing permissions of the user in a namespace; one positive finding if none is missing."""
    try:
        missing = [right for right in NEEDED if not is_allowed(cluster, right, namespace)]
        reports = any(is_allowed(cluster, right, namespace) for right in REPORTS)
    except CliError as error:
        yield Finding("rights", Level.UNKNOWN, f"your permissions in namespace {namespace} cannot be queried: {error}")
        return
    for right in missing:
        yield Finding(
            "rights",
            Level.WARNING,
            f"you may not {right} in namespace {namespace}: needed by {right.commands}",
            "ask an administrator for it; the chart's ClusterRoles eventconsumer-viewer, -editor and -tools contain it",
        )
    if not reports:
        yield Finding(
            "rights",
            Level.WARNING,
            f"you may neither {REPORTS[0]} nor {REPORTS[1]} in namespace {namespace}: {REPORTS[0].commands} "
            "fall back to the resource's status",
            "ask an administrator for one of them",
        )
    if not missing and reports:
        yield Finding("rights", Level.OK, f"you have all permissions that this program needs in namespace {namespace}")
