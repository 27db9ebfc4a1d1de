"""Destinations of handlers and Spark programs besides Azure: what the administrator allows, and the rules. Pure.

Addresses are those that the administrator allows, and pods those of the resource's own namespace and of namespaces that
the administrator allows: whoever may create a resource must not open a way out of the cluster. Services of nodes, such
as the metadata service, which gives credentials of the node, are never a destination: they are left out of every rule
of addresses, also of those by port.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from eventconsumer_api.spec.programs import EgressRule, IpBlock, Peer
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.resource.written import as_written
from eventconsumer_operator.settings import Settings

Network = IPv4Network | IPv6Network
_OF_PROGRAM = "spec.spark.application.egress"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""A label of every namespace."""
SERVICES: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            # Link-local. 169.254.169.254 is the metadata service of Azure, AWS, Google Cloud, Oracle Cloud, OpenStack
            # and others; 169.254.0.23 that of Tencent Cloud (cloud.tencent.com/document/product/213/4934);
            # 169.254.170.2 and .23 give credentials of AWS's tasks and pods
            # (docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html).
            # Source: learn.microsoft.com/azure/virtual-machines/instance-metadata-service
            "169.254.0.0/16",
            "fe80::/10",
            # Azure's platform: keys of extensions on ports 80 and 32526.
            # Source: learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
            "168.63.129.16/32",
            # AWS: fd00:ec2::254 is the metadata service, fd00:ec2::23 gives credentials of pods.
            # Source: docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
            "fd00:ec2::/32",
            # Google Cloud. Source: cloud.google.com/compute/docs/metadata/querying-metadata
            "fd20:ce::254/128",
            # Oracle Cloud, with IPv6 and in its first generation.
            # Source: docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm
            "fd00:c1::a9fe:a9fe/128",
            "192.0.0.192/32",
            # Alibaba Cloud. Source: www.alibabacloud.com/help/ecs/user-guide/view-instance-metadata
            "100.100.100.200/32",
        ),
    )
)
"""Services of nodes. A fact of clouds, so no allow-list can replace it: private endpoints may have any address."""
MAPPED = IPv6Network("::ffff:0:0/96")
"""Each IPv4 address as one of IPv6. Some programs read it as the IPv4 address, Kubernetes' functions in CEL refuse it.
Sources: RFC 4291, section 2.5.5.2; kubernetes.io/docs/reference/using-api/cel, "Kubernetes CIDR library".
"""
# The IPv4 address follows the prefix. Sources: RFC 4291, section 2.5.5.1, RFC 6052 (NAT64), RFC 3056 (6to4).
_EMBEDDING = tuple(map(IPv6Network, ("::/96", "64:ff9b::/96", "2002::/16")))
# Local NAT64, whose form is the network's choice (RFC 8215), Teredo (RFC 4380).
_OTHER_EMBEDDING = tuple(map(IPv6Network, ("64:ff9b:1::/48", "2001::/32")))
# This network, loopback, multicast, reserved: not addresses of one other machine. ::/96 has ::1.
_NO_DESTINATION = tuple(map(ip_network, ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "ff00::/8")))
NEVER: tuple[Network, ...] = (*SERVICES, *_EMBEDDING, *_OTHER_EMBEDDING, *_NO_DESTINATION)
"""Ranges that no spec may name, nor a part of them, beside `MAPPED`. The chart's admission policy has the same list."""
ALL_IPV4, ALL_IPV6 = IPv4Network("0.0.0.0/0"), IPv6Network("::/0")


def embedded(prefix: IPv6Network, inner: IPv4Network) -> IPv6Network:
    """The addresses of IPv6 that hold those of `inner` behind the prefix."""
    return IPv6Network(
        (
            int(prefix.network_address) | int(inner.network_address) << (96 - prefix.prefixlen),
            prefix.prefixlen + inner.prefixlen,
        )
    )


def _left_out() -> Iterator[Network]:
    """Services of nodes in each form of their addresses that is sent: mapped ones are sent as IPv4."""
    yield from SERVICES
    for prefix in _EMBEDDING:
        yield from (embedded(prefix, each) for each in SERVICES if isinstance(each, IPv4Network))


_LEFT_OUT = tuple(_left_out())


def check_egress(namespace: str, spec: EventConsumerSpec, settings: Settings) -> None:
    """Check every destination.

    Args:
        namespace: Namespace of the resource.
        spec: Its spec.
        settings: The administrator's settings.

    Raises:
        SpecError: A destination is not allowed; the message names the allowed ones and the setting.
    """
    for field, rules in _destinations(spec):
        for peer in (peer for rule in rules for peer in rule.to):
            if peer.ip_block:
                _check_block(field, peer.ip_block, settings.egress_cidrs)
            for other in peer.namespaces:
                if other not in (namespace, *settings.egress_namespaces):
                    allowed = ", ".join(settings.egress_namespaces) or "there is none"
                    raise SpecError(
                        field,
                        f"{other} is not one of the allowed namespaces ({allowed}): correct it, or ask the operator's "
                        "administrator to extend egressNamespaces",
                    )


def _destinations(spec: EventConsumerSpec) -> Iterator[tuple[str, list[EgressRule]]]:
    yield "spec.processing.egress", spec.processing.egress
    if spec.spark and spec.spark.enabled:
        yield _OF_PROGRAM, spec.spark.application.egress


def _check_block(field: str, block: IpBlock, allowed: tuple[str, ...]) -> None:
    network = block.network
    if any(_is_within(network, never) for never in (MAPPED, *NEVER)):
        raise SpecError(
            field,
            f"{block.cidr} is never allowed, because it has services of nodes, IPv4 addresses in IPv6, or no single "
            "machines: remove it, or write the range of IPv4",
        )
    if not any(_is_within(network, ip_network(each)) for each in allowed):
        ranges = ", ".join(allowed) or "there is none"
        raise SpecError(
            field,
            f"{network} is not within one of the allowed ranges ({ranges}): correct it, or ask the operator's "
            "administrator to extend egressCidrs",
        )
    for each in block.except_:
        if not _is_within(ip_network(each), network):
            raise SpecError(
                field, f"{each} is not within the cidr that it is an exception of: correct it, or remove it"
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


def block_of(network: Network, left_out: Sequence[str] = ()) -> dict[str, Any]:
    """A peer with the addresses of a network, without `left_out` and without services of nodes."""
    inside = (str(each) for each in _LEFT_OUT if _is_within(each, network))
    every = list(dict.fromkeys([*left_out, *inside]))
    return {"ipBlock": {"cidr": str(network)} | ({"except": every} if every else {})}


def _peer(peer: Peer) -> dict[str, Any]:
    if block := peer.ip_block:
        return block_of(block.network, block.except_)
    # Without a namespaceSelector, pods are those of the policy's own namespace.
    named = {"key": NAMESPACE_NAME, "operator": "In", "values": list(peer.namespaces)}
    return {
        "podSelector": as_written(peer.pod_selector) if peer.pod_selector else {},
        **({"namespaceSelector": {"matchExpressions": [named]}} if peer.namespaces else {}),
    }
