"""Which leases to take now: the pure decision of one scan.

Hosts see each other only through the leases, so the fleet is the set of owners of unexpired leases and this host. Free
partitions are taken at once up to the fair share; with none free, one partition is stolen from the most loaded host
while it has at least two more. Each steal shrinks the spread, and at a spread of one nothing moves: balanced stays
balanced.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from eventconsumer_processor.lease.model import Lease

STEAL_GAP = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """Partitions to take: free ones, in the order to try them, or one of another host.

    Where the operator tells what the fleet is, `planned` also decides what to give up, and whether to look again soon
    (`hurry`), or rarely, since everything is as it should be (`rest`).
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
    """How many partitions this host lacks: every host gets the floor of the mean, the first ones to ask one more."""
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
