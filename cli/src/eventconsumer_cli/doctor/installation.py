"""Checks of the installation: CRD, operator, and whether their versions match."""

import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from eventconsumer_api.crdgen import custom_resource_definition
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.v1alpha1 import GROUP, PLURAL, VERSION
from eventconsumer_cli.doctor.findings import Finding, Level
from eventconsumer_cli.errors import Forbidden, NotFound
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import DEFINITION
from eventconsumer_cli.kube.operators import LABEL_VERSION, Operator, find

DEFINITION_NAME = f"{PLURAL}.{GROUP}"
_INSTALL = "install the chart helm/eventconsumer, or kubectl apply --server-side -f crds/eventconsumers.yaml"
_UPGRADE = "upgrade the chart, and this plugin to the same version; see docs/how-to/upgrade.md"

_EXACT = 2**53  # above this limit not every integer is a float


def look(cluster: Cluster, namespaces: list[str]) -> Iterator[Finding]:
    """Check the CRD and the operators.

    Args:
        cluster: The cluster.
        namespaces: Namespaces that an operator must serve.
    """
    try:
        definition = cluster.get(DEFINITION, "", DEFINITION_NAME)
    except NotFound:
        yield Finding("definition", Level.BROKEN, f"the cluster does not have {DEFINITION_NAME}", _INSTALL)
    except Forbidden as error:
        yield Finding("definition", Level.UNKNOWN, f"you have no permission to read it: {error}")
    else:
        yield from judge_definition(definition)
    try:
        operators = find(cluster, namespaces)
    except Forbidden as error:
        yield Finding("operator", Level.UNKNOWN, f"you have no permission to list it: {error}")
        return
    for namespace in namespaces:
        yield judge_operators(operators, namespace)
    for each in operators:
        yield from judge_versions(each)


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


def judge_operators(operators: list[Operator], namespace: str) -> Finding:
    """Whether exactly one operator serves a namespace, and is ready."""
    serving = [each for each in operators if each.serves(namespace)]
    if not serving:
        others = "; ".join(f"{each.namespace}/{each.name} serves {', '.join(each.namespaces)}" for each in operators)
        return Finding(
            "operator",
            Level.BROKEN,
            f"no operator serves namespace {namespace}" + (f": {others}" if others else ": none is installed"),
            f"add {namespace} to the chart's watchNamespaces" if operators else _INSTALL,
        )
    names = ", ".join(f"{each.namespace}/{each.name}" for each in serving)
    if len(serving) > 1:
        return Finding(
            "operator",
            Level.WARNING,
            f"several operators serve namespace {namespace}: {names}",
            "configure one release of the chart for each namespace (watchNamespaces)",
        )
    (only,) = serving
    if not only.ready:
        return Finding(
            "operator",
            Level.BROKEN,
            f"{names}: {only.ready} of {only.desired} replicas are ready",
            f"kubectl -n {only.namespace} describe deployment {only.name} and its pods' logs show the cause",
        )
    return Finding("operator", Level.OK, f"{names} serves namespace {namespace}, {only.ready} of {only.desired} ready")


def judge_versions(operator: Operator) -> Iterator[Finding]:
    """Whether operator and plugin have the same version."""
    if not operator.version:
        yield Finding("versions", Level.UNKNOWN, f"the version of {operator.namespace}/{operator.name} is unknown")
    elif operator.version != _own():
        yield Finding(
            "versions",
            Level.WARNING,
            f"operator {operator.namespace}/{operator.name} is {operator.version}, this plugin {_own()}",
            _UPGRADE,
        )
    else:
        yield Finding("versions", Level.OK, f"operator and plugin are {_own()}, hosts run {operator.processor_image}")


def _own() -> str:
    return version("eventconsumer-cli")
