"""Destinations of a handler besides Azure: what the administrator allows, and the rules of the network policy. Pure.

Addresses are those that the administrator allows, and pods those of the resource's own namespace and of namespaces that
the administrator allows: whoever may create a resource must not open a way out of the cluster. The metadata services of
machines are never a destination: they give credentials of the node.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from eventconsumer_api.programs import EgressRule, IpBlock, Peer
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.resource.written import as_written
from eventconsumer_operator.settings import Settings

Network = IPv4Network | IPv6Network
FIELD = "spec.processing.egress"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""A label of every namespace."""
NEVER: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            # Link-local; 169.254.169.254 is the metadata service of Azure and of other clouds.
            "169.254.0.0/16",
            "fe80::/10",
            # Azure's platform (learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16), and the
            # metadata service of AWS.
            "168.63.129.16/32",
            "fd00:ec2::254/128",
        ),
    )
)


def check_egress(namespace: str, spec: EventConsumerSpec, settings: Settings) -> None:
    """Check every destination.

    Args:
        namespace: Namespace of the resource.
        spec: Its spec.
        settings: The administrator's settings.

    Raises:
        SpecError: A destination is not allowed; the message names the allowed ones and the setting.
    """
    for peer in (peer for rule in spec.processing.egress for peer in rule.to):
        if peer.ip_block:
            _check_block(peer.ip_block, settings.egress_cidrs)
        for other in peer.namespaces:
            if other not in (namespace, *settings.egress_namespaces):
                allowed = ", ".join(settings.egress_namespaces) or "there is none"
                raise SpecError(
                    FIELD,
                    f"{other} is not one of the allowed namespaces ({allowed}): correct it, or ask the operator's "
                    "administrator to extend egressNamespaces",
                )


def _check_block(block: IpBlock, allowed: tuple[str, ...]) -> None:
    network = block.network
    if any(_is_within(network, never) for never in NEVER):
        raise SpecError(FIELD, f"{network} is never allowed, because it has services of the node: remove it")
    if not any(_is_within(network, ip_network(each)) for each in allowed):
        ranges = ", ".join(allowed) or "there is none"
        raise SpecError(
            FIELD,
            f"{network} is not within one of the allowed ranges ({ranges}): correct it, or ask the operator's "
            "administrator to extend egressCidrs",
        )
    for each in block.except_:
        if not _is_within(ip_network(each), network):
            raise SpecError(
                FIELD, f"{each} is not within the cidr that it is an exception of: correct it, or remove it"
            )


def _is_within(inner: Network, outer: Network) -> bool:
    if isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network):
        return inner.subnet_of(outer)
    return isinstance(inner, IPv6Network) and isinstance(outer, IPv6Network) and inner.subnet_of(outer)


def egress_rules(rules: list[EgressRule]) -> list[dict[str, Any]]:
    """The rules as NetworkPolicy has them."""
    return [
        {
            "to": [_peer(peer) for peer in rule.to],
            "ports": [{"port": each.port, "protocol": each.protocol.value} for each in rule.ports],
        }
        for rule in rules
    ]


def _peer(peer: Peer) -> dict[str, Any]:
    if block := peer.ip_block:
        inside = (str(never) for never in NEVER if _is_within(never, block.network))
        left_out = list(dict.fromkeys([*block.except_, *inside]))
        return {"ipBlock": {"cidr": block.cidr} | ({"except": left_out} if left_out else {})}
    # Without a namespaceSelector, pods are those of the policy's own namespace.
    named = {"key": NAMESPACE_NAME, "operator": "In", "values": list(peer.namespaces)}
    return {
        "podSelector": as_written(peer.pod_selector) if peer.pod_selector else {},
        **({"namespaceSelector": {"matchExpressions": [named]}} if peer.namespaces else {}),
    }
