"""Which leases to take and to give up while the operator tells what the fleet is; without that, see `balance`.

The plan (`assignment`) says which host reads a partition. A host takes what is its own as soon as no host has it: it is
free, or its owner has certainly ended. It gives up what is another's as soon as that host is ready, a few at a time so
that most are read while some move, and never takes from a host that lives: the owner flushes and releases. Three things
keep partitions read when the plan does not come true: a partition without a reader for a while is taken by the host
with fewest, and at once where its owner ended without giving it up and the host of the plan is not ready; an owner that
does not give a partition up for long loses it by the rule of `balance`; and a host that was given a partition and did
not take it is given it again later and later. Times are the host's own clock; the only memory is since when something
is as it is.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from eventconsumer_api.identity import consumer_of, pod_of
from eventconsumer_processor.lease import balancer
from eventconsumer_processor.lease.assignment import assignment
from eventconsumer_processor.lease.balancer import STEAL_GAP, Decision
from eventconsumer_processor.lease.model import Lease

GRACE_SECONDS = 30.0  # nobody had a partition for so long: above the time in which a pod that restarts comes back
MOVING = 4  # the part of a host's partitions that move at a time: one in so many
FEWEST_MOVING = 2
MOVE_SECONDS = 10.0  # after which a partition that was given up and not taken delays the next one no more
WAIT_SECONDS = 60.0  # that a host waits for an owner to give a partition up
KEEP_SECONDS = 60.0  # for which a partition that its host did not take is kept; doubled each time
LONGEST_KEEP_SECONDS = 960.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the operator told last, and not too long ago.

    Attributes:
        hosts: Hosts wanted: ordinals 0 to hosts - 1.
        ready: Pods that are ready and stay.
        gone: Owners that have certainly ended.
        partitions: How many partitions the plan is for; None: as many as this host knows.
    """

    hosts: int
    ready: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What a scan saw.

    Attributes:
        now: On this host's clock, seconds.
        partitions: Ids of all partitions of the hub.
        leases: All leases that can be taken; those of this host are leased by it.
        mine: Partitions that this host holds or is taking.
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
            owner: This host, see `identity.owner_id`. A pod without an ordinal is of no fleet: it follows no plan.
            rng: Spreads simultaneous hosts over different partitions.
            shared: Other programs share the leases: then no plan can come true.
        """
        self._owner = owner
        self._pod = pod_of(owner)
        self._ordinal = None if shared else ordinal_of(self._pod)
        self._rng = rng
        self._forget()

    def _forget(self) -> None:
        self._unowned: dict[str, float] = {}  # partition -> since when it has no reader
        self._awaited: dict[str, float] = {}  # partition of this host -> since when it waits for it
        self._kept: dict[str, tuple[float, float]] = {}  # partition -> not given up until then, and how long that was
        self._given: dict[str, float] = {}  # partition -> since when this host gives it up

    def decide(self, view: View, fleet: Fleet | None) -> Decision:
        """What to take and what to give up now."""
        gone = fleet.gone - {self._owner} if fleet else frozenset()
        leases = {
            name: replace(lease, leased=False) if lease.owner in gone else lease for name, lease in view.leases.items()
        }
        if fleet is None or self._ordinal is None:
            self._forget()
            return balancer.decide(self._owner, leases.values(), self._rng)
        plan = assignment(view.partitions, fleet.hosts)
        free = [name for name, lease in leases.items() if not lease.leased and name not in view.mine]
        self._unowned = {name: self._unowned.get(name, view.now) for name in free}
        own = [name for name in leases if plan.get(name) == self._ordinal and name not in view.mine]
        since = (
            view.now if self._pod in fleet.ready else float("inf")
        )  # others keep everything until this host is ready
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

    def _due(self, view: View, plan: Mapping[str, int], fleet: Fleet) -> list[str]:
        """What another host is ready for."""
        if fleet.partitions not in {None, len(view.partitions)}:
            return []  # this host does not know all partitions yet, or others do not: wait for the same plan
        ready = {ordinal_of(pod) for pod in fleet.ready}
        self._kept = {name: kept for name, kept in self._kept.items() if name in view.leases}
        return [
            name
            for name in view.mine
            if plan.get(name, self._ordinal) != self._ordinal
            and plan[name] in ready
            and self._kept.get(name, (view.now, 0))[0] <= view.now
        ]

    def _released(self, view: View, due: Sequence[str], leases: Mapping[str, Lease]) -> tuple[str, ...]:
        """What of it to give up now: others are on their way until somebody has them."""
        on_their_way = {name for name in self._given if name in leases and not leases[name].leased} | {*due}
        self._given = {
            name: since
            for name, since in self._given.items()
            if name in on_their_way and (name in due or view.now - since < MOVE_SECONDS)
        }
        room = max(FEWEST_MOVING, len(view.mine) // MOVING) - len(self._given)
        more = [name for name in due if name not in self._given][: max(0, room)]
        self._given |= dict.fromkeys(more, view.now)
        return tuple(name for name in due if name in self._given)

    def _stray(
        self, view: View, plan: Mapping[str, int], fleet: Fleet, leases: Mapping[str, Lease], me: int
    ) -> list[str]:
        """What nobody has for long though it is another's, and this host should take."""
        ready = {ordinal for pod in fleet.ready if (ordinal := ordinal_of(pod)) is not None}
        loads = Counter(self._ordinal_of(lease.owner) for lease in leases.values() if lease.leased)
        found = []
        for name, since in sorted(self._unowned.items()):
            age = view.now - since
            left_behind = view.leases[name].owner in fleet.gone - {self._owner} and plan.get(name) not in ready
            grace = 0.0 if left_behind else GRACE_SECONDS
            if name not in plan or plan[name] == me or age < grace:
                continue
            others = (ready | {me}) - {plan[name]}
            fewest = min(others, key=lambda ordinal: (ordinal >= fleet.hosts, loads[ordinal], ordinal))
            loads[fewest] += 1
            if fewest == me or age >= grace + GRACE_SECONDS:
                found.append(name)
                if plan[name] in ready:
                    seconds = min(LONGEST_KEEP_SECONDS, 2 * self._kept.get(name, (0, KEEP_SECONDS / 2))[1])
                    self._kept[name] = (view.now + seconds, seconds)
        return found

    def _overdue(self, now: float, leases: Mapping[str, Lease]) -> str | None:
        """A partition whose owner does not give it up, by the rule of `balance`."""
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

    def _as_planned(self, view: View, plan: Mapping[str, int], fleet: Fleet) -> bool:
        """Whether all hosts are ready, and each partition is held by the host that it should be: nothing will move."""
        ready = {ordinal_of(pod) for pod in fleet.ready}
        return (
            fleet.partitions in {None, len(view.partitions)}
            and ready >= set(range(fleet.hosts))
            and plan.keys() == view.leases.keys()
            and all(lease.leased and self._ordinal_of(lease.owner) == plan[name] for name, lease in view.leases.items())
        )

    def _ordinal_of(self, owner: str) -> int | None:
        """The ordinal of a host of this very consumer; None for any other owner, whatever its pod is called."""
        return ordinal_of(pod_of(owner)) if consumer_of(owner) == consumer_of(self._owner) else None


def ordinal_of(pod: str) -> int | None:
    """A pod's number in its StatefulSet; None where it is in none."""
    number = pod.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 and "-" in pod else None
