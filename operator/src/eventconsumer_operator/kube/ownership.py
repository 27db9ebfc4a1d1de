"""Ownership of objects, and of the fields of an object that the operator creates by POST and changes by apply.

An object without a controller that carries the operator's labels and its annotation is an *orphan*: a deletion with
`--cascade=orphan` or a restore of a backup (Velero keeps labels and annotations, and no owners) has taken its owner
away. The operator adopts it, as the controllers of Kubernetes adopt objects that match and have no controller:
https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/controller_ref_manager.go

A POST fails where the name is taken; an apply would change the other object. But the API server records that the
operator owns the fields of a POST by `Update`, and an apply removes only fields that its manager owns by `Apply`
(https://kubernetes.io/docs/reference/using-api/server-side-apply/). So the entry becomes one of `Apply`, as client-go
does for objects of a client-side apply:
https://github.com/kubernetes/client-go/blob/master/util/csaupgrade/upgrade.go
"""

from typing import Any

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.labels import FIELD_MANAGER, LABEL_CONSUMER, LABEL_MANAGED_BY, MANAGED_BY

ANNOTATION_APPLIED = "eventconsumer.io/applied"
"""Annotation of an object that the operator applies: the digest of the manifest."""


def is_orphan(manifest: Manifest) -> bool:
    """Whether an operator made the object, and no object is its controller."""
    metadata = manifest["metadata"]
    told = metadata.get("labels", {})
    return (
        not any(owner.get("controller") for owner in metadata.get("ownerReferences", []))
        and told.get(LABEL_MANAGED_BY) == MANAGED_BY
        and LABEL_CONSUMER in told
        and ANNOTATION_APPLIED in metadata.get("annotations", {})
    )


def created_entries(manifest: Manifest) -> list[dict[str, Any]]:
    """The entries of the object's managedFields that a POST of the operator has left."""
    return [entry for entry in _ours(manifest) if entry["operation"] == "Update"]


def handed_over(manifest: Manifest) -> Manifest:
    """The merge patch that makes the operator own its fields by `Apply`; it fails if the object has changed.

    Args:
        manifest: The object with all of its managedFields.
    """
    return _applied(manifest, _ours(manifest))


def adopted(manifest: Manifest) -> Manifest | None:
    """The merge patch that makes the operator own the fields of an orphan by `Apply`; it fails if the orphan changed.

    The tool that restored the object owns all of its fields. Without the patch, no apply of the operator could remove
    one of them.

    Args:
        manifest: The object with all of its managedFields.

    Returns:
        None: The operator owns its fields already.
    """
    if any(entry["operation"] == "Apply" for entry in _ours(manifest)):
        return None
    entries = manifest["metadata"].get("managedFields", [])
    return _applied(manifest, [entry for entry in entries if not entry.get("subresource")])


def _applied(manifest: Manifest, ours: list[dict[str, Any]]) -> Manifest:
    """The merge patch that makes entries of managedFields one entry of the operator by `Apply`."""
    metadata = manifest["metadata"]
    fields: dict[str, Any] = {}
    for entry in ours:
        _unite(fields, entry["fieldsV1"])
    applied = ours[0] | {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}
    others = [entry for entry in metadata["managedFields"] if entry not in ours]
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": [*others, applied]}}


def _ours(manifest: Manifest) -> list[dict[str, Any]]:
    entries = manifest["metadata"].get("managedFields", [])
    return [entry for entry in entries if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource")]


def _unite(fields: dict[str, Any], more: dict[str, Any]) -> None:
    """Add a set of fields: a tree of their names, https://github.com/kubernetes-sigs/structured-merge-diff."""
    for name, inner in more.items():
        _unite(fields.setdefault(name, {}), inner)
