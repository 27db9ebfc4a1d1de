"""Kubernetes objects as plain dicts, and where the API serves them. Pure.

Dicts and not the client's model classes: those refuse fields that they do not know, and a server is often newer than
a client.
"""

from dataclasses import dataclass
from typing import Any

from eventconsumer_api.v1alpha1 import API_VERSION, KIND, PLURAL

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    Attributes:
        api_version: Group and version, such as apps/v1.
        name: Such as StatefulSet.
        plural: Such as statefulsets.
        namespaced: Whether objects are in namespaces.
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
        """URL path of the collection, an object, or a subresource; without a namespace: of all namespaces."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"
        parts = [root, f"namespaces/{namespace}" if namespace and self.namespaced else "", self.plural]
        return "/".join(part for part in (*parts, name, subresource) if part)


EVENT_CONSUMER = Kind(API_VERSION, KIND, PLURAL)
POD = Kind("v1", "Pod", "pods")
SECRET = Kind("v1", "Secret", "secrets")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
EVENT = Kind("v1", "Event", "events")
NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
DEFINITION = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
ACCESS_REVIEW = Kind("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False)


def name_of(manifest: Manifest) -> str:
    """The object's name."""
    return str(manifest["metadata"]["name"])


def namespace_of(manifest: Manifest) -> str:
    """The object's namespace; empty: none."""
    return str(manifest["metadata"].get("namespace", ""))


def is_ready(pod: Manifest) -> bool:
    """Whether a pod is ready and not on its way out."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
