"""The NetworkPolicies: ingress to hosts and to Spark's pods, and egress of hosts. Pure.

One policy covers all pods that run the host image. Ingress: the operator (reports and operator messages), and the
administrator's namespaces for metrics; the kubelet's probes come from the node and need no rule. Egress: DNS, and TLS
to Event Hubs, storage and sign-in. Their addresses are not known in advance (private endpoints are in the cluster's
network), so the policy limits the ports, and `eventconsumer_api.endpoints` limits the host names.

A second policy covers ingress to Spark's pods: only driver and executors of the same resource may connect, on any port.
Egress is not limited: a driver creates its executors through the API server, whose address and port depend on the
cluster.

A proxy and the endpoint of notices add their ports to the egress of hosts, and a handler its destinations.
"""

from typing import Any

from eventconsumer_api import labels
from eventconsumer_api.endpoints import port_of
from eventconsumer_api.kinds import Manifest
from eventconsumer_api.mounts import proxy_config
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.kube.manifest import NETWORK_POLICY, controller_uid, is_being_deleted, name_of
from eventconsumer_operator.plan.egress import NAMESPACE_NAME, egress_rules
from eventconsumer_operator.resource.names import APPLICATION, child, host_name, spark_policy_name
from eventconsumer_operator.resource.observed import Consumer, Observed
from eventconsumer_operator.settings import Settings

SPARK_COMPONENTS = (labels.COMPONENT_SPARK, labels.COMPONENT_BATCH_REPLAY)
COMPONENTS = (labels.COMPONENT_HOST, labels.COMPONENT_PROBE, labels.COMPONENT_REPLAY, labels.COMPONENT_TOOL)
OPERATOR_LABELS = {labels.LABEL_NAME: APPLICATION, labels.LABEL_COMPONENT: "operator"}
_DNS = 53
_HTTPS = 443
_AMQPS = 5671


def network_policies(consumer: Consumer, spec: EventConsumerSpec, settings: Settings) -> tuple[Manifest, ...]:
    """The policies: none if the administrator disabled them, and none for Spark if Spark is not enabled."""
    if not settings.network_policies:
        return ()
    with_spark = spec.spark is not None and spec.spark.enabled
    return (_of_hosts(consumer, spec, settings), *([_of_spark(consumer)] if with_spark else []))


def _of_spark(consumer: Consumer) -> Manifest:
    own = {
        "matchLabels": {labels.LABEL_NAME: APPLICATION, labels.LABEL_CONSUMER: consumer.key.name},
        "matchExpressions": [
            {"key": labels.LABEL_COMPONENT, "operator": "In", "values": list(SPARK_COMPONENTS)},
        ],
    }
    return child(consumer, NETWORK_POLICY, spark_policy_name(consumer.key), labels.COMPONENT_SPARK) | {
        "spec": {"podSelector": own, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": own}]}]}
    }


def _of_hosts(consumer: Consumer, spec: EventConsumerSpec, settings: Settings) -> Manifest:
    return child(consumer, NETWORK_POLICY, host_name(consumer.key), labels.COMPONENT_HOST) | {
        "spec": {
            "podSelector": {
                "matchLabels": {labels.LABEL_NAME: APPLICATION, labels.LABEL_CONSUMER: consumer.key.name},
                "matchExpressions": [
                    {"key": labels.LABEL_COMPONENT, "operator": "In", "values": list(COMPONENTS)},
                ],
            },
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": _callers(settings), "ports": [{"port": labels.HOST_PORT, "protocol": "TCP"}]},
            ],
            # Emulators listen on any port, so insecure endpoints need all egress.
            "egress": [{}] if settings.allow_insecure_endpoints else _destinations(spec),
        }
    }


def unwanted_policies(observed: Observed, spec: EventConsumerSpec, settings: Settings) -> tuple[Manifest, ...]:
    """Policies that are left from before the administrator disabled them, or the user disabled Spark."""
    consumer = observed.consumer
    wanted = {name_of(policy) for policy in network_policies(consumer, spec, settings)}
    return tuple(
        live
        for name in (host_name(consumer.key), spark_policy_name(consumer.key))
        if name not in wanted
        and (live := observed.children.get((NETWORK_POLICY, name)))
        and not is_being_deleted(live)
        and controller_uid(live) == consumer.uid
    )


def _callers(settings: Settings) -> list[dict[str, Any]]:
    operator = _namespace(settings.operator_namespace) | {"podSelector": {"matchLabels": OPERATOR_LABELS}}
    return [operator, *(_namespace(name) for name in settings.metrics_namespaces)]


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}


def _destinations(spec: EventConsumerSpec) -> list[dict[str, Any]]:
    proxy = proxy_config(spec.proxy)
    notices = spec.sink.notices
    named = ({proxy.port} if proxy else set()) | ({port_of(notices.url)} if notices else set())
    ports = sorted({_HTTPS, _AMQPS} | named)
    return [
        {"ports": [{"port": _DNS, "protocol": protocol} for protocol in ("UDP", "TCP")]},
        {"ports": [{"port": port, "protocol": "TCP"} for port in ports]},
        *egress_rules(spec.processing.egress),
    ]
