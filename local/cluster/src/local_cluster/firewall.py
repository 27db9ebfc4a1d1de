"""PURE: the iptables rules of the cluster, and the removal of rules that its processes left."""

import re
from collections.abc import Iterable

from local_cluster.layout import Network

# kube-proxy and the kubelet create chains with this prefix, and rules in the kernel's chains that jump to them.
_KUBERNETES = "KUBE-"


def confinement(network: Network) -> list[list[str]]:
    """iptables arguments that allow traffic between pods and keep it inside the cluster.

    The first rules of FORWARD, because other software (a Docker engine) may drop unknown traffic.
    """
    pods, chain = str(network.pods), network.chain
    return [
        ["-t", "filter", "-N", chain],
        ["-t", "filter", "-A", chain, "-s", pods, "-d", pods, "-j", "ACCEPT"],
        ["-t", "filter", "-A", chain, "-s", pods, "-j", "REJECT", "--reject-with", "icmp-net-prohibited"],
        ["-t", "filter", "-A", chain, "-d", pods, "-j", "DROP"],
        ["-t", "filter", "-I", "FORWARD", "1", "-j", chain],
    ]


def removal(saved: str, own_chains: Iterable[str]) -> str:
    """Commands that remove every chain of the cluster, and every rule of other chains that jumps to one.

    Args:
        saved: Output of `iptables-save`.
        own_chains: Names of the cluster's chains, without the chains of Kubernetes.

    Returns:
        Input for `iptables-restore --noflush`; empty if there is nothing to remove.
    """
    own = set(own_chains)

    def is_ours(chain: str) -> bool:
        return chain.startswith(_KUBERNETES) or chain in own

    output: list[str] = []
    for table, lines in _tables(saved):
        chains = [line[1:].split()[0] for line in lines if line.startswith(":")]
        ours = [chain for chain in chains if is_ours(chain)]
        jumps = [
            f"-D{line[2:]}"
            for line in lines
            if line.startswith("-A ") and not is_ours(line.split()[1]) and is_ours(_target(line))
        ]
        if ours or jumps:
            # Declaring a chain empties it, so that afterwards none is referred to and each can be deleted.
            output += [
                f"*{table}",
                *(f":{chain} - [0:0]" for chain in ours),
                *jumps,
                *(f"-X {chain}" for chain in ours),
                "COMMIT",
            ]
    return "\n".join([*output, ""]) if output else ""


def _tables(saved: str) -> list[tuple[str, list[str]]]:
    tables: list[tuple[str, list[str]]] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            tables.append((line[1:].strip(), []))
        elif tables and line.startswith((":", "-A ")):
            tables[-1][1].append(line)
    return tables


def _target(rule: str) -> str:
    found = re.search(r" (?:-j|-g) (\S+)", rule)
    return found[1] if found else ""
