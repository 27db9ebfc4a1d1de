"""The host pods: ConfigMap, headless Service, StatefulSet. Pure.

A host starts without its Secret: it reports the missing Secret, and continues when the Secret exists. Only a change of
the HostConfig or of the pod template restarts pods.
"""

from pathlib import PurePosixPath
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_operator.kube.manifest import CONFIG_MAP, SERVICE, STATEFUL_SET
from eventconsumer_operator.resource.names import child, host_name, selector
from eventconsumer_operator.resource.observed import Consumer
from eventconsumer_operator.resource.pods import PORT_NAME, host_template

MIN_READY_SECONDS = 10


def config_map(consumer: Consumer, config: HostConfig, fleet_key: str = "") -> Manifest:
    """The ConfigMap with the hosts' configuration and the operator's public key.

    The key is not part of the configuration's digest: a new key restarts no pod.
    """
    head = child(consumer, CONFIG_MAP, host_name(consumer.key), labels.COMPONENT_HOST)
    key = {PurePosixPath(labels.FLEET_KEY_FILE).name: fleet_key} if fleet_key else {}
    return head | {"data": {PurePosixPath(labels.CONFIG_FILE).name: config.to_json()} | key}


def service(consumer: Consumer) -> Manifest:
    """The headless Service that gives host pods their DNS names, ready or not."""
    return child(consumer, SERVICE, host_name(consumer.key), labels.COMPONENT_HOST) | {
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector(consumer.key, labels.COMPONENT_HOST),
            "ports": [
                {"name": PORT_NAME, "port": labels.HOST_PORT, "targetPort": PORT_NAME, "protocol": "TCP"},
            ],
        }
    }


def stateful_set(
    consumer: Consumer, spec: EventConsumerSpec, config: HostConfig, replicas: int, image: str
) -> Manifest:
    """The StatefulSet of the hosts: stable ordinals, started and stopped in parallel."""
    name = host_name(consumer.key)
    return child(consumer, STATEFUL_SET, name, labels.COMPONENT_HOST) | {
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            # A rolling update waits for a new host to take its partitions back. Readiness does not wait for that:
            # only ready hosts get partitions.
            "minReadySeconds": MIN_READY_SECONDS,
            "selector": {"matchLabels": selector(consumer.key, labels.COMPONENT_HOST)},
            "template": host_template(
                consumer.key,
                spec,
                config,
                image,
                config_map=name,
                probes=host_probes(),
                handler=spec.processing if spec.processing.handler else None,
            ),
        }
    }


def host_probes() -> dict[str, Any]:
    """Probes of a container that answers /healthz as hosts do."""
    check = {"httpGet": {"path": "/healthz", "port": PORT_NAME}, "timeoutSeconds": 5}
    return {
        # Two minutes to start on a busy node; readiness is frequent, because the size of the fleet follows it.
        "startupProbe": check | {"periodSeconds": 2, "failureThreshold": 60},
        "readinessProbe": check | {"periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": check | {"periodSeconds": 10, "failureThreshold": 6},
    }
