"""Names, labels and owners of children. Pure.

Names are functions of the resource, so a repeated or interrupted reconcile finds its earlier children. Children only
have the operator's labels: labels of the resource belong to the user's tools, which copies would confuse.
"""

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Kind, Manifest
from eventconsumer_api.v1alpha1 import API_VERSION, KIND
from eventconsumer_operator.keys import Key
from eventconsumer_operator.kube.manifest import IPV6_SUFFIX, STATEFUL_SET, controller_uid
from eventconsumer_operator.kube.ownership import is_orphan
from eventconsumer_operator.resource.observed import Consumer, Observed

APPLICATION = "eventconsumer"
HOST_SUFFIX = "-host"
"""End of the names of the hosts' objects."""
_APPLICATION_NAME_PART = 28
_APPLICATION_NAME_LIMIT = 51  # launchers add up to 12 characters for pods and services, and 63 is the limit
_REPLAY_NAME_PART = 25  # <25>-<8>-r-<20>
_REPROCESS_NAME_PART = 24  # <24>-<8>-rp-<20>


def host_name(key: Key) -> str:
    """Name of the ConfigMap, Service and StatefulSet of the hosts."""
    return f"{key.name}{HOST_SUFFIX}"


def spark_policy_name(key: Key) -> str:
    """Name of the NetworkPolicy of Spark's pods."""
    return f"{key.name}-spark"


def ipv6_policy_name(policy: str) -> str:
    """Name of the NetworkPolicy that adds addresses of IPv6 to another one, by that one's name."""
    return f"{policy}{IPV6_SUFFIX}"


def probe_name(key: Key) -> str:
    """Name of the StatefulSet of the probe."""
    return f"{key.name}-probe"


def application_name(key: Key, uid: str, batch: int, attempt: int) -> str:
    """Name of the application of an attempt: a function of the resource, the batch and the attempt."""
    rest = f"-{uid[:8]}-b{batch}" + (f"-a{attempt}" if attempt > 1 else "")
    part = min(_APPLICATION_NAME_PART, _APPLICATION_NAME_LIMIT - len(rest))
    return key.name[:part].rstrip("-.") + rest


def replay_name(key: Key, uid: str, name: str) -> str:
    """Name of the Job of a replay: at most 57 characters, because the names of its pods are longer."""
    return f"{key.name[:_REPLAY_NAME_PART].rstrip('-')}-{uid[:8]}-r-{name}"


def reprocess_name(key: Key, uid: str, name: str) -> str:
    """Name of a Job that reprocesses batches: at most 57 characters, because the names of its pods are longer."""
    return f"{key.name[:_REPROCESS_NAME_PART].rstrip('-.')}-{uid[:8]}-rp-{name}"


def selector(key: Key, component: str) -> dict[str, str]:
    """Labels that select the pods of a component."""
    return {
        labels.LABEL_NAME: APPLICATION,
        labels.LABEL_COMPONENT: component,
        labels.LABEL_CONSUMER: key.name,
    }


def selector_text(key: Key, component: str) -> str:
    """`selector` as kubectl writes it."""
    return ",".join(f"{name}={value}" for name, value in selector(key, component).items())


def child_labels(key: Key, component: str) -> dict[str, str]:
    """Labels of a child."""
    return selector(key, component) | {labels.LABEL_MANAGED_BY: labels.MANAGED_BY}


def belongs(consumer: Consumer, manifest: Manifest) -> bool:
    """Whether the resource owns an object, or adopts it: an orphan of a resource of this name."""
    if controller_uid(manifest) == consumer.uid:
        return True
    return is_orphan(manifest) and manifest["metadata"]["labels"][labels.LABEL_CONSUMER] == consumer.key.name


def hosts_set(observed: Observed) -> Manifest:
    """The StatefulSet of the hosts; empty where it does not exist, or has another owner."""
    live = observed.children.get((STATEFUL_SET, host_name(observed.consumer.key)), {})
    return live if live and belongs(observed.consumer, live) else {}


def child(consumer: Consumer, kind: Kind, name: str, component: str) -> Manifest:
    """The beginning of a child's manifest: kind, name, labels and owner."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": consumer.key.namespace,
            "labels": child_labels(consumer.key, component),
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": consumer.key.name,
                    "uid": consumer.uid,
                    "controller": True,
                }
            ],
        },
    }
