"""Checks of the installation: CRD, release and its operator, and whether their versions match."""

import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.resource.crdgen import custom_resource_definition
from eventconsumer_api.v1alpha1 import GROUP, PLURAL, VERSION
from eventconsumer_cli.doctor.findings import Finding, Level
from eventconsumer_cli.errors import Forbidden, NotFound, RefusedError
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import DEFINITION, DEPLOYMENT
from eventconsumer_cli.kube.releases import LABEL_VERSION, Release, serving

DEFINITION_NAME = f"{PLURAL}.{GROUP}"
OPERATOR = "eventconsumer-operator"
"""Name of the chart's Deployment."""
_INSTALL = "install the chart helm/eventconsumer, or kubectl apply --server-side -f crds/eventconsumers.yaml"
_UPGRADE = "upgrade the chart, and this plugin to the same version; see docs/how-to/upgrade.md"

_EXACT = 2**53  # above this limit not every integer is a float


def look(cluster: Cluster, namespaces: list[str]) -> Iterator[Finding]:
    """Check the CRD and the releases.

    Args:
        cluster: The cluster.
        namespaces: Namespaces that a release must serve.
    """
    try:
        definition = cluster.get(DEFINITION, "", DEFINITION_NAME)
    except NotFound:
        yield Finding("definition", Level.BROKEN, f"the cluster does not have {DEFINITION_NAME}", _INSTALL)
    except Forbidden as error:
        yield Finding("definition", Level.UNKNOWN, f"you have no permission to read it: {error}")
    else:
        yield from judge_definition(definition)
    releases: dict[str, Release] = {}
    for namespace in namespaces:
        try:
            release = serving(cluster, namespace)
        except Forbidden as error:
            yield Finding("operator", Level.UNKNOWN, str(error), error.remedy)
        except (NotFound, RefusedError) as error:
            yield Finding("operator", Level.BROKEN, str(error), error.remedy)
        else:
            yield operator_of(cluster, release, namespace)
            releases[release.namespace] = release
    for release in releases.values():
        yield judge_version(release)


def judge_definition(definition: Manifest) -> Iterator[Finding]:
    """Whether the CRD is served, and matches this program's version."""
    conditions = {each["type"]: each for each in definition.get("status", {}).get("conditions", [])}
    established = conditions.get("Established", {})
    if established.get("status") != "True":
        why = established.get("message") or "the API server has not accepted it yet"
        yield Finding("definition", Level.BROKEN, f"{DEFINITION_NAME} is not established: {why}", _INSTALL)
        return
    served = next((each for each in definition["spec"]["versions"] if each["name"] == VERSION), None)
    if served is None or not served.get("served"):
        names = ", ".join(each["name"] for each in definition["spec"]["versions"] if each.get("served"))
        yield Finding("definition", Level.BROKEN, f"version {VERSION} is not served, only {names or 'none'}", _UPGRADE)
        return
    stored, own = schema_digest(definition), schema_digest(custom_resource_definition())
    installed = definition["metadata"].get("labels", {}).get(LABEL_VERSION, "")
    told = f" of version {installed}" if installed else ""
    if stored == own:
        yield Finding("definition", Level.OK, f"{VERSION}{told} is served, schema {stored} as in this plugin")
    else:
        yield Finding(
            "definition",
            Level.WARNING,
            f"the cluster's CRD{told} (schema {stored}) differs from the CRD of this plugin {_own()} (schema {own})",
            _UPGRADE,
        )


def schema_digest(definition: Manifest) -> str:
    """First 12 hexadecimal digits of the SHA-256 of the schema of this program's version."""
    schema = next(each["schema"] for each in definition["spec"]["versions"] if each["name"] == VERSION)
    return hashlib.sha256(json.dumps(_as_served(schema), sort_keys=True).encode()).hexdigest()[:12]


def _as_served(node: Any) -> Any:
    """Normalised schema: the API server omits empty values and rounds numbers to floats, such as 2**63 - 1."""
    if isinstance(node, dict):
        return {name: _as_served(value) for name, value in node.items() if value not in ("", None)}
    if isinstance(node, list):
        return [_as_served(value) for value in node]
    return float(node) if isinstance(node, int) and abs(node) > _EXACT else node


def operator_of(cluster: Cluster, release: Release, namespace: str) -> Finding:
    """Whether the operator of the release that serves a namespace is ready."""
    serves = f"{release} serves namespace {namespace}"
    name = f"{release.namespace}/{OPERATOR}"
    look = f"kubectl -n {release.namespace} describe deployment {OPERATOR} and its pods' logs show the cause"
    try:
        deployment = cluster.get(DEPLOYMENT, release.namespace, OPERATOR)
    except Forbidden as error:
        return Finding("operator", Level.UNKNOWN, f"{serves}; you have no permission to read its Deployment: {error}")
    except NotFound:
        return Finding("operator", Level.BROKEN, f"{serves}, but there is no Deployment {name}", _INSTALL)
    ready, desired = deployment.get("status", {}).get("readyReplicas", 0), deployment["spec"].get("replicas", 1)
    told = f"{serves}, {ready} of {desired} replicas of {name} are ready"
    return Finding("operator", Level.OK, told) if ready else Finding("operator", Level.BROKEN, told, look)


def judge_version(release: Release) -> Finding:
    """Whether a release and the plugin have the same version."""
    if not release.version:
        return Finding("versions", Level.UNKNOWN, f"the version of {release} is unknown")
    if release.version != _own():
        return Finding("versions", Level.WARNING, f"{release} is {release.version}, this plugin {_own()}", _UPGRADE)
    image = release.settings.processor_image
    return Finding("versions", Level.OK, f"release and plugin are {_own()}, hosts run {image}")


def _own() -> str:
    return version("eventconsumer-cli")
