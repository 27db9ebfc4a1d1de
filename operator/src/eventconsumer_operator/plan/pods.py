"""Checks the fields of pods that the administrator limits: of hosts, Spark drivers and executors. Pure.

Sidecar injectors, network policies, admission and cost rules, and the operator's selectors read labels and annotations.
A priority class may evict other pods. Taints keep pods from nodes such as those of the control plane, and labels of
nodes select them. So only values that the administrator allows are accepted, and never labels and annotations of
Kubernetes or of this operator.

Terms about other pods need no permission: they can name pods of the resource's own namespace only, and a pod goes to a
tainted node only with a toleration.

A volume costs money, and a storage class decides what it is: so classes are listed, too.
"""

from collections.abc import Collection, Iterator, Mapping

from eventconsumer_api.spec.scheduling import Affinity, NodeTerm, PodFields, Toleration, is_reserved
from eventconsumer_api.spec.spark import Scratch
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# Well-known labels that every node has or may have, and that select no kind of node:
# kubernetes.io/docs/reference/labels-annotations-taints
TOPOLOGY = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def check_pods(spec: EventConsumerSpec, settings: Settings) -> None:
    """Check labels, annotations, priority class, placement and storage class of all pods.

    Raises:
        SpecError: One of them is not allowed; the message names the allowed values and the setting.
    """
    _check(spec.pods, "spec.pods", settings)
    if spec.spark and spec.spark.enabled:
        for field, pod in (("spec.spark.driver", spec.spark.driver), ("spec.spark.executor", spec.spark.executor)):
            _check(pod, field, settings)
            if pod.scratch:
                _check_scratch(pod.scratch, f"{field}.scratch", settings)


def _check(pods: PodFields, path: str, settings: Settings) -> None:
    for field, values in (("labels", pods.labels), ("annotations", pods.annotations)):
        _check_keys(f"{path}.{field}", values, settings.pod_metadata_prefixes)
    name = pods.priority_class_name
    if name is not None and name not in settings.priority_classes:
        raise SpecError(
            f"{path}.priorityClassName",
            f"{name} is not allowed: {_choice(settings.priority_classes, 'priorityClasses')}",
        )
    for toleration in pods.tolerations:
        _check_toleration(f"{path}.tolerations", toleration, settings.taint_prefixes)
    labels = [(f"{path}.nodeSelector", key) for key in pods.node_selector]
    if pods.affinity:
        labels += _node_labels(pods.affinity, f"{path}.affinity")
        terms = _topologies(pods.affinity, f"{path}.affinity")
        labels += [(field, key) for field, key in terms if key not in TOPOLOGY]
    allowed = settings.node_label_prefixes
    for field, key in labels:
        if not _covers(allowed, key):
            raise SpecError(field, f"{key} is not allowed: {_choice(allowed, 'nodeLabelPrefixes')}")


def _check_scratch(scratch: Scratch, path: str, settings: Settings) -> None:
    name = scratch.storage_class_name
    if name is not None and name not in settings.storage_classes:
        raise SpecError(
            f"{path}.storageClassName",
            f"{name} is not allowed: {_choice(settings.storage_classes, 'storageClasses')}",
        )


def _check_keys(field: str, values: Mapping[str, str], prefixes: Collection[str]) -> None:
    for key in values:
        if is_reserved(key):
            raise SpecError(field, f"{key} is reserved for Kubernetes and this operator: remove it")
        if not _covers(prefixes, key):
            raise SpecError(field, f"{key} is not allowed: {_choice(prefixes, 'podMetadataPrefixes')}")


def _check_toleration(field: str, toleration: Toleration, prefixes: Collection[str]) -> None:
    key = toleration.key
    if not key:
        raise SpecError(field, "a toleration without a key tolerates every taint: name the key")
    if not _covers(prefixes, key):
        raise SpecError(field, f"{key} is not allowed: {_choice(prefixes, 'taintPrefixes')}")


def _node_labels(affinity: Affinity, path: str) -> Iterator[tuple[str, str]]:
    """Field and key of each condition on the labels of nodes."""
    node = affinity.node_affinity
    if node is None:
        return
    required = node.required_during_scheduling_ignored_during_execution
    terms: list[tuple[str, NodeTerm]] = [(_REQUIRED, term) for term in required.node_selector_terms] if required else []
    terms += [(_PREFERRED, each.preference) for each in node.preferred_during_scheduling_ignored_during_execution]
    for name, term in terms:
        for condition in term.match_expressions:
            yield f"{path}.nodeAffinity.{name}", condition.key


def _topologies(affinity: Affinity, path: str) -> Iterator[tuple[str, str]]:
    """Field and topology key of each term about other pods."""
    for name, pod in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pod is None:
            continue
        for term in pod.required_during_scheduling_ignored_during_execution:
            yield f"{path}.{name}.{_REQUIRED}", term.topology_key
        for wish in pod.preferred_during_scheduling_ignored_during_execution:
            yield f"{path}.{name}.{_PREFERRED}", wish.pod_affinity_term.topology_key


def _covers(prefixes: Collection[str], key: str) -> bool:
    """Whether a key is allowed: an entry with a final slash covers all keys of the domain, any other only itself."""
    return any(key.startswith(prefix) if prefix.endswith("/") else key == prefix for prefix in prefixes)


def _choice(allowed: Collection[str], setting: str) -> str:
    if not allowed:
        return f"ask the operator's administrator to set {setting}"
    return f"use {', '.join(allowed)}, or ask the operator's administrator to extend {setting}"
