"""Kinds of objects that the plugin reads, and helper functions for them. Pure."""

from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.v1alpha1 import API_VERSION, KIND, PLURAL

EVENT_CONSUMER = Kind(API_VERSION, KIND, PLURAL)
POD = Kind("v1", "Pod", "pods")
SECRET = Kind("v1", "Secret", "secrets")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
EVENT = Kind("v1", "Event", "events")
NAMESPACE = Kind("v1", "Namespace", "namespaces", namespaced=False)
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
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
    """Whether a pod is ready and not terminating."""
    conditions = pod.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
