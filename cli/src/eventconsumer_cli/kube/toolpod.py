"""The temporary pod for one command if no host runs: like a host pod, but idle until a program is started. Pure.

It has the image, the service account, the volumes and the restrictions of the hosts, and so their configuration and
credentials. It has no variables and volumes of a handler: a ConfigMap that does not exist must not prevent the start of
a tool. It does not count as a host: its component label differs, so that Service, disruption budget and StatefulSet do
not select it, and the operator does not watch it. It ends by itself. `of_driver` is such a pod that is like a driver.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.expansion import inert
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.mounts import REGISTRY_SECRET, credentials, proxy_environment, secret_mount, secret_volume
from eventconsumer_api.kube.podsecurity import container_security, pod_security
from eventconsumer_api.spec.programs import MOUNT_FOLDERS
from eventconsumer_api.wire.host_config import Credential, HostConfig, ProxyConfig
from eventconsumer_cli.kube.kinds import name_of, namespace_of

APPLICATION = "eventconsumer"
MANAGER = "kubectl-eventconsumer"
CONTAINER = labels.COMPONENT_TOOL
GRACE_SECONDS = 1  # it holds no state
STORAGE = "1Gi"
REQUESTS = {"cpu": "50m", "memory": "128Mi", "ephemeral-storage": "64Mi"}
LIMITS = {"memory": "512Mi", "ephemeral-storage": STORAGE}
_OF_HOSTS = (labels.POD_NAME_ENV, labels.POD_UID_ENV)


@dataclass(frozen=True)
class PodMemory:
    """The memory of a pod that has more to do than a host's tools."""

    request: str
    limit: str


# Two children of 150 MiB each parse files; the audit of a Delta table with a million files takes 300 MiB, and the files
# that are being read 100 MiB.
DEEP_MEMORY = PodMemory("256Mi", "1Gi")
_NOT_FOR_TOOLS = (
    "ports",
    "startupProbe",
    "readinessProbe",
    "livenessProbe",
    "lifecycle",
    "args",
    "command",
    "envFrom",
)


def tool_labels(consumer: str = "", component: str = labels.COMPONENT_TOOL) -> dict[str, str]:
    """Labels of such pods.

    Args:
        consumer: Name of the consumer; empty: pods without a consumer.
        component: Their component.
    """
    own = {
        labels.LABEL_NAME: APPLICATION,
        labels.LABEL_COMPONENT: component,
        labels.LABEL_MANAGED_BY: MANAGER,
    }
    return own | ({labels.LABEL_CONSUMER: consumer} if consumer else {})


def of_consumer(
    consumer: Manifest, stateful_set: Manifest, suffix: str, seconds: int, memory: PodMemory | None = None
) -> Manifest:
    """A pod like the consumer's hosts.

    Args:
        consumer: The EventConsumer.
        stateful_set: StatefulSet of its hosts.
        suffix: Unique suffix of the pod's name.
        seconds: Maximum lifetime.
        memory: Its memory; None: that of a host.
    """
    template = copy.deepcopy(stateful_set["spec"]["template"])
    pod: dict[str, Any] = template["spec"]
    host, *sidecars = _host_first(pod["containers"])
    # Those of the operator only: all others are a handler's.
    mounts = host.get("volumeMounts", [])
    for_handler = {each["name"] for each in mounts if each["mountPath"].startswith(MOUNT_FOLDERS)}
    host = {name: value for name, value in host.items() if name not in _NOT_FOR_TOOLS} | {
        "env": [each for each in host.get("env", []) if each["name"] in _OF_HOSTS],
        "volumeMounts": [each for each in mounts if each["name"] not in for_handler],
    }
    if memory is not None:
        resources = host["resources"]
        host["resources"] = {
            "requests": resources.get("requests", {}) | {"memory": memory.request},
            "limits": resources.get("limits", {}) | {"memory": memory.limit},
        }
    # Spread constraints count hosts only.
    pod = {name: value for name, value in pod.items() if name != "topologySpreadConstraints"} | {
        "volumes": [each for each in pod.get("volumes", []) if each["name"] not in for_handler]
    }
    metadata = template.get("metadata", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name_of(consumer)}-tool-{suffix}",
            "namespace": namespace_of(consumer),
            "labels": metadata.get("labels", {}) | tool_labels(name_of(consumer)),
            "annotations": metadata.get("annotations", {}),
            "ownerReferences": [_owner(consumer)],
        },
        "spec": pod | _ending(seconds) | {"containers": [host | _waiting(seconds), *sidecars]},
    }


def of_config(
    namespace: str, config: HostConfig, *, image: str, service_account: str, suffix: str, seconds: int
) -> Manifest:
    """A pod like the hosts that the operator would create for a configuration without a resource.

    Args:
        namespace: Its namespace.
        config: Names the Secrets.
        image: The processor image.
        service_account: Service account of hosts.
        suffix: Unique suffix of the pod's name.
        seconds: Maximum lifetime.
    """
    given = credentials(config)
    volumes = [
        volume for folder, credential in given.items() if (volume := secret_volume(folder, credential, optional=True))
    ]
    metadata = {
        "name": f"eventconsumer-tool-{suffix}",
        "namespace": namespace,
        "labels": tool_labels() | _identity(given.values()),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata} | _idle(image, service_account, volumes, seconds)


def of_driver(
    consumer: Manifest,
    image: str,
    credential: Credential | None,
    *,
    proxy: ProxyConfig | None,
    suffix: str,
    seconds: int,
) -> Manifest:
    """A pod that reaches a schema registry as drivers do, before the operator has created one.

    Its image, service account, credential and proxy are those of drivers, and so are its NetworkPolicies. It has
    nothing of the Spark program, whose variables and folders cannot change these.

    Args:
        consumer: The EventConsumer.
        image: Its Spark image.
        credential: For its schema registry; None: none.
        proxy: Its proxy.
        suffix: Unique suffix of the pod's name.
        seconds: Maximum lifetime.
    """
    given = {REGISTRY_SECRET: credential} if credential else {}
    volumes = [
        volume for folder, each in given.items() if (volume := secret_volume(folder, each, optional=True)) is not None
    ]
    metadata = {
        "name": f"{name_of(consumer)}-tool-{suffix}",
        "namespace": namespace_of(consumer),
        "labels": tool_labels(name_of(consumer), labels.COMPONENT_SPARK_TOOL) | _identity(given.values()),
        "ownerReferences": [_owner(consumer)],
    }
    pod = _idle(image, labels.SPARK_SERVICE_ACCOUNT, volumes, seconds)
    (container,) = pod["spec"]["containers"]
    container["env"] = [{"name": name, "value": inert(value)} for name, value in proxy_environment(proxy).items()]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata} | pod


def _idle(image: str, service_account: str, secrets: list[dict[str, Any]], seconds: int) -> Manifest:
    """The spec of a pod with mounted Secrets in which programs can be started."""
    container = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": container_security(),
        "resources": {"requests": REQUESTS, "limits": LIMITS},
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
            *(secret_mount(volume["name"]) for volume in secrets),
        ],
    }
    spec = {
        "serviceAccountName": service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "containers": [container | _waiting(seconds)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": STORAGE}}, *secrets],
    }
    return {"spec": spec | _ending(seconds)}


def _owner(consumer: Manifest) -> dict[str, str]:
    return {
        "apiVersion": consumer["apiVersion"],
        "kind": consumer["kind"],
        "name": name_of(consumer),
        "uid": consumer["metadata"]["uid"],
    }


def _identity(given: Iterable[Credential]) -> dict[str, str]:
    """The label by which the webhook of workload identity finds a pod."""
    return {"azure.workload.identity/use": "true"} if any(each.client_id for each in given) else {}


def _ending(seconds: int) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": seconds,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
    }


def _waiting(seconds: int) -> dict[str, Any]:
    # As the first process of its container, sleep alone would ignore SIGTERM.
    return {"name": CONTAINER, "command": ["tini", "--", "sleep", str(seconds)]}


def _host_first(containers: list[Manifest]) -> list[Manifest]:
    return sorted(containers, key=lambda each: each["name"] != labels.COMPONENT_HOST)


def why_waiting(pod: Mapping[str, Any]) -> str:
    """Why a pod does not run, from its status; empty: unknown."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        state = container.get("state", {})
        waiting = state.get("waiting") or state.get("terminated")
        if waiting and waiting.get("reason") not in {None, "ContainerCreating", "PodInitializing"}:
            return ": ".join(filter(None, (str(waiting["reason"]), str(waiting.get("message", "")))))
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return ": ".join(filter(None, (condition.get("reason", ""), condition.get("message", ""))))
    return ": ".join(filter(None, (status.get("reason", ""), status.get("message", ""))))


def is_running(pod: Mapping[str, Any]) -> bool:
    """Whether programs can be started in its container."""
    started = pod.get("status", {}).get("containerStatuses", [])
    return any(each["name"] == CONTAINER and "running" in each.get("state", {}) for each in started)


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether it has ended."""
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
