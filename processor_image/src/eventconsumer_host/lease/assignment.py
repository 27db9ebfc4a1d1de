"""Assignment of partitions to hosts, from the partitions and the number of hosts alone. Pure.

All hosts compute the same plan without communication. The plan for n + 1 hosts differs from the plan for n only by the
partitions of the new host: all partitions start on host 0, and hosts are added one by one; each takes partitions from
the most loaded hosts until the numbers differ by at most one. A hash decides between equals, so that most partitions
also keep their host when partitions are added to the hub.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache


def assignment(partitions: Iterable[str], hosts: int) -> Mapping[str, int]:
    """The ordinal of the host for each partition.

    Args:
        partitions: Ids of all partitions of the hub, in any order.
        hosts: Number of hosts; with 0 the result is empty.
    """
    return _assignment(tuple(sorted(set(partitions))), hosts)


@lru_cache(maxsize=16)
def _assignment(partitions: tuple[str, ...], hosts: int) -> Mapping[str, int]:
    if hosts <= 0:
        return {}
    found = dict.fromkeys(partitions, 0)
    loads = [len(partitions)]
    # Hosts above the number of partitions have no partition.
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
