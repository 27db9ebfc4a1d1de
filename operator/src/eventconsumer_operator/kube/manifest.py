"""The kinds of objects that the operator uses, and functions on manifests. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.kube.labels import COMPONENT_HOST, COMPONENT_PROBE, COMPONENT_SPARK, LABEL_CONSUMER
from eventconsumer_api.spec.spark import Launcher
from eventconsumer_api.v1alpha1 import API_VERSION, KIND, PLURAL
from eventconsumer_operator.kube.ownership import created_entries, is_orphan


@dataclass(frozen=True)
class ObjectList:
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
    EVENT_CONSUMER,
    CONFIG_MAP,
    SERVICE,
    STATEFUL_SET,
    POD_DISRUPTION_BUDGET,
    NETWORK_POLICY,
    JOB,
    POD,
)

_KINDS = {
    (kind.api_version, kind.name): kind
    for kind in (
        EVENT_CONSUMER,
        CONFIG_MAP,
        SERVICE,
        POD,
        EVENT,
        STATEFUL_SET,
        JOB,
        POD_DISRUPTION_BUDGET,
        NETWORK_POLICY,
        LEASE,
        KUBEFLOW_APPLICATION,
        APACHE_APPLICATION,
    )
}


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


CONTENT_MAX_BYTES = 128 * 1024
"""Content that is held of an object. Positions of 1,024 partitions, the greatest spec in practice, have 80 KiB."""

OVERSIZED = "oversized"
"""The only field of the spec of a resource, or of a child, that has more content: its size, bytes.

Neither the CRD nor the kind of a child has such a field.
"""

_METADATA = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
_DOMAINS = ("eventconsumer.io/", "app.kubernetes.io/", "sparkoperator.k8s.io/")  # of labels and annotations
_HEAD = {"apiVersion", "kind", "metadata"}
_OWNERS = 8
IPV6_SUFFIX = "-ipv6"
"""End of the names of NetworkPolicies that add addresses of IPv6 to another one."""
# The names of all other children end so.
_NAME_ENDS = (
    COMPONENT_HOST,
    COMPONENT_PROBE,
    COMPONENT_SPARK,
    f"{COMPONENT_HOST}{IPV6_SUFFIX}",
    f"{COMPONENT_SPARK}{IPV6_SUFFIX}",
)
# Longer texts of a child are held as digests, and longer annotations not at all (only drivers read one), characters.
_DIGESTED = 256


@dataclass(frozen=True, slots=True)
class Digest:
    """A long text of a live object, which is only compared."""

    sha256: bytes

    @classmethod
    def of(cls, text: str) -> "Digest":
        """The digest of a text."""
        return cls(hashlib.sha256(text.encode(errors="surrogatepass")).digest())


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Packed:
    """A spec as JSON, which takes a third of the memory of its objects; equal specs in memory are one object."""

    text: bytes

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "Packed":
        """Pack a spec. Each list of a resource has its spec again; the store and the list then share one text."""
        text = json.dumps(spec, separators=(",", ":")).encode()
        return _PACKED.setdefault(text, cls(text))


_PACKED: WeakValueDictionary[bytes, Packed] = WeakValueDictionary()


def spec_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of an EventConsumer, from the API server or from the store."""
    spec = manifest.get("spec", {})
    found: dict[str, Any] = json.loads(spec.text) if isinstance(spec, Packed) else spec
    return found


def trimmed(manifest: Manifest) -> Manifest:
    """The part of an object that the operator uses, of limited size; the rest is not held in memory.

    Anyone who may write to a served namespace can give an object the operator's label, an owner and any size. So only
    a child with the name of one has content, with digests in place of long texts; an application and a pod have their
    status.
    """
    metadata = manifest["metadata"]
    kept: Manifest = {name: metadata[name] for name in _METADATA if name in metadata}
    if manifest["kind"] != KIND:
        for field in ("labels", "annotations"):
            given = metadata.get(field, {})
            ours = {each: text for each, text in given.items() if each.startswith(_DOMAINS) and len(text) <= _DIGESTED}
            if ours:
                kept[field] = ours
        references = metadata.get("ownerReferences", [])
        if owners := [each for each in references if each.get("controller") or each["kind"] == KIND]:
            kept["ownerReferences"] = owners[:_OWNERS]
        if entries := created_entries(manifest):
            kept["managedFields"] = [{name: entries[0][name] for name in ("manager", "operation")}]
    content = _content(manifest)
    if (size := _size(content)) > CONTENT_MAX_BYTES:
        content = {"spec": {OVERSIZED: size}} if manifest["kind"] == KIND else {OVERSIZED: size}
    elif isinstance(content.get("spec"), dict) and manifest["kind"] == KIND:
        content["spec"] = Packed.of(content["spec"])
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": kept} | content


def _content(manifest: Manifest) -> Manifest:
    kind = kind_of(manifest)
    status = {"status": manifest["status"]} if "status" in manifest else {}
    if kind == EVENT_CONSUMER:
        return ({"spec": manifest["spec"]} if "spec" in manifest else {}) | status
    if kind in APPLICATION_KINDS:
        arguments = [{"args": each.get("args", [])[:2]} for each in containers_of(manifest)]
        pod = {"containers": _digested(arguments)}
        return status | ({"spec": {"template": {"spec": pod}}} if kind == JOB else {})
    if kind == POD:
        node = manifest.get("spec", {}).get("nodeName", "")
        placed = {"spec": {"nodeName": node}} if node else {}
        return placed | status if controller_uid(manifest) else {}
    consumer = manifest["metadata"].get("labels", {}).get(LABEL_CONSUMER)
    if name_of(manifest) not in {f"{consumer}-{end}" for end in _NAME_ENDS}:
        return {}
    if not controller_uid(manifest) and not is_orphan(manifest):
        return {}
    return {
        name: _digested(value) for name, value in manifest.items() if name not in {"apiVersion", "kind", "metadata"}
    }


def containers_of(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The containers of a Job's pods."""
    found: list[dict[str, Any]] = job.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    return found


def _size(node: object) -> int:
    """The approximate size of a value as JSON, bytes; a digest counts as its text."""
    if isinstance(node, Packed):
        return len(node.text)
    if isinstance(node, dict):
        return sum(len(name) + 4 + _size(value) for name, value in node.items()) + 2
    if isinstance(node, list):
        return sum(map(_size, node)) + len(node) + 2
    return len(node) + 2 if isinstance(node, str) else 8


def _digested(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: _digested(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_digested(value) for value in node]
    return Digest.of(node) if isinstance(node, str) and len(node) > _DIGESTED else node


def difference(desired: object, live: object, path: str = "") -> str | None:
    """The first difference of `live` from `desired`, as text; None if there is none.

    Additional fields of `live` are ignored: defaults of the API server, and fields of other managers. `live` may have
    digests in place of long texts.
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
    if isinstance(desired, str) and isinstance(live, Digest):
        return None if Digest.of(desired) == live else f"{path} has another text"
    return None if desired == live else f"{path} is {live!r}, not {desired!r}"
