"""Checks the fields of spec.pods that the administrator limits. Pure.

Sidecar injectors, network policies, admission and cost rules, and the operator's selectors read labels and annotations.
A priority class may evict other pods. Taints keep pods from nodes such as those of the control plane, and labels of
nodes select them. So only values that the administrator allows are accepted, and never labels and annotations of
Kubernetes or of this operator.

Terms about other pods need no permission: they can name pods of the resource's own namespace only, and a pod goes to a
tainted node only with a toleration.
"""

from collections.abc import Collection, Iterator, Mapping

from eventconsumer_api.scheduling import Affinity, NodeTerm, Toleration, is_reserved
from eventconsumer_api.v1alpha1 import Pods
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings

_AFFINITY = "spec.pods.affinity"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# Well-known labels that every node has or may have, and that select no kind of node:
# kubernetes.io/docs/reference/labels-annotations-taints
TOPOLOGY = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def check_pods(pods: Pods, settings: Settings) -> None:
    """Check labels, annotations, priority class and placement.

    Raises:
        SpecError: One of them is not allowed; the message names the allowed values and the setting.
    """
    for field, values in (("labels", pods.labels), ("annotations", pods.annotations)):
        _check_keys(f"spec.pods.{field}", values, settings.pod_metadata_prefixes)
    name = pods.priority_class_name
    if name is not None and name not in settings.priority_classes:
        raise SpecError(
            "spec.pods.priorityClassName",
            f"{name} is not allowed: {_choice(settings.priority_classes, 'priorityClasses')}",
        )
    for toleration in pods.tolerations:
        _check_toleration(toleration, settings.taint_prefixes)
    labels = [("spec.pods.nodeSelector", key) for key in pods.node_selector]
    if pods.affinity:
        labels += _node_labels(pods.affinity)
        labels += [(field, key) for field, key in _topologies(pods.affinity) if key not in TOPOLOGY]
    allowed = settings.node_label_prefixes
    for field, key in labels:
        if not _covers(allowed, key):
            raise SpecError(field, f"{key} is not allowed: {_choice(allowed, 'nodeLabelPrefixes')}")


def _check_keys(field: str, values: Mapping[str, str], prefixes: Collection[str]) -> None:
    for key in values:
        if is_reserved(key):
            raise SpecError(field, f"{key} is reserved for Kubernetes and this operator: remove it")
        if not _covers(prefixes, key):
            raise SpecError(field, f"{key} is not allowed: {_choice(prefixes, 'podMetadataPrefixes')}")


def _check_toleration(toleration: Toleration, prefixes: Collection[str]) -> None:
    key = toleration.key
    if not key:
        raise SpecError("spec.pods.tolerations", "a toleration without a key tolerates every taint: name the key")
    if not _covers(prefixes, key):
        raise SpecError("spec.pods.tolerations", f"{key} is not allowed: {_choice(prefixes, 'taintPrefixes')}")


def _node_labels(affinity: Affinity) -> Iterator[tuple[str, str]]:
    """Field and key of each condition on the labels of nodes."""
    node = affinity.node_affinity
    if node is None:
        return
    required = node.required_during_scheduling_ignored_during_execution
    terms: list[tuple[str, NodeTerm]] = [(_REQUIRED, term) for term in required.node_selector_terms] if required else []
    terms += [(_PREFERRED, each.preference) for each in node.preferred_during_scheduling_ignored_during_execution]
    for name, term in terms:
        for condition in term.match_expressions:
            yield f"{_AFFINITY}.nodeAffinity.{name}", condition.key


def _topologies(affinity: Affinity) -> Iterator[tuple[str, str]]:
    """Field and topology key of each term about other pods."""
    for name, pod in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pod is None:
            continue
        for term in pod.required_during_scheduling_ignored_during_execution:
            yield f"{_AFFINITY}.{name}.{_REQUIRED}", term.topology_key
        for wish in pod.preferred_during_scheduling_ignored_during_execution:
            yield f"{_AFFINITY}.{name}.{_PREFERRED}", wish.pod_affinity_term.topology_key


def _covers(prefixes: Collection[str], key: str) -> bool:
    """Whether a key is allowed: an entry with a final slash covers all keys of the domain, any other only itself."""
    return any(key.startswith(prefix) if prefix.endswith("/") else key == prefix for prefix in prefixes)


def _choice(allowed: Collection[str], setting: str) -> str:
    if not allowed:
        return f"ask the operator's administrator to set {setting}"
    return f"use {', '.join(allowed)}, or ask the operator's administrator to extend {setting}"
