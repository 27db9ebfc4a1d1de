"""Builds the template of every pod that runs the host image, and parts shared with Spark drivers.

A pod contains values of the operator and a few typed fields of spec.pods. No value of a user reaches a security context
or a service account. Variables and volumes of a user are those of `programs`, in pods that run a handler. Every pod
complies with the restricted Pod Security Standard.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.expansion import inert
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.mounts import credentials, secret_mount, secret_volume
from eventconsumer_api.kube.podsecurity import container_security, pod_security
from eventconsumer_api.kube.quantities import amount, canonical
from eventconsumer_api.spec.programs import Inputs
from eventconsumer_api.spec.scheduling import PodFields
from eventconsumer_api.v1alpha1 import EventConsumerSpec, Pods
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.keys import Key
from eventconsumer_operator.resource.names import child_labels, selector
from eventconsumer_operator.resource.programs import env_sources, environment, mounts, volumes
from eventconsumer_operator.resource.written import as_written

WORKLOAD_IDENTITY_LABEL = {"azure.workload.identity/use": "true"}
PORT_NAME = "http"
# Enough for an idle host; a busy host needs requests and limits in spec.pods.resources.
DEFAULT_REQUESTS = {"cpu": "50m", "memory": "192Mi", "ephemeral-storage": "64Mi"}
# The default of spec.processing.bufferBytes, the program, files being written, and a handler of 200 MiB. No limit of
# CPU: it would delay heartbeats. A host writes only its log and what its handler puts into /tmp.
DEFAULT_LIMITS = {"memory": "768Mi", "ephemeral-storage": "1Gi"}
PROGRAM_MIB = 200
"""The least memory of a host beside spec.processing.bufferBytes (docs/how-to/tuning.md)."""
_CONFIG = PurePosixPath(labels.CONFIG_FILE)
_SPREAD_OVER = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")


def host_template(
    key: Key,
    spec: EventConsumerSpec,
    config: HostConfig,
    image: str,
    *,
    config_map: str | None,
    component: str = labels.COMPONENT_HOST,
    arguments: tuple[str, ...] = (),
    probes: Mapping[str, Any] | None = None,
    resources: Mapping[str, Any] | None = None,
    handler: Inputs | None = None,
) -> Manifest:
    """The template of a pod that runs the host image.

    Args:
        key: The resource.
        spec: Its spec, for scheduling and resources.
        config: The configuration; a change of its digest restarts the pod.
        image: The image.
        config_map: Name of the ConfigMap that is mounted at `labels.CONFIG_FILE`; None: the configuration is in the
            environment variable `labels.CONFIG_ENV`.
        component: labels.COMPONENT_HOST, COMPONENT_PROBE or COMPONENT_REPLAY.
        arguments: Arguments of the program; empty: a host.
        probes: Probes of the container.
        resources: Resources of the container, with a limit of ephemeral storage; None: those of spec.pods.
        handler: What the handler gets; None: the pod runs none.
    """
    pods = spec.pods
    given = credentials(config)
    identity = WORKLOAD_IDENTITY_LABEL if any(credential.client_id for credential in given.values()) else {}
    secrets = [
        volume for folder, credential in given.items() if (volume := secret_volume(folder, credential, optional=True))
    ]
    limited = dict(resources) if resources is not None else host_resources(pods)
    container = {
        "name": component,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [
            downward(labels.POD_NAME_ENV, "metadata.name"),
            downward(labels.POD_UID_ENV, "metadata.uid"),
            *([] if config_map else [plain(labels.CONFIG_ENV, config.to_json())]),
            *(environment(handler) if handler else []),
        ],
        **({"envFrom": env_sources(handler)} if handler and handler.env_from else {}),
        "ports": [{"name": PORT_NAME, "containerPort": labels.HOST_PORT, "protocol": "TCP"}],
        "securityContext": container_security(),
        "resources": limited,
        "volumeMounts": [
            # Whole folders, not single files (subPath): files would not follow a changed Secret.
            *([{"name": "config", "mountPath": str(_CONFIG.parent), "readOnly": True}] if config_map else []),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
            *(secret_mount(volume["name"]) for volume in secrets),
            *(mounts(handler) if handler else []),
        ],
    }
    return {
        "metadata": {
            # The operator's labels last: a label of a user must not replace one that selects the pod.
            "labels": {**pods.labels, **child_labels(key, component), **identity},
            "annotations": {**pods.annotations, labels.ANNOTATION_CONFIG_HASH: config.digest()},
        },
        "spec": {
            "serviceAccountName": labels.HOST_SERVICE_ACCOUNT,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": pods.termination_grace_period_seconds,
            "securityContext": pod_security(),
            **scheduling(pods, selector(key, component)),
            "containers": [container | ({"args": list(arguments)} if arguments else {}) | dict(probes or {})],
            "volumes": [
                *([{"name": "config", "configMap": {"name": config_map}}] if config_map else []),
                tmp_volume(limited["limits"]["ephemeral-storage"]),
                *secrets,
                *(volumes(handler) if handler else []),
            ],
        },
    }


def run_as(manifest: Manifest, service_account: str) -> Manifest:
    """The same StatefulSet or Job with another service account of its pods."""
    template = manifest["spec"]["template"]
    pod = template["spec"] | {"serviceAccountName": service_account}
    return manifest | {"spec": manifest["spec"] | {"template": template | {"spec": pod}}}


def scheduling(pods: Pods, spread: Mapping[str, str]) -> dict[str, Any]:
    """Scheduling of a pod: the user's fields as written, and a preference to spread over nodes and zones.

    Args:
        pods: spec.pods.
        spread: Labels of the pods to spread.
    """
    # A preference only: a cluster with one node or without zones runs all pods. No matchLabelKeys: a StatefulSet
    # replaces its pods one by one, so there are never two generations to spread.
    wishes = [
        {
            "topologyKey": topology,
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(spread)},
        }
        for topology in _SPREAD_OVER
    ]
    return placement(pods) | {"topologySpreadConstraints": wishes}


def placement(pods: PodFields) -> dict[str, Any]:
    """The user's fields of scheduling as written."""
    given = {
        "nodeSelector": dict(pods.node_selector),
        "tolerations": [as_written(toleration) for toleration in pods.tolerations],
        "affinity": as_written(pods.affinity) if pods.affinity else {},
        "priorityClassName": pods.priority_class_name,
    }
    return {name: value for name, value in given.items() if value}


def host_resources(pods: Pods) -> dict[str, Any]:
    """Requests and limits of a host: spec.pods.resources, with defaults."""
    given = pods.resources
    # The API server rejects a request above its limit: without a request, the limit is also the request, and a request
    # above a default limit is also the limit.
    raised = {
        name: given.requests[name]
        for name, limit in DEFAULT_LIMITS.items()
        if name in given.requests and amount(given.requests[name]) > amount(limit)
    }
    limits = _canonical(DEFAULT_LIMITS | raised | given.limits)
    return {"requests": _canonical(DEFAULT_REQUESTS | given.limits | given.requests), "limits": limits}


def check_memory(spec: EventConsumerSpec) -> None:
    """Check that the buffer fits in the memory limit of a host; otherwise a host that is behind is killed for ever.

    Raises:
        SpecError: It does not fit.
    """
    limit, buffer = host_resources(spec.pods)["limits"]["memory"], spec.processing.buffer_bytes
    needed = -(-buffer // 2**20) + PROGRAM_MIB
    if amount(limit) < needed * 2**20:
        raise SpecError(
            "spec.processing.bufferBytes",
            f"{buffer} bytes and {PROGRAM_MIB} MiB for the program exceed the memory limit {limit} "
            f"of a host: set spec.pods.resources.limits.memory to {needed}Mi or more, or reduce bufferBytes",
        )


def tmp_volume(size: str) -> dict[str, Any]:
    """The volume of /tmp; a larger one than `size` ends the pod."""
    return {"name": "tmp", "emptyDir": {"sizeLimit": size}}


def _canonical(quantities: Mapping[Any, str]) -> dict[str, str]:
    return {name: canonical(quantity) for name, quantity in quantities.items()}


def plain(variable: str, value: str) -> dict[str, Any]:
    """An environment variable with exactly this value: it refers to no other variable."""
    return {"name": variable, "value": inert(value)}


def downward(variable: str, field_path: str) -> dict[str, Any]:
    """An environment variable with a field of the pod."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}
