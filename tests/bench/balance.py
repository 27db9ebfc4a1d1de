"""How fast a fleet balances, and what it asks of storage at rest, in virtual time: 32 to 2,048 partitions.

The hosts are the real classes on the simulation's loop and network (each request takes 4 to 40 ms), with leases of
60 s, the default. An operator tells them their fleet: every three seconds, and when a host becomes ready; `dead_alone`
is without an operator. A partition counts as read while a link is attached to it; every partition gets an event each
ten seconds. What takes real time on a machine (starting a process, CPU) takes none here. A line ends with the ratio to
the line before of the same change.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import structlog

from eventconsumer_api.wire.fleet import FLEET_SILENCE_SECONDS, FleetMessage
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import owner_id, pod_of
from eventconsumer_host.identity.records import MOVED_SECONDS
from eventconsumer_host.partition.manager import rarity
from tests.bench.options import Options
from tests.bench.results import Row
from tests.simulation.host import SimHost, Surroundings
from tests.simulation.loop import SimLoop
from tests.simulation.network import Network, Node
from tests.support.fakes.blobs import EPOCH, FakeBlobStore
from tests.support.fakes.hub import FakeHub

COUNTS, QUICK_COUNTS = (32, 256, 1024, 2048), (32,)
MOST_KILLED = 256  # partitions, for the changes that take long
# Partitions and hosts at rest: in a quick run, in others, and with `--long` too.
QUICK_RESTING, RESTING, LONG_RESTING = ((32, 8),), ((256, 8), (256, 32)), ((256, 128), (2048, 8))
CALM_SECONDS = 120.0  # until all hosts are at rest: above the pause between two scans
LEASE_SECONDS = 60
REST_SECONDS = 1800.0  # fifty renewals of a lease
FIRST_SECONDS = 20.0  # of a settled fleet with many partitions before a change; else `LEASE_SECONDS`
TICK_SECONDS = 0.1  # between looks
EVENT_TICKS = 100  # between two events of a partition
TELL_SECONDS = 3.0
SETTLED_SECONDS = 3.0  # balanced for so long is balanced
CONFIRM_SECONDS = 3.0  # from a host's death until the operator is sure
LONGEST_SECONDS = 1200.0


class Unseen:
    """A witness that looks away."""

    def sent(self, node: Node, operation: str, subject: str) -> None:
        """See `Witness`."""

    def granted(self, node: Node, subject: str, since: float) -> None:
        """See `Witness`."""

    def read(self, node: Node, subject: str, data: bytes) -> None:
        """See `Witness`."""

    def attaching(self, node: Node, partition: str, after: int, epoch: int) -> None:
        """See `Witness`."""

    def stolen(self, node: Node, partition: str, epoch: int) -> None:
        """See `Witness`."""


class Quick(Network):
    """A network on a good day."""

    def latency(self) -> float:
        """Seconds, one way."""
        return self._rng.uniform(0.002, 0.02)


class Fleet:
    """Hosts, a hub, storage and the operator; `run` lets time pass, in ticks."""

    def __init__(self, partitions: int) -> None:
        self.loop = SimLoop()
        self.hosts: dict[int, SimHost] = {}
        self.wanted = 0
        self.silent = False  # the operator is away
        self.events = True  # they come
        self.gone: list[str] = []
        self.hub = FakeHub(partitions)
        self._rng = Random(f"balance {partitions}")
        self._failed: list[str] = []
        network = Quick(self.loop, self._rng, lambda _: None)
        stores = (FakeBlobStore(lambda: self.loop.now), FakeBlobStore(lambda: self.loop.now))
        key = Path(__file__)  # any file: messages are not verified
        self._around = Surroundings(self.loop, network, *stores, self._failed.append, key)
        self._stream: Any = SimpleNamespace(hub=self.hub, checker=Unseen(), transforms=False, receiver=None)
        self._unread = dict.fromkeys(self.hub.partitions, 0.0)
        self._longest = 0.0
        self._generation = self._starts = 0
        self._told = (0.0, 0, frozenset[str](), 0)

    def start(self, number: int) -> None:
        """Start a host; a new pod where there was one."""
        self._starts += 1
        self.hosts[number] = SimHost(
            owner_id("shop/orders", f"host-{number}", str(self._starts)),
            self._config(),
            self._around,
            self._stream,
            self._starts,
        )

    def _config(self) -> HostConfig:
        credential = {"field": "f", "connectionStringFile": "x"}
        return HostConfig.model_validate(
            {
                "resource": {"namespace": "shop", "name": "orders", "uid": "u"},
                "eventHub": {"name": "orders", "consumerGroup": "$Default", "credential": credential},
                "leases": {
                    "location": {"container": "leases", "credential": credential},
                    "durationSeconds": LEASE_SECONDS,
                },
                "startingPosition": {"type": "Earliest"},
                "processing": {"maxBatchSize": 300, "prefetchCount": 300, "maxWaitSeconds": 20},
                "sink": {"container": "drained", "prefix": "p", "credential": credential},
                "roll": {"maxBytes": 1_000_000, "maxSeconds": 60, "maxEvents": 100_000},
                "batches": None,
                "drainSeconds": 10,
            }
        )

    def run(self, seconds: float) -> None:
        """Let time pass: events come, the operator looks and tells, and what is unread is noted."""
        end = self.loop.now + seconds
        while self.loop.now < end:
            self._tell()
            tick = round(self.loop.now / TICK_SECONDS)
            for name, partition in self.hub.partitions.items():
                if self.events and int(name) % EVENT_TICKS == tick % EVENT_TICKS:
                    partition.add(b"x")
                    partition.retain_from(partition.last - 100)
                read = partition.reader is not None and not (partition.reader.closed or partition.reader.broken)
                self._unread[name] = 0.0 if read else self._unread[name] + TICK_SECONDS
                self._longest = max(self._longest, self._unread[name])
            self.loop.run_for(TICK_SECONDS)
            if self._failed:
                raise RuntimeError(self._failed[0])

    def _tell(self) -> None:
        ready = frozenset(
            pod_of(host.owner) for number, host in self.hosts.items() if host.manager and number < self.wanted
        )
        when, *before = self._told
        if self.silent or (before == [self.wanted, ready, len(self.gone)] and self.loop.now - when < TELL_SECONDS):
            return
        self._told = (self.loop.now, self.wanted, ready, len(self.gone))
        self._generation += 1
        message = FleetMessage(
            resource="shop/orders",
            generation=self._generation,
            time=EPOCH + timedelta(seconds=self.loop.now),
            hosts=self.wanted,
            ready=tuple(sorted(ready)),
            gone=tuple(self.gone),
        )
        for host in self.hosts.values():
            if host.running and host.manager:
                host.news.accept(message)

    def settle(self) -> tuple[float, float]:
        """Run until all is owned evenly, read, and stays so; seconds until it was, and the longest unread meanwhile."""
        began, since = self.loop.now, 0.0
        self._longest = 0.0
        self._unread = dict.fromkeys(self._unread, 0.0)
        while not since or self.loop.now - since < SETTLED_SECONDS:
            counts = [len(host.owns()) for number, host in self.hosts.items() if number < self.wanted]
            met = sum(counts) == len(self.hub.partitions) and max(counts) - min(counts) <= 1
            met = met and len(counts) == self.wanted and not any(self._unread.values())
            since = (since or self.loop.now) if met else 0.0
            if self.loop.now - began > LONGEST_SECONDS:
                raise RuntimeError(f"not balanced in {LONGEST_SECONDS:.0f} s: {counts}")
            self.run(TICK_SECONDS)
        return since - began, self._longest

    def calls(self) -> Counter[str]:
        """Storage requests since the last call, by container and operation."""
        found = Counter[str]()
        for where, store in (("leases", self._around.leases), ("files", self._around.sink)):
            found.update(f"{where} {operation}" for operation, _ in store.calls)
            store.calls.clear()
        return found

    def close(self) -> None:
        """Take it down."""
        for host in self.hosts.values():
            host.crash()
        self.loop.run_for(1)
        self.loop.close()


def added(fleet: Fleet) -> None:
    """A second host comes to one."""
    fleet.wanted = 2
    fleet.start(1)


def taken(fleet: Fleet) -> None:
    """Six of eight hosts leave."""
    fleet.wanted = 2


def died(fleet: Fleet) -> None:
    """One of eight died; the operator is sure of it now, and its pod comes again."""
    fleet.gone.append(fleet.hosts[3].owner)
    fleet.start(3)


def kill(fleet: Fleet) -> None:
    """One of eight dies; its connections break with it."""
    owned = fleet.hosts[3].owns()
    fleet.hosts[3].crash()
    for partition in owned:
        reader: Any = fleet.hub.partitions[partition].reader
        reader.closed = True
    fleet.run(CONFIRM_SECONDS)


def left(fleet: Fleet) -> None:
    """The operator goes away; when hosts have noticed, the last of eight dies and does not come back."""
    fleet.silent = True
    fleet.run(FLEET_SILENCE_SECONDS + LEASE_SECONDS)
    owned = fleet.hosts[7].owns()
    fleet.hosts[7].crash()
    for partition in owned:
        reader: Any = fleet.hub.partitions[partition].reader
        reader.closed = True
    fleet.wanted = 7


def nothing(_: Fleet) -> None:
    """The change was made before."""


@contextmanager
def _fleet(partitions: int, hosts: int, *, events: bool = True) -> Iterator[Fleet]:
    """A settled fleet; its log is dropped."""
    before = structlog.get_config()
    structlog.configure(processors=[_drop], cache_logger_on_first_use=False)
    fleet = Fleet(partitions)
    fleet.events = events
    try:
        fleet.wanted = hosts
        for number in range(hosts):
            fleet.start(number)
        fleet.settle()
        fleet.run(LEASE_SECONDS if partitions <= MOST_KILLED else FIRST_SECONDS)
        yield fleet
    finally:
        fleet.close()
        structlog.configure(**before)


def _drop(_: object, __: str, ___: Any) -> Any:
    raise structlog.DropEvent


CHANGES: dict[str, tuple[int, Callable[[Fleet], None] | None, Callable[[Fleet], None]]] = {
    "1_to_2": (1, None, added),  # hosts at first, what is not measured, what is
    "8_to_2": (8, None, taken),
    "dead": (8, kill, died),
    "dead_alone": (8, left, nothing),
}
MANY = "dead_of_128", (128, kill, died), 2048  # with `--long`


def rows(options: Options) -> list[Row]:
    """Each change with each number of partitions; then what fleets ask of storage at rest."""
    counts, resting = (QUICK_COUNTS, QUICK_RESTING) if options.quick else (COUNTS, RESTING)
    found = []
    for change, how in CHANGES.items():
        before = 0.0
        for count in counts:
            if how[1] is None or count <= MOST_KILLED:
                found += _changed(change, how, count, before, options)
                before = found[-2].ours
    if options.long:
        found += _changed(*MANY, 0.0, options)
        resting += LONG_RESTING
    return found + [_at_rest(*each, options) for each in resting]


def _changed(
    change: str,
    how: tuple[int, Callable[[Fleet], None] | None, Callable[[Fleet], None]],
    count: int,
    before: float,
    options: Options,
) -> list[Row]:
    hosts, first, then = how
    with _fleet(count, hosts) as fleet:
        if first:
            first(fleet)
        fleet.calls()
        then(fleet)
        settled, unread = fleet.settle()
        calls = fleet.calls().total() / count
    line = f"{count} partitions, {change}: settled after {settled:.1f} s, longest unread {unread:.1f} s"
    growth = f", {settled / before:.1f} times the settling before" if before else ""
    options.say(f"{line}, {calls:.1f} storage calls for each partition{growth}")
    return [
        Row(f"balance_{change}_settled_{count}", "seconds", settled),
        Row(f"balance_{change}_unread_{count}", "seconds", unread),
    ]


def _at_rest(count: int, hosts: int, options: Options) -> Row:
    """Storage calls for each partition and minute of a fleet without events, in an interval of its rarest calls."""
    seconds = max(REST_SECONDS, MOVED_SECONDS * rarity(hosts))
    with _fleet(count, hosts, events=False) as fleet:
        fleet.run(CALM_SECONDS)
        fleet.calls()
        fleet.run(seconds)
        calls = fleet.calls()
    minutes = seconds / 60
    kinds = ", ".join(f"{kind} {number / hosts / minutes:.2f}" for kind, number in calls.most_common(6))
    each = calls.total() / count / minutes
    options.say(f"{count} partitions, {hosts} hosts at rest: {each:.2f} storage calls for each partition and minute")
    options.say(f"    for each host and minute: {kinds}")
    return Row(f"balance_rest_calls_{count}_on_{hosts}", "calls per partition and minute", each)
