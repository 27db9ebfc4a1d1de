"""Which host reads which partition, from the partitions and the number of hosts alone. Pure.

All hosts compute the same without asking each other. The plan for n + 1 hosts differs from the plan for n only by what
the new host takes: beginning with everything on host 0, hosts are added one by one, and each takes from the most loaded
until no host has more than one more than it. What it takes among equals is decided by a hash, so that most partitions
stay where they are when the hub gets more of them, too.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache


def assignment(partitions: Iterable[str], hosts: int) -> Mapping[str, int]:
    """The ordinal of the host for each partition.

    Args:
        partitions: Ids of all partitions of the hub, in any order.
        hosts: Number of hosts; with none, nothing is assigned.
    """
    return _assignment(tuple(sorted(set(partitions))), hosts)


@lru_cache(maxsize=16)
def _assignment(partitions: tuple[str, ...], hosts: int) -> Mapping[str, int]:
    if hosts <= 0:
        return {}
    found = dict.fromkeys(partitions, 0)
    loads = [len(partitions)]
    # A host above the number of partitions would find nothing to take.
    for ordinal in range(1, min(hosts, len(partitions))):
        loads.append(0)
        wishes = sorted(partitions, key=lambda partition: _score(ordinal, partition))
        while (most := max(loads)) - loads[ordinal] > 1:
            taken = next(partition for partition in wishes if loads[found[partition]] == most)
            loads[found[taken]] -= 1
            loads[ordinal] += 1
            found[taken] = ordinal
    return found


def _score(ordinal: int, partition: str) -> bytes:
    return hashlib.blake2b(f"{ordinal}/{partition}".encode(), digest_size=8).digest()
