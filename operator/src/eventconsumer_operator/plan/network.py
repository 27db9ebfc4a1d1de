"""The NetworkPolicies: ingress to hosts and to Spark's pods, and egress of both. Pure.

One policy covers all pods that run the host image. Ingress: the operator (reports and operator messages), and the
administrator's namespaces for metrics; the kubelet's probes come from the node and need no rule. Egress: DNS, and TLS
to Event Hubs, storage and sign-in. Their addresses are not known in advance (private endpoints are in the cluster's
network), so the policy limits the ports, and `eventconsumer_api.spec.endpoints` limits the host names. Services of
nodes are left out.

A second policy covers Spark's pods. Ingress: only driver and executors of the same resource may connect, on any port.
Egress: DNS, TLS to storage, sign-in and a schema registry, the same pods, and the API server, through which a driver
creates its executors. Its address and port depend on the cluster, and most network plugins see those behind its
Service: so the administrator lists the ports.

A proxy, the endpoint of notices and a schema registry add their ports, and a handler or program its destinations.

Addresses of IPv6 have policies of their own, which add to the others: Azure Network Policy Manager refuses a policy
that names any, and would enforce none of its rules (learn.microsoft.com/azure/aks/use-network-policies).
"""

from collections.abc import Collection
from typing import Any

from eventconsumer_api.kube import labels
from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.mounts import proxy_config
from eventconsumer_api.spec.endpoints import port_of
from eventconsumer_api.spec.spark import Spark, SparkMode
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.kube.manifest import NETWORK_POLICY, is_being_deleted, name_of
from eventconsumer_operator.plan.egress import ALL_IPV4, ALL_IPV6, NAMESPACE_NAME, block_of, egress_rules
from eventconsumer_operator.resource.names import (
    APPLICATION,
    belongs,
    child,
    host_name,
    ipv6_policy_name,
    spark_policy_name,
)
from eventconsumer_operator.resource.observed import Consumer, Observed
from eventconsumer_operator.settings import Settings

SPARK_COMPONENTS = (labels.COMPONENT_SPARK, labels.COMPONENT_REPROCESS)
COMPONENTS = (labels.COMPONENT_HOST, labels.COMPONENT_PROBE, labels.COMPONENT_REPLAY, labels.COMPONENT_TOOL)
OPERATOR_LABELS = {labels.LABEL_NAME: APPLICATION, labels.LABEL_COMPONENT: "operator"}
_HTTPS = 443
_AMQPS = 5671
# To any address: caches of DNS on nodes have link-local ones (kubernetes.io/docs/tasks/administer-cluster/nodelocaldns,
# learn.microsoft.com/azure/aks/dns-concepts), and metadata services give no credentials on this port.
_NAMES = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}


def network_policies(consumer: Consumer, spec: EventConsumerSpec, settings: Settings) -> tuple[Manifest, ...]:
    """The policies: none if the administrator disabled them, and none for Spark if Spark is not enabled."""
    if not settings.network_policies:
        return ()
    made = _of_hosts(consumer, spec, settings)
    if spec.spark and spec.spark.enabled:
        made += _of_spark(consumer, spec, spec.spark, settings)
    return made


def _of_hosts(consumer: Consumer, spec: EventConsumerSpec, settings: Settings) -> tuple[Manifest, ...]:
    return _policies(
        child(consumer, NETWORK_POLICY, host_name(consumer.key), labels.COMPONENT_HOST),
        _pods(consumer, COMPONENTS),
        [{"from": _callers(settings), "ports": _tcp({labels.HOST_PORT})}],
        settings,
        ports={_HTTPS, _AMQPS, *_proxy_port(spec), *_notices_port(spec)},
        egress=egress_rules(spec.processing.egress),
    )


def _of_spark(consumer: Consumer, spec: EventConsumerSpec, spark: Spark, settings: Settings) -> tuple[Manifest, ...]:
    own = {"podSelector": _pods(consumer, SPARK_COMPONENTS)}
    # Drivers without executors have no token for the API server.
    api_server = settings.api_server_ports if spark.mode is not SparkMode.LOCAL else ()
    return _policies(
        child(consumer, NETWORK_POLICY, spark_policy_name(consumer.key), labels.COMPONENT_SPARK),
        _pods(consumer, (*SPARK_COMPONENTS, labels.COMPONENT_SPARK_TOOL)),
        [{"from": [own]}],
        settings,
        ports={_HTTPS, *_proxy_port(spec), *_registry_port(spark), *api_server},
        egress=[{"to": [own]}, *egress_rules(spark.application.egress)],
    )


def _policies(
    base: Manifest,
    pods: dict[str, Any],
    ingress: list[dict[str, Any]],
    settings: Settings,
    *,
    ports: Collection[int],
    egress: list[dict[str, Any]],
) -> tuple[Manifest, ...]:
    """The policy of some pods, and that for addresses of IPv6.

    Args:
        base: Kind, name and owner.
        pods: Selector of the pods.
        ingress: Rules of ingress.
        settings: The administrator's settings.
        ports: Ports of TCP that the pods may reach on any machine but on services of nodes.
        egress: Further rules of egress.
    """
    metadata = base["metadata"]
    both = {"podSelector": pods, "policyTypes": ["Ingress", "Egress"], "ingress": ingress}
    if settings.allow_insecure_endpoints:  # emulators listen on any port
        return (base | {"spec": both | {"egress": [{}]}},)
    # With some network plugins, a block of addresses selects no pods. Sources: "Behavior of to and from selectors" in
    # kubernetes.io/docs/concepts/services-networking/network-policies,
    # learn.microsoft.com/azure/aks/azure-cni-powered-by-cilium.
    machines = {"to": [block_of(ALL_IPV4), {"namespaceSelector": {}}], "ports": _tcp(ports)}
    of_ipv6 = {"to": [block_of(ALL_IPV6)], "ports": _tcp(ports)}
    # That of IPv6 comes first: an update from one policy for both cuts no connection.
    return (
        base
        | {
            "metadata": metadata | {"name": ipv6_policy_name(metadata["name"])},
            "spec": {"podSelector": pods, "policyTypes": ["Egress"], "egress": [of_ipv6]},
        },
        base | {"spec": both | {"egress": [_NAMES, machines, *egress]}},
    )


def _pods(consumer: Consumer, components: tuple[str, ...]) -> dict[str, Any]:
    return {
        "matchLabels": {labels.LABEL_NAME: APPLICATION, labels.LABEL_CONSUMER: consumer.key.name},
        "matchExpressions": [{"key": labels.LABEL_COMPONENT, "operator": "In", "values": list(components)}],
    }


def _tcp(ports: Collection[int]) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": "TCP"} for port in sorted(ports)]


def _proxy_port(spec: EventConsumerSpec) -> set[int]:
    proxy = proxy_config(spec.proxy)
    return {proxy.port} if proxy else set()


def _notices_port(spec: EventConsumerSpec) -> set[int]:
    return {port_of(spec.sink.notices.url)} if spec.sink.notices else set()


def _registry_port(spark: Spark) -> set[int]:
    registry = spark.output.body.registry if spark.output else None
    return {port_of(registry.url)} if registry else set()


def unwanted_policies(observed: Observed, spec: EventConsumerSpec, settings: Settings) -> tuple[Manifest, ...]:
    """Policies that are left from before the administrator disabled them, or the user disabled Spark."""
    consumer = observed.consumer
    wanted = {name_of(policy) for policy in network_policies(consumer, spec, settings)}
    names = (host_name(consumer.key), spark_policy_name(consumer.key))
    return tuple(
        live
        for name in (*names, *map(ipv6_policy_name, names))
        if name not in wanted
        and (live := observed.children.get((NETWORK_POLICY, name)))
        and not is_being_deleted(live)
        and belongs(consumer, live)
    )


def _callers(settings: Settings) -> list[dict[str, Any]]:
    operator = _namespace(settings.operator_namespace) | {"podSelector": {"matchLabels": OPERATOR_LABELS}}
    return [operator, *(_namespace(name) for name in settings.metrics_namespaces)]


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: name}}}
