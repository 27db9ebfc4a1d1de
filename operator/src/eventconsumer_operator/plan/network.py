"""The NetworkPolicy of all pods that run the host image: who may talk to them, and whom they may talk to. Pure.

In: the operator, which asks for their state and tells them the fleet, and the namespaces that the administrator names
for metrics; the kubelet's probes come from the node and need no rule. Out: names, and TLS to Event Hubs, storage and
sign-in. Their addresses are not known in advance (private endpoints lie in the cluster's own network), so the ports are
bounded here and the host names by `eventconsumer_api.endpoints`. Spark's pods are not covered: driver and executors
talk to each other and to the API server on ports of their own.
"""

from typing import Any

from eventconsumer_api import labels
from eventconsumer_operator.manifest import NETWORK_POLICY, Manifest, controller_uid, is_being_deleted
from eventconsumer_operator.observed import Consumer, Observed
from eventconsumer_operator.plan.names import APPLICATION, child, host_name
from eventconsumer_operator.settings import Settings

COMPONENTS = (labels.COMPONENT_HOST, labels.COMPONENT_PROBE, labels.COMPONENT_REPLAY)
OPERATOR_LABELS = {labels.LABEL_NAME: APPLICATION, labels.LABEL_COMPONENT: "operator"}
_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the API server puts it on every namespace
_DNS = 53
_HTTPS = 443
_AMQPS = 5671


def network_policy(consumer: Consumer, settings: Settings) -> Manifest | None:
    """The policy, or None where the administrator wants none."""
    if not settings.network_policies:
        return None
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
            # Emulators listen on any port, so with insecure endpoints everything is let out.
            "egress": [{}] if settings.allow_insecure_endpoints else _destinations(),
        }
    }


def unwanted_policies(observed: Observed, settings: Settings) -> tuple[Manifest, ...]:
    """The policy that was made before the administrator switched policies off."""
    live = observed.children.get((NETWORK_POLICY, host_name(observed.consumer.key)))
    if settings.network_policies or live is None or is_being_deleted(live):
        return ()
    return (live,) if controller_uid(live) == observed.consumer.uid else ()


def _callers(settings: Settings) -> list[dict[str, Any]]:
    operator = _namespace(settings.operator_namespace) | {"podSelector": {"matchLabels": OPERATOR_LABELS}}
    return [operator, *(_namespace(name) for name in settings.metrics_namespaces)]


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: name}}}


def _destinations() -> list[dict[str, Any]]:
    return [
        {"ports": [{"port": _DNS, "protocol": protocol} for protocol in ("UDP", "TCP")]},
        {"ports": [{"port": port, "protocol": "TCP"} for port in (_HTTPS, _AMQPS)]},
    ]
