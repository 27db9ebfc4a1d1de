"""Decides in one scan which leases to acquire. Pure.

Hosts see each other only through the leases, so the fleet is the set of owners of unexpired leases and this host. Free
partitions are acquired at once up to the fair share. If none is free, one partition is stolen from the most loaded
host, if it has at least two more. Each steal reduces the difference, and at a difference of one no partition moves.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from eventconsumer_host.lease.model import Lease

STEAL_GAP = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """Partitions to acquire: free ones, in the order to try them, or one of another host.

    With operator messages, `planned_balancer` also decides the partitions to release, and whether the next scan is soon
    (`hurry`), or late because the fleet is balanced (`rest`).
    """

    acquire: tuple[str, ...] = ()
    steal: str | None = None
    release: tuple[str, ...] = ()
    hurry: bool = False
    rest: bool = False


def decide(owner: str, leases: Iterable[Lease], rng: Random) -> Decision:
    """Decide for `owner`.

    Args:
        owner: This host's owner id.
        leases: All leases of the consumer group.
        rng: Spreads simultaneous hosts over different partitions.
    """
    known = list(leases)
    load = Counter({owner: 0})
    load.update(lease.owner for lease in known if lease.leased and lease.owner)
    free = [lease.partition for lease in known if not lease.leased]
    wanted = min(len(free), _missing(load, load[owner], len(known)))
    if wanted > 0:
        return Decision(acquire=tuple(rng.sample(free, wanted)))
    return Decision(steal=_victim(owner, known, load, rng) if not free else None)


def _missing(load: Counter[str], mine: int, partitions: int) -> int:
    """Number of missing partitions: every host gets the floor of the mean, the first ones get one more."""
    floor, remainder = divmod(partitions, len(load))
    above = sum(1 for count in load.values() if count > floor)
    return max(0, floor - mine) + (1 if mine <= floor and above < remainder else 0)


def _victim(owner: str, leases: list[Lease], load: Counter[str], rng: Random) -> str | None:
    most = max(load.values())
    if most - load[owner] < STEAL_GAP:
        return None
    richest = rng.choice(sorted(host for host, count in load.items() if count == most))
    stealable = [lease.partition for lease in leases if lease.leased and lease.owner == richest and lease.token]
    return rng.choice(stealable) if stealable else None
