"""The host pods: ConfigMap, headless Service, StatefulSet. Pure.

A missing Secret never keeps a host from starting: it runs, reports which one is missing, and goes on when it appears.
Only a change of the HostConfig or of the pod's own shape restarts pods; a change of status never does.
"""

from pathlib import PurePosixPath
from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.manifest import CONFIG_MAP, SERVICE, STATEFUL_SET, Manifest
from eventconsumer_operator.observed import Consumer
from eventconsumer_operator.plan.config import HUB_SECRET, LEASE_SECRET, SINK_SECRET
from eventconsumer_operator.plan.names import child, child_labels, host_name, selector
from eventconsumer_operator.plan.pods import (
    WORKLOAD_IDENTITY_LABEL,
    container_security,
    downward,
    pod_security,
    secret_mount,
    secret_volume,
)

_CONFIG = PurePosixPath(labels.CONFIG_FILE)
_PORT_NAME = "http"
# Enough for an idle host; a busy one wants limits and requests of its own in spec.pods.resources.
DEFAULT_REQUESTS = {"cpu": "50m", "memory": "192Mi"}


def config_map(consumer: Consumer, config: HostConfig) -> Manifest:
    """The ConfigMap with the hosts' configuration."""
    head = child(consumer, CONFIG_MAP, host_name(consumer.key), labels.COMPONENT_HOST)
    return head | {"data": {_CONFIG.name: config.to_json()}}


def service(consumer: Consumer) -> Manifest:
    """The headless Service that gives host pods their DNS names, ready or not."""
    return child(consumer, SERVICE, host_name(consumer.key), labels.COMPONENT_HOST) | {
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(consumer.key, labels.COMPONENT_HOST),
            "ports": [
                {"name": _PORT_NAME, "port": labels.HOST_PORT, "targetPort": _PORT_NAME, "protocol": "TCP"},
            ],
        }
    }


def stateful_set(
    consumer: Consumer, spec: EventConsumerSpec, config: HostConfig, replicas: int, image: str
) -> Manifest:
    """The StatefulSet of the hosts: stable ordinals, all started and stopped at once."""
    name = host_name(consumer.key)
    return child(consumer, STATEFUL_SET, name, labels.COMPONENT_HOST) | {
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(consumer.key, labels.COMPONENT_HOST)},
            "template": {
                "metadata": {
                    "labels": child_labels(consumer.key, labels.COMPONENT_HOST) | _identity_label(config),
                    "annotations": {labels.ANNOTATION_CONFIG_HASH: config.digest()},
                },
                "spec": _pod(name, spec, config, image),
            },
        }
    }


def _pod(config_map_name: str, spec: EventConsumerSpec, config: HostConfig, image: str) -> dict[str, Any]:
    volumes = [
        volume
        for folder, credential in (
            (HUB_SECRET, config.event_hub.credential),
            (LEASE_SECRET, config.leases.location.credential),
            (SINK_SECRET, config.sink.credential),
        )
        if (volume := secret_volume(folder, credential, optional=True))
    ]
    mounts = [secret_mount(volume["name"]) for volume in volumes]
    return {
        "serviceAccountName": labels.HOST_SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.pods.termination_grace_period_seconds,
        "securityContext": pod_security(),
        "containers": [
            {
                "name": labels.COMPONENT_HOST,
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "env": [downward("POD_NAME", "metadata.name"), downward("POD_UID", "metadata.uid")],
                "ports": [{"name": _PORT_NAME, "containerPort": labels.HOST_PORT, "protocol": "TCP"}],
                "securityContext": container_security(),
                "resources": _resources(spec),
                "volumeMounts": [
                    {"name": "config", "mountPath": str(_CONFIG.parent), "readOnly": True},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
                    *mounts,
                ],
                **_probes(),
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": config_map_name}},
            {"name": "tmp", "emptyDir": {}},
            *volumes,
        ],
    }


def _probes() -> dict[str, Any]:
    check = {"httpGet": {"path": "/healthz", "port": _PORT_NAME}, "timeoutSeconds": 5}
    return {
        # Two minutes to start on a busy node; readiness is quick, for the fleet's size follows it.
        "startupProbe": check | {"periodSeconds": 2, "failureThreshold": 60},
        "readinessProbe": check | {"periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": check | {"periodSeconds": 10, "failureThreshold": 6},
    }


def _resources(spec: EventConsumerSpec) -> dict[str, Any]:
    given = spec.pods.resources
    requests = DEFAULT_REQUESTS | given.requests
    # A request above its limit is refused by the API server: a limit that was given alone is also the request.
    requests |= {name: value for name, value in given.limits.items() if name not in given.requests}
    return {"requests": requests} | ({"limits": dict(given.limits)} if given.limits else {})


def _identity_label(config: HostConfig) -> dict[str, str]:
    credentials = (config.event_hub.credential, config.leases.location.credential, config.sink.credential)
    return WORKLOAD_IDENTITY_LABEL if any(credential.client_id for credential in credentials) else {}
