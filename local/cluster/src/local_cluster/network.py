"""Set-up and removal of the node's address and of the rules that keep pods inside the cluster."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network

from local_cluster.errors import CommandFailed, Conflict
from local_cluster.firewall import confinement, removal
from local_cluster.forwarding import Forwarding
from local_cluster.layout import Network, Ports
from local_cluster.shell import run, succeeds


@dataclass(frozen=True)
class Listener:
    """A socket of another program.

    Attributes:
        address: Its local address; `0.0.0.0` and `*` mean all.
        port: Its port.
        owner: Such as `dnsmasq (pid 812)`; `unknown` if the kernel does not report it.
    """

    address: str
    port: int
    owner: str


def parse_listeners(text: str) -> list[Listener]:
    """The sockets in the output of `ss -H -lntup`."""
    listeners = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 5 or ":" not in fields[4]:
            continue
        address, port = fields[4].rsplit(":", 1)
        found = re.search(r'users:\(\("([^"]+)",pid=(\d+)', line)
        owner = f"{found[1]} (pid {found[2]})" if found else "unknown"
        if port.isdigit():
            listeners.append(Listener(address.split("%")[0].strip("[]"), int(port), owner))
    return listeners


def obstacles(listeners: Iterable[Listener], network: Network) -> list[str]:
    """The listeners that occupy a port of the cluster on its address, one sentence each."""
    everywhere = {"0.0.0.0", "*", "::", str(network.node)}  # noqa: S104 -- compared with, not bound to
    taken = (item for item in listeners if item.port in Ports.all() and item.address in everywhere)
    return sorted({f"port {item.port} is in use by {item.owner} on {item.address}" for item in taken})


def overlapping_routes(text: str, network: Network) -> list[str]:
    """The lines of `ip -4 route show table all` in which other programs use the cluster's addresses.

    Args:
        text: Output of the command.
        network: The cluster's addresses; routes through its interface or to a pod's veth are not foreign.
    """
    foreign = []
    for line in text.splitlines():
        words = line.split()
        target = next((word for word in words if re.match(r"^\d+\.\d+\.\d+\.\d+(/\d+)?$", word)), None)
        device = words[words.index("dev") + 1] if "dev" in words else ""
        if target is None or device == network.interface or device.startswith("veth"):
            continue
        route = IPv4Network(target, strict=False)
        if any(route.overlaps(ours) for ours in (network.pods, network.services)) or network.node in route:
            foreign.append(line.strip())
    return foreign


def check_free(network: Network) -> None:
    """Verify that no other program uses the cluster's addresses and ports; call it before the cluster runs.

    Raises:
        Conflict: Another program uses one.
    """
    routes = overlapping_routes(run(["ip", "-4", "route", "show", "table", "all"]), network)
    if routes:
        raise Conflict(
            f"The addresses of the cluster ({network.pods}, {network.services}, {network.node}) are in use here:\n"
            + "\n".join(routes)
            + "\nDisconnect that network, or change `Network` in local_cluster/layout.py."
        )
    taken = obstacles(parse_listeners(run(["ss", "-H", "-lntup"])), network)
    if taken:
        raise Conflict(
            "Another program listens on all addresses of this machine at a port the cluster needs: "
            + "; ".join(taken)
            + ". Stop it, or bind it to one address, and retry."
        )


def set_up(network: Network, forwarding: Forwarding) -> None:
    """Create the interface with the node's address, the route to services and the confinement of pods."""
    forwarding.enable()
    if not succeeds(["ip", "link", "show", network.interface]):
        run(["ip", "link", "add", network.interface, "type", "bridge"])
    run(["ip", "address", "replace", f"{network.node}/32", "dev", network.interface])
    run(["ip", "link", "set", network.interface, "up"])
    run(["ip", "route", "replace", str(network.services), "dev", network.interface, "src", str(network.node)])
    if not succeeds(["iptables", "-t", "filter", "-n", "-L", network.chain]):
        for rule in confinement(network):
            run(["iptables", "-w", *rule])


def tear_down(network: Network, forwarding: Forwarding) -> None:
    """Remove the interface and all iptables chains of the cluster; does nothing where there are none."""
    forwarding.put_back()
    if succeeds(["ip", "link", "show", network.interface]):
        run(["ip", "link", "delete", network.interface])
    for family in ("iptables", "ip6tables"):
        try:
            rules = removal(run([f"{family}-save"]), {network.chain})
        except CommandFailed:  # a kernel without this family has no rules of it
            continue
        if rules:
            run([f"{family}-restore", "-w", "--noflush"], stdin=rules)
