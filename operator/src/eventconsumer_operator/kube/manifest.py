"""The kinds of objects that the operator uses, and functions on manifests. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventconsumer_api.kinds import Kind, Manifest
from eventconsumer_api.spark import Launcher
from eventconsumer_api.v1alpha1 import API_VERSION, KIND, PLURAL


@dataclass(frozen=True)
class Listing:
    """All objects of a kind at one version of the cluster.

    Attributes:
        items: The objects.
        version: The list's resourceVersion.
    """

    items: tuple[Manifest, ...]
    version: str


EVENT_CONSUMER = Kind(API_VERSION, KIND, PLURAL)
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
SERVICE = Kind("v1", "Service", "services")
POD = Kind("v1", "Pod", "pods")
EVENT = Kind("v1", "Event", "events")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
JOB = Kind("batch/v1", "Job", "jobs")
POD_DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
KUBEFLOW_APPLICATION = Kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications")
APACHE_APPLICATION = Kind("spark.apache.org/v1", "SparkApplication", "sparkapplications")

APPLICATION_KINDS = (JOB, KUBEFLOW_APPLICATION, APACHE_APPLICATION)
KINDS_OF_LAUNCHERS: Mapping[Launcher, Kind] = {
    Launcher.KUBEFLOW: KUBEFLOW_APPLICATION,
    Launcher.APACHE: APACHE_APPLICATION,
}
SPARK_OPERATORS = {KUBEFLOW_APPLICATION: "Kubeflow", APACHE_APPLICATION: "Apache"}

# Watched and kept in the store: EventConsumers, and objects with the operator's label. Pods include Spark's.
STORED = (
    EVENT_CONSUMER, CONFIG_MAP, SERVICE, STATEFUL_SET, POD_DISRUPTION_BUDGET, NETWORK_POLICY, JOB, POD,
)  # fmt: skip

_KINDS = {
    (kind.api_version, kind.name): kind
    for kind in (
        EVENT_CONSUMER, CONFIG_MAP, SERVICE, POD, EVENT, STATEFUL_SET, JOB, POD_DISRUPTION_BUDGET, NETWORK_POLICY,
        LEASE, KUBEFLOW_APPLICATION, APACHE_APPLICATION,
    )
}  # fmt: skip


def watched_kinds(launchers: Iterable[Launcher]) -> tuple[Kind, ...]:
    """The kinds that are watched and kept in the store, with these launchers enabled."""
    return (*STORED, *(KINDS_OF_LAUNCHERS[launcher] for launcher in launchers))


def install_hint(kind: Kind) -> str:
    """The remedy where the API server does not serve a kind of application; empty for a built-in kind."""
    if kind not in SPARK_OPERATORS:
        return ""
    group = kind.api_version.partition("/")[0]
    return (
        f"the API server does not serve {kind.plural}.{group} {kind.api_version.partition('/')[2]}: install the "
        f"{SPARK_OPERATORS[kind]} Spark operator with its CRDs, or set spec.spark.launcher: Native"
    )


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind of a manifest."""
    return _KINDS[manifest["apiVersion"], manifest["kind"]]


def name_of(manifest: Mapping[str, Any]) -> str:
    """The object's name."""
    return str(manifest["metadata"]["name"])


def describe(manifest: Mapping[str, Any]) -> str:
    """Kind and name as kubectl writes them, such as statefulset/orders-host."""
    return f"{str(manifest['kind']).lower()}/{name_of(manifest)}"


def controller_uid(manifest: Mapping[str, Any]) -> str | None:
    """Uid of the owner that controls the object; None if there is none."""
    for owner in manifest["metadata"].get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def is_being_deleted(manifest: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted and waits for its finalizers."""
    return "deletionTimestamp" in manifest["metadata"]


def difference(desired: object, live: object, path: str = "") -> str | None:
    """The first difference of `live` from `desired`, as text; None if there is none.

    Additional fields of `live` are ignored: defaults of the API server, and fields of other managers.
    """
    if isinstance(desired, dict) and isinstance(live, dict):
        for name, value in desired.items():
            inner = f"{path}.{name}" if path else name
            if name not in live:
                if value in ({}, [], None):
                    continue  # the API server drops empty values
                return f"{inner} is missing"
            found = difference(value, live[name], inner)
            if found:
                return found
        return None
    if isinstance(desired, list) and isinstance(live, list):
        if len(desired) != len(live):
            return f"{path} has {len(live)} entries, not {len(desired)}"
        for index, (value, other) in enumerate(zip(desired, live, strict=True)):
            found = difference(value, other, f"{path}[{index}]")
            if found:
                return found
        return None
    return None if desired == live else f"{path} is {live!r}, not {desired!r}"
