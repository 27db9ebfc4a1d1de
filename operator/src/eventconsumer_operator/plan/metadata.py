"""Checks labels, annotations and the priority class of host pods. Pure.

Sidecar injectors, network policies, admission and cost rules, and the operator's selectors read labels and annotations.
A priority class may evict other pods. So only values that the administrator allows are accepted, and never keys of
Kubernetes or of this operator.
"""

from collections.abc import Collection, Mapping

from eventconsumer_api.scheduling import is_reserved
from eventconsumer_api.v1alpha1 import Pods
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings


def check_metadata(pods: Pods, settings: Settings) -> None:
    """Check labels, annotations and priority class.

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


def _check_keys(field: str, values: Mapping[str, str], prefixes: Collection[str]) -> None:
    for key in values:
        if is_reserved(key):
            raise SpecError(field, f"{key} is reserved for Kubernetes and this operator: remove it")
        if not any(_covers(prefix, key) for prefix in prefixes):
            raise SpecError(field, f"{key} is not allowed: {_choice(prefixes, 'podMetadataPrefixes')}")


def _covers(prefix: str, key: str) -> bool:
    """A prefix with a final slash covers all keys of the domain, any other only the same key."""
    return key.startswith(prefix) if prefix.endswith("/") else key == prefix


def _choice(allowed: Collection[str], setting: str) -> str:
    if not allowed:
        return f"ask the operator's administrator to set {setting}"
    return f"use {', '.join(allowed)}, or ask the operator's administrator to extend {setting}"
