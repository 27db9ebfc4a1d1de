"""Kinds of Kubernetes objects, and their API paths. Pure."""

from dataclasses import dataclass
from typing import Any

Manifest = dict[str, Any]
"""An object as a plain dict, not a model class of the client: model classes refuse unknown fields, and a server is
often newer than a client."""


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    Attributes:
        api_version: Group and version, such as apps/v1.
        name: Kind, such as StatefulSet.
        plural: Resource name, such as statefulsets.
        namespaced: Whether objects are namespaced.
    """

    api_version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        """API group; empty: core."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """URL path of the collection, an object, or a subresource; without a namespace: for all namespaces."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        parts = [root, f"namespaces/{namespace}" if namespace and self.namespaced else "", self.plural]
        return "/".join(part for part in (*parts, name, subresource) if part)
