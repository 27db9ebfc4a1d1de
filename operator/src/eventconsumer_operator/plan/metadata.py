"""Which labels, annotations and priority class a user may give to host pods. Pure.

Labels and annotations steer more than they seem to: sidecar injectors, network policies, admission and cost rules read
them, and so do the operator's own selectors. A priority class may push other pods off a node. So only what the
administrator has named is allowed, and keys of Kubernetes and of this operator never are.
"""

from collections.abc import Collection, Mapping

from eventconsumer_api.scheduling import is_reserved
from eventconsumer_api.v1alpha1 import Pods
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings


def check_metadata(pods: Pods, settings: Settings) -> None:
    """Check labels, annotations and priority class.

    Raises:
        SpecError: One of them is not allowed; the message says what is, and who can change that.
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
    """All keys of a domain where the prefix ends with its slash, else exactly the key."""
    return key.startswith(prefix) if prefix.endswith("/") else key == prefix


def _choice(allowed: Collection[str], setting: str) -> str:
    if not allowed:
        return f"none is, until the operator's administrator names some in {setting}"
    return f"use {', '.join(allowed)}, or let the operator's administrator add to {setting}"
