"""Decides which leases to acquire and to release with operator messages; without them, see `balancer`.

The plan (`assignment`) assigns partitions to hosts. A host acquires its own partitions as soon as no host owns them:
they are free, or their owner is confirmed to have ended. It releases partitions of another host's share as soon as that
host is ready, a few at a time so that most are read while some move. It never takes a partition from a live host: the
owner flushes and releases. Three rules keep partitions read if the plan cannot be reached. A partition without a reader
for a while is acquired by the host with the fewest partitions. This is done at once if its owner ended, or let the
lease expire, and the planned host is not ready, or if the planned host is deaf: it does not hear the hub, gives up all
partitions and acquires none. An owner that does not release a partition for a long time loses it by the rule of
`balancer`. A partition that was released for a host and not acquired is released for it again with growing delays.
Times are the host's own clock; the only state is the time since which a condition holds.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from eventconsumer_api.wire.identity import consumer_of, pod_of
from eventconsumer_host.lease import balancer
from eventconsumer_host.lease.assignment import assignment
from eventconsumer_host.lease.balancer import STEAL_GAP, Decision
from eventconsumer_host.lease.model import Lease

GRACE_SECONDS = 30.0  # time without an owner: above the restart time of a pod
MOVING = 4  # one in this number of a host's partitions moves at a time
FEWEST_MOVING = 2
MOST_MOVING = 64  # what the host that takes them acquires in about a second
MOVE_SECONDS = 10.0  # time after which a released partition that was not acquired no longer delays the next one
WAIT_SECONDS = 60.0  # maximum wait for an owner's release
KEEP_SECONDS = 60.0  # time for which a partition that its host did not acquire is kept; doubled each time
LONGEST_KEEP_SECONDS = 960.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The last operator message, if it is recent.

    Attributes:
        hosts: Number of desired hosts: ordinals 0 to hosts - 1.
        ready: Pods that are ready and stay.
        gone: Owners that are confirmed to have ended.
        deaf: Pods that do not hear the hub while others do.
        partitions: Number of partitions of the plan; None: as many as this host knows.
    """

    hosts: int
    ready: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    partitions: int | None = None
    deaf: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ScanInput:
    """The input of a scan.

    Attributes:
        now: On this host's clock, seconds.
        partitions: Ids of all partitions of the hub.
        leases: All leases that can be acquired; those of this host are leased by it.
        mine: Partitions that this host holds or is acquiring.
    """

    now: float
    partitions: Sequence[str]
    leases: Mapping[str, Lease]
    mine: Collection[str]


class Balancer:
    """Decides for one host, scan after scan."""

    def __init__(self, owner: str, rng: Random, *, shared: bool = False) -> None:
        """Decide for this owner.

        Args:
            owner: This host, see `identity.owner_id`. A pod without an ordinal has no plan.
            rng: Spreads simultaneous hosts over different partitions.
            shared: Other programs share the leases: then there is no plan.
        """
        self._owner = owner
        self._pod = pod_of(owner)
        self._ordinal = None if shared else ordinal_of(self._pod)
        self._rng = rng
        self._forget()

    def _forget(self) -> None:
        self._unowned: dict[str, float] = {}  # partition -> time since which it has no reader
        self._awaited: dict[str, float] = {}  # partition of this host -> time since which it waits for it
        self._kept: dict[str, tuple[float, float]] = {}  # partition -> end and length of the delay of its release
        self._given: dict[str, float] = {}  # partition -> time since which this host is releasing it

    def decide(self, view: ScanInput, fleet: Fleet | None) -> Decision:
        """The partitions to acquire and to release now."""
        gone = fleet.gone - {self._owner} if fleet else frozenset()
        leases = {
            name: replace(lease, leased=False) if lease.owner in gone else lease for name, lease in view.leases.items()
        }
        if fleet is None or self._ordinal is None:
            self._forget()
            return balancer.decide(self._owner, leases.values(), self._rng)
        if self._pod in fleet.deaf:  # other hosts read its partitions until it hears the hub again
            self._forget()
            return Decision(release=tuple(view.mine))
        plan = assignment(view.partitions, fleet.hosts)
        free = [name for name, lease in leases.items() if not lease.leased and name not in view.mine]
        self._unowned = {name: self._unowned.get(name, view.now) for name in free}
        own = [name for name in leases if plan.get(name) == self._ordinal and name not in view.mine]
        since = (
            view.now if self._pod in fleet.ready else float("inf")
        )  # others keep all partitions until this host is ready
        self._awaited = {name: min(self._awaited.get(name, since), since) for name in own}
        acquire = [name for name in free if name in self._awaited]
        due = self._due(view, plan, fleet)
        release = self._released(view, due, leases)
        return Decision(
            acquire=(*acquire, *self._stray(view, plan, fleet, leases, self._ordinal)),
            steal=None if acquire else self._overdue(view.now, leases),
            release=release,
            hurry=len(release) < len(due)
            or any(0 <= view.now - began < WAIT_SECONDS for began in self._awaited.values()),
            rest=self._as_planned(view, plan, fleet),
        )

    def _due(self, view: ScanInput, plan: Mapping[str, int], fleet: Fleet) -> list[str]:
        """Partitions of hosts that are ready for them."""
        if fleet.partitions not in {None, len(view.partitions)}:
            return []  # this host or others do not know all partitions yet: wait for an equal plan
        ready = {ordinal_of(pod) for pod in fleet.ready}
        self._kept = {name: kept for name, kept in self._kept.items() if name in view.leases}
        return [
            name
            for name in view.partitions
            if name in view.mine
            and plan.get(name, self._ordinal) != self._ordinal
            and plan[name] in ready
            and self._kept.get(name, (view.now, 0))[0] <= view.now
        ]

    def _released(self, view: ScanInput, due: Sequence[str], leases: Mapping[str, Lease]) -> tuple[str, ...]:
        """The partitions to release now; released ones count as moving until they have an owner."""
        on_their_way = {name for name in self._given if name in leases and not leases[name].leased} | {*due}
        self._given = {
            name: since
            for name, since in self._given.items()
            if name in on_their_way and (name in due or view.now - since < MOVE_SECONDS)
        }
        room = min(MOST_MOVING, max(FEWEST_MOVING, len(view.mine) // MOVING)) - len(self._given)
        more = [name for name in due if name not in self._given][: max(0, room)]
        self._given |= dict.fromkeys(more, view.now)
        return tuple(name for name in due if name in self._given)

    def _stray(
        self, view: ScanInput, plan: Mapping[str, int], fleet: Fleet, leases: Mapping[str, Lease], me: int
    ) -> list[str]:
        """Partitions of other hosts without an owner for a long time, which this host should acquire."""
        ready = {ordinal for pod in fleet.ready if (ordinal := ordinal_of(pod)) is not None}
        deaf = {ordinal_of(pod) for pod in fleet.deaf}
        loads = Counter(self._ordinal_of(lease.owner) for lease in leases.values() if lease.leased)
        found = []
        for name, since in sorted(self._unowned.items()):
            age = view.now - since
            left_behind = bool(view.leases[name].owner) and plan.get(name) not in ready
            grace = 0.0 if left_behind or plan.get(name) in deaf else GRACE_SECONDS
            if name not in plan or plan[name] == me or age < grace:
                continue
            others = (ready | {me}) - {plan[name]}
            fewest = min(others, key=lambda ordinal: (ordinal >= fleet.hosts, loads[ordinal], ordinal))
            loads[fewest] += 1
            if fewest == me or age >= grace + GRACE_SECONDS:
                found.append(name)
                if plan[name] in ready:
                    self._keep(name, view.now, since)
        return found

    def _keep(self, name: str, now: float, unowned_since: float) -> None:
        """Delay the next release of a partition; the delay doubles with each release, not with each attempt."""
        until, seconds = self._kept.get(name, (float("-inf"), KEEP_SECONDS / 2))
        if until <= unowned_since:
            seconds = min(LONGEST_KEEP_SECONDS, 2 * seconds)
        self._kept[name] = (now + seconds, seconds)

    def _overdue(self, now: float, leases: Mapping[str, Lease]) -> str | None:
        """A partition whose owner does not release it, by the rule of `balancer`."""
        loads = Counter(lease.owner for lease in leases.values() if lease.leased)
        names = [
            name
            for name, since in self._awaited.items()
            if now - since >= WAIT_SECONDS
            and leases[name].leased
            and leases[name].token
            and loads[leases[name].owner] - loads[self._owner] >= STEAL_GAP
        ]
        most = max((loads[leases[name].owner] for name in names), default=0)
        return self._rng.choice([name for name in names if loads[leases[name].owner] == most]) if names else None

    def _as_planned(self, view: ScanInput, plan: Mapping[str, int], fleet: Fleet) -> bool:
        """Whether all hosts are ready, and each partition is held by its planned host."""
        ready = {ordinal_of(pod) for pod in fleet.ready}
        return (
            fleet.partitions in {None, len(view.partitions)}
            and ready >= set(range(fleet.hosts))
            and plan.keys() == view.leases.keys()
            and all(lease.leased and self._ordinal_of(lease.owner) == plan[name] for name, lease in view.leases.items())
        )

    def _ordinal_of(self, owner: str) -> int | None:
        """The ordinal of a host of this consumer; None for any other owner, whatever the name of its pod."""
        return ordinal_of(pod_of(owner)) if consumer_of(owner) == consumer_of(self._owner) else None


def ordinal_of(pod: str) -> int | None:
    """A pod's ordinal in its StatefulSet; None without a StatefulSet."""
    number = pod.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 and "-" in pod else None
