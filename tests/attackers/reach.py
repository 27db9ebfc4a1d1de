"""Whether NetworkPolicies let a pod connect: an evaluation of its own, from the definition of the resource.

Sources: kubernetes.io/docs/concepts/services-networking/network-policies, and the reference of NetworkPolicySpec.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any


@dataclass(frozen=True)
class Target:
    """A listening program.

    Attributes:
        address: Its address.
        port: Its port.
        protocol: TCP or UDP.
        namespace: Namespace of its pod; None: not in a pod.
        labels: Labels of its pod.
    """

    address: str
    port: int
    protocol: str = "TCP"
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def lets_out(
    policies: Iterable[dict[str, Any]], pod: Mapping[str, str], target: Target, *, blocks_select_pods: bool = True
) -> bool:
    """Whether a pod may open a connection.

    Args:
        policies: NetworkPolicies in the namespace of the pod.
        pod: Labels of the pod.
        target: To what.
        blocks_select_pods: Whether the network plugin compares the addresses of pods with blocks of addresses.
    """
    own = [
        each
        for each in policies
        if "Egress" in each["spec"]["policyTypes"] and selects(each["spec"]["podSelector"], pod)
    ]
    return not own or any(
        _rule(rule, target, each["metadata"]["namespace"], blocks_select_pods=blocks_select_pods)
        for each in own
        for rule in each["spec"].get("egress", [])
    )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects labels."""
    expressions = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        {
            "In": labels.get(each["key"]) in each.get("values", []),
            "NotIn": labels.get(each["key"]) not in each.get("values", []),
            "Exists": each["key"] in labels,
            "DoesNotExist": each["key"] not in labels,
        }[each["operator"]]
        for each in expressions
    )


def _rule(rule: Mapping[str, Any], target: Target, namespace: str, *, blocks_select_pods: bool) -> bool:
    ports, peers = rule.get("ports", []), rule.get("to", [])
    port_fits = not ports or any(
        each.get("protocol", "TCP") == target.protocol
        and each.get("port", target.port) <= target.port <= each.get("endPort", each.get("port", target.port))
        for each in ports
    )
    return port_fits and (
        not peers or any(_peer(each, target, namespace, blocks_select_pods=blocks_select_pods) for each in peers)
    )


def _peer(peer: Mapping[str, Any], target: Target, namespace: str, *, blocks_select_pods: bool) -> bool:
    if block := peer.get("ipBlock"):
        compared = target.namespace is None or blocks_select_pods
        return (
            compared and _holds(block["cidr"], target) and not any(_holds(e, target) for e in block.get("except", []))
        )
    if target.namespace is None:
        return False
    inside = (
        selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": target.namespace})
        if "namespaceSelector" in peer
        else target.namespace == namespace
    )
    return inside and selects(peer.get("podSelector", {}), target.labels)


def _holds(cidr: str, target: Target) -> bool:
    """Whether a range has the address; one of IPv4 in the form of IPv6 is sent as IPv4, and Go reads it as such."""
    address, network = ip_address(target.address), ip_network(cidr)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped and network.prefixlen >= 96:
        network = IPv4Network((network.network_address.ipv4_mapped, network.prefixlen - 96))
    return address in network
