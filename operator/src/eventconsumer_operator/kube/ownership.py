"""Ownership of the fields of an object that the operator creates by POST and changes by server-side apply.

A POST fails where the name is taken; an apply would change the other object. But the API server records that the
operator owns the fields of a POST by `Update`, and an apply removes only fields that its manager owns by `Apply`
(https://kubernetes.io/docs/reference/using-api/server-side-apply/). So the entry becomes one of `Apply`, as client-go
does for objects of a client-side apply:
https://github.com/kubernetes/client-go/blob/master/util/csaupgrade/upgrade.go
"""

from typing import Any

from eventconsumer_api.kinds import Manifest
from eventconsumer_api.labels import FIELD_MANAGER


def created_entries(manifest: Manifest) -> list[dict[str, Any]]:
    """The entries of the object's managedFields that a POST of the operator has left."""
    return [entry for entry in _ours(manifest) if entry["operation"] == "Update"]


def handed_over(manifest: Manifest) -> Manifest:
    """The merge patch that makes the operator own its fields by `Apply`; it fails if the object has changed.

    Args:
        manifest: The object with all of its managedFields.
    """
    metadata = manifest["metadata"]
    ours = _ours(manifest)
    fields: dict[str, Any] = {}
    for entry in ours:
        _unite(fields, entry["fieldsV1"])
    applied = ours[0] | {"operation": "Apply", "fieldsV1": fields}
    others = [entry for entry in metadata["managedFields"] if entry not in ours]
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": [*others, applied]}}


def _ours(manifest: Manifest) -> list[dict[str, Any]]:
    entries = manifest["metadata"].get("managedFields", [])
    return [entry for entry in entries if entry.get("manager") == FIELD_MANAGER and not entry.get("subresource")]


def _unite(fields: dict[str, Any], more: dict[str, Any]) -> None:
    """Add a set of fields: a tree of their names, https://github.com/kubernetes-sigs/structured-merge-diff."""
    for name, inner in more.items():
        _unite(fields.setdefault(name, {}), inner)
