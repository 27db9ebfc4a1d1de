"""The world of one run: a storage account with a container for leases and one for files, one or two hubs, and their
consumers; and what happens to them.

There are four kinds of world:

    alone      one consumer
    beside     two hubs with a consumer each, which name nothing but the same two containers
    colliding  the same, but both say that their leases are at the same place: one of them must touch nothing
    one chain  one hub, and two resources that name the same folder of files: only one at a time may drain into it

Methods are what the rules play; numbers of hosts and partitions run over all consumers. `heal` ends every disturbance,
and `settle` then asks for what must come: owners for all partitions (L1), a balanced fleet that stays (L2), no lag and
a complete account of every event (L3, S4). Where an operator runs, it tells hosts what their fleet is, and whoever has
its key may tell them anything. In the end either it tells the truth, and the fleet must come to its plan, or it is
silent, and the leases must balance alone.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import structlog

from eventconsumer_api.wire.fleet import FLEET_SILENCE_SECONDS
from eventconsumer_host.identity.records import MOVED_SECONDS
from eventconsumer_host.lease.planned_balancer import KEEP_SECONDS
from tests.simulation.checker import Violation
from tests.simulation.consumer import HOSTS, LEASE_SECONDS, Consumer
from tests.simulation.host import SimHost, Surroundings
from tests.simulation.loop import SimLoop
from tests.simulation.network import ANSWER_SECONDS, UPSETS, Network, Upset
from tests.simulation.person import go_on
from tests.simulation.stream import MOST_PARTITIONS, Spark, Stream
from tests.simulation.tampering import Tampering
from tests.support.fakes.blobs import FakeBlobStore, Version

HANDOVER_SECONDS = 45  # for which a partition that another program gave back is kept for it
SCAN_SECONDS = LEASE_SECONDS / 6 * 1.2
SPARK = {Spark.ALWAYS: 7, Spark.NEVER: 2, Spark.SOMETIMES: 1}  # weights
NOTICED = 0.4  # of the hubs: hosts send notices about their files
TRANSFORMING = 0.4  # of the hubs: a handler changes and drops their events
RETAINING = 0.3  # of the hubs: the leading host removes their old files
HIERARCHICAL = 0.25  # of the worlds: their account behaves as one with a hierarchical namespace may
STOP_SECONDS = ANSWER_SECONDS["storage"] + 10  # a host may wait for an answer that it will not get
KINDS = {"alone": 0.55, "beside": 0.2, "colliding": 0.1, "one chain": 0.15}


class SimulatedWorld:
    """See the module. Everything in it follows from `seed`, the kind and from what is played."""

    def __init__(self, seed: str, kind: str = "", only: frozenset[str] = frozenset()) -> None:
        """Begin without hosts.

        Args:
            seed: What everything follows from.
            kind: See the module; empty: the seed decides.
            only: Invariants that are judged; empty: all.
        """
        self.rng = Random(f"world {seed}")
        self.kind = kind or Random(f"kind {seed}").choices([*KINDS], [*KINDS.values()])[0]
        self.loop = SimLoop()
        self.loop.set_exception_handler(self._unexpected)
        hierarchical = not kind and Random(f"namespace {seed}").random() < HIERARCHICAL
        self.trace: list[str] = [f"{'':9}  kind: {self.kind}{', hierarchical namespace' if hierarchical else ''}"]
        self.leases = FakeBlobStore(lambda: self.loop.now, hierarchical=hierarchical)
        self.sink = FakeBlobStore(lambda: self.loop.now, hierarchical=hierarchical)
        self.leases.watch = self._lease_changed
        self.sink.watch = self._file_changed
        self.network = Network(self.loop, self.rng, self.note)
        self._unforeseen: list[str] = []
        self._around = Surroundings(self.loop, self.network, self.leases, self.sink, self._unforeseen.append)
        self._places: dict[str, Stream] = {}  # folder of leases -> whose it is
        self._build(seed)
        for stream in self.streams:
            stream.checker.only = only
        self._before = structlog.get_config()
        every = structlog.make_filtering_bound_logger(0)  # commands that ran in this process have silenced logs
        structlog.configure(processors=[self._log], wrapper_class=every, cache_logger_on_first_use=False)

    def _build(self, seed: str) -> None:
        layout = self.rng.choice(["EventProcessorHost", "AzureSdk"])
        if self.kind == "colliding":
            layout = "EventProcessorHost"  # names in the other one have the hub in them
        prefix = "" if self.kind == "colliding" else None
        shared = layout == "AzureSdk" and self.rng.random() < 0.5
        position = self.rng.choice(["Earliest", "Latest"])
        self.streams: list[Stream] = []
        for name, folder in (("orders", "p"), ("billing", "q"))[: 1 + (self.kind in {"beside", "colliding"})]:
            stream = Stream(
                name,
                folder,
                self.rng.randint(1, 5),
                self.leases,
                self.sink,
                layout=layout,
                clock=lambda: self.loop.now,
            )
            stream.hub.tells_time = Random(f"time {seed}").random() < 0.3
            place = f"shop.example/{name}/$default" if layout == "AzureSdk" else f"shop.example/{name}/$Default"
            stream.place_leases("$Default" if prefix == "" else place, shared=shared)
            stream.start_at(position)
            stream.table = self.rng.random() < 0.7
            stream.notices = Random(f"notices {seed} {name}").random() < NOTICED
            stream.transforms = stream.checker.transforms = Random(f"handler {seed} {name}").random() < TRANSFORMING
            stream.spark = Random(f"spark {seed} {name}").choices([*SPARK], [*SPARK.values()])[0]
            stream.retention = Random(f"kept {seed} {name}").random() < RETAINING
            if stream.spark is Spark.SOMETIMES:
                stream.retention = False  # the first batch would not have the files that were removed before
            stream.checker.batched = stream.spark is Spark.ALWAYS
            stream.checker.lease_seconds = LEASE_SECONDS
            self.streams.append(stream)
        self.consumers = [Consumer("shop", stream, prefix, self._around, self.rng) for stream in self.streams]
        if self.kind == "one chain":
            self.consumers.append(Consumer("till", self.streams[0], prefix, self._around, self.rng))

    # --- running ---

    def close(self) -> None:
        """Take everything down without effect."""
        for consumer in self.consumers:
            for host in consumer.everyone():
                host.crash()
        self.loop.run_for(60)
        self.loop.close()
        structlog.configure(**self._before)

    def run(self, seconds: float) -> None:
        """Let time pass, and raise what was violated meanwhile."""
        self.loop.run_for(seconds)
        self.check()

    def violations(self) -> list[str]:
        """All that were found."""
        return self._unforeseen + [each for stream in self.streams for each in stream.checker.violations]

    def checks(self) -> Counter[str]:
        """How often each invariant was judged."""
        return sum((stream.checker.checks for stream in self.streams), Counter())

    def rows(self) -> int:
        """Events in files."""
        return sum(chain.rows for stream in self.streams for chain in stream.checker.chains.values())

    def check(self) -> None:
        """Raise the first violation."""
        if found := self.violations():
            raise Violation(found[0])

    def note(self, text: str) -> None:
        """Into the trace."""
        self.trace.append(f"{self.loop.now - 1000:9.3f}  {text}")

    def alive(self) -> list[SimHost]:
        """Hosts that run."""
        return [host for consumer in self.consumers for host in consumer.alive()]

    # --- what happens: numbers run over all consumers ---

    def consumer(self, number: int) -> Consumer:
        """A consumer by a number."""
        return self.consumers[number % len(self.consumers)]

    def host(self, number: int, act: Callable[[SimHost], None]) -> None:
        """Do something to a running host."""
        self.consumer(number // HOSTS).with_host(number % HOSTS, act)

    def start(self, number: int, same: int = 0) -> None:
        """Start a host."""
        self.consumer(number // HOSTS).start(number % HOSTS, same)

    def crash(self, number: int, silent: int) -> None:
        """Kill a host."""
        self.consumer(number // HOSTS).crash(number % HOSTS, silent)

    def tell_wrongly(self, index: int, *what: int) -> None:
        """Tell one host or all something that is not true."""
        self.consumer(index // (HOSTS + 1)).tell_wrongly(index % (HOSTS + 1), *what)

    def tell_late(self, number: int, seconds: float) -> None:
        """Tell a host something late."""
        self.consumer(number // HOSTS).tell_late(number % HOSTS, seconds)

    def at(self, number: int, act: Callable[..., None], *what: int) -> None:
        """Do something to a partition: `act` is a method of `Stream`."""
        act(self.consumer(number // MOST_PARTITIONS).stream, number % MOST_PARTITIONS, *what)

    def upset(self, kind: int, operation: str, subject: str = "") -> None:
        """Something happens to the next such request."""
        self.network.upsets.append(Upset(UPSETS[kind % len(UPSETS)], "", operation, subject))
        del self.network.upsets[:-6]

    def tamper(self, number: int, act: Callable[[Tampering, str], object]) -> None:
        """Do something to a lease from outside."""
        stream = self.consumer(number // MOST_PARTITIONS).stream
        if self._places.get(stream.folder, stream) is stream:
            stream.tamper(number % MOST_PARTITIONS, act)

    def delete_leases(self) -> None:
        """The lease container is deleted; not where two consumers claim one place, which is anybody's then."""
        if self.kind == "colliding":
            return
        for stream in self.streams:
            stream.checker.tampering = True
        self.leases.delete_container()
        for stream in self.streams:
            stream.checker.tampering = False

    # --- the end ---

    def heal(self) -> None:
        """End every disturbance; hosts of a resource that was deleted end."""
        self.note("--- heal ---")
        for host in self.alive():
            host.node.cut.clear()
            host.machine.set_rate(1.0)
            if host.machine.paused:
                host.machine.resume()
        self.network.upsets.clear()
        while self.network.held:
            self.network.release()
        for stream in self.streams:
            if self._places.get(stream.folder, stream) is stream:
                stream.repair()
        for consumer in self.consumers:
            consumer.lose_late_messages()
            for host in consumer.alive():
                if host not in consumer.own():
                    host.stop()
        if any(all(host.stopping for host in consumer.alive()) for consumer in self.consumers):
            self.run(STOP_SECONDS)
            for consumer in self.consumers:
                if all(host.stopping for host in consumer.alive()):
                    consumer.start(0)

    def accept(self, stream: Stream) -> None:
        """A person stops all hosts of a stream, and continues with the events that the hub has now."""
        theirs = [consumer for consumer in self.consumers if consumer.stream is stream]
        for consumer in theirs:
            for host in consumer.alive():
                host.stop()
        self.run(LEASE_SECONDS + 5)
        self.note("--- a person looks ---")
        config = theirs[0].config()
        task = self.loop.create_task(
            go_on(config, stream.hub, self.leases, self.sink, lambda: self.loop.now, stream.history)
        )
        while not task.done():
            self.run(0.1)
        self.note(f"--- {task.result()} ---")

    def settle(self) -> None:
        """Heal, and wait for what must come."""
        self.heal()
        drained = self._entitled()
        for consumer in self.consumers:
            self._await(
                "L1",
                lambda consumer=consumer: not any(h.stopping for h in consumer.alive()),
                60,
                "a stopped host goes on",
            )
        for consumer in drained:
            self._tell_or_be_silent(consumer)
        for consumer in drained:
            for number in range(len(consumer.stream.hub.partitions)):
                consumer.stream.produce(number, 1)
        for consumer in drained:
            self._settle_parted(consumer)
            self._settle(consumer)

    def _entitled(self) -> list[Consumer]:
        """The consumers that drain; the others must say why they do not."""
        if self.kind == "colliding":
            return self._one_place()
        if self.kind == "one chain":
            return self._one_chain()
        return self.consumers

    def _one_place(self) -> list[Consumer]:
        """Two hubs, one place for leases: the first that came has it, and the other never touched it."""

        def has(each: Consumer) -> bool:
            return self._places.get(each.stream.folder) is each.stream

        def refused() -> bool:
            return all(has(each) or each.refused("CheckpointStoreInUse") for each in self.consumers)

        self._await("I1", refused, 60, "a consumer does not say that the leases are another's")
        for each in self.consumers:
            each.stream.checker.expect("I1", has(each) or not each.stream.checker.chains, f"{each.path} has files")
        return [each for each in self.consumers if has(each)]

    def _one_chain(self) -> list[Consumer]:
        """Two resources, one chain: the one that has it keeps it while it lives, then the other one gets it."""
        stream = self.streams[0]

        def drains(has: Consumer, other: Consumer) -> bool:
            return has.uid == stream.checker.holder and has.owned() and other.refused("ChainInUse")

        one, two = self.consumers
        if self.rng.random() < 0.5:
            if one.uid != stream.checker.holder:
                one, two = two, one
            self.note(f"--- {one.path} ends ---")
            for host in one.alive():
                host.stop()
            self._await("I3", lambda: not one.alive(), 60, f"{one.path} does not end")
            return [two]
        seconds = MOVED_SECONDS + 120
        self._await("I3", lambda: drains(one, two) or drains(two, one), seconds, "not one resource alone drains")
        return [one] if drains(one, two) else [two]

    def _settle(self, consumer: Consumer) -> None:
        stream = consumer.stream
        shared = HANDOVER_SECONDS if stream.layout == "AzureSdk" else 0
        self._await("L1", consumer.owned, LEASE_SECONDS + 2 * SCAN_SECONDS + 45 + shared, "a partition has no owner")
        self._await("L3", stream.drained, 150, "there is lag")
        if stream.table:
            self._await("T2", stream.checker.registered, 120, "a file is not in the table")
        if stream.notices:
            self._await("N1", stream.checker.notices.complete, 240, "a file has no notice")
        kept = 3 * KEEP_SECONDS if consumer.wanted else 0  # a partition that its host did not take before
        for pause in (SCAN_SECONDS + 5, 0.02):  # a decision that was made before may still be on its way
            seconds = 10 * SCAN_SECONDS * len(stream.hub.partitions) + shared + kept
            self._await("L2", consumer.balanced, seconds, "not balanced")
            self.run(pause)
        before = consumer.assignment()
        self.run(5 * SCAN_SECONDS)
        moved = f"moved while balanced: {before} -> {consumer.assignment()}"
        stream.checker.expect("L2", consumer.assignment() == before, moved)
        stream.checker.account()
        self.check()

    def _settle_parted(self, consumer: Consumer) -> None:
        """Partitions that lost events which are in files stand still and say so, until a person accepts that.

        A file of events that a host read before the break may still be committed after it; the checker sees to it
        that no file holds events from both sides.
        """
        stream = consumer.stream

        def told() -> set[str]:
            problems = [problem for host in consumer.alive() for problem in host.problems()]
            return {
                problem.message.partition("partition ")[2].partition(":")[0]
                for problem in problems
                if problem.reason == "HubDiverged"
            }

        seconds = LEASE_SECONDS + 2 * SCAN_SECONDS + 60 + (HANDOVER_SECONDS if stream.layout == "AzureSdk" else 0)

        def known() -> bool:
            ends = {name: seen.last + 1 for name, seen in stream.hub.partitions.items()}
            done = {name for name, chain in stream.newest().items() if chain.next == ends[name]} - stream.parted()
            return done | told() >= set(ends)

        self._await("F2", known, seconds, "a partition does not go on, and does not say that the hub diverged")
        if told():
            self.accept(stream)
            for number in range(len(stream.hub.partitions)):
                stream.produce(number, 1)
            consumer.start(0)
            self._tell_or_be_silent(consumer)
        self.check()

    def _tell_or_be_silent(self, consumer: Consumer) -> None:
        """As StatefulSet and operator would have it, or without an operator."""
        if self.rng.random() < 0.5:
            wanted = 1 + max(number for number, host in enumerate(consumer.hosts) if host and host.running)
            for number in range(wanted):
                consumer.start(number)
            consumer.operator(wanted)
        else:
            consumer.operator(0)
            if any(host.news.current() for host in consumer.alive()):
                self.run(FLEET_SILENCE_SECONDS)

    def _await(self, name: str, met: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = self.loop.now + seconds
        while not met() and self.loop.now < deadline:
            self.run(0.5)
        reads = {owner: owns for consumer in self.consumers for owner, owns in consumer.assignment().items()}
        self.streams[0].checker.expect(name, met(), f"{otherwise} after {seconds:.0f} s: {reads}")
        self.check()

    # --- plumbing ---

    def _file_changed(self, version: Version) -> None:
        self._note_change(version)
        folder = version.name.partition("/")[0]
        for stream in self.streams:
            if stream.prefix == folder:
                self._check_author(stream, version)
                stream.checker.sink_changed(version, self.network.author)

    def _lease_changed(self, version: Version) -> None:
        self._note_change(version)
        author = self._author()
        for stream in self.streams:
            record = f"{stream.folder}~"  # its consumer group is in lower case
            if version.name.startswith(f"{stream.folder}/") or version.name.lower().startswith(record.lower()):
                owner = self._places.setdefault(stream.folder, author.stream if author else stream)
                self._check_author(owner, version)
                owner.checker.lease_changed(version, self.network.author)
                return
        self.streams[0].checker.expect("I1", False, f"{version.name} is in no consumer's folder of leases")  # noqa: FBT003

    def _author(self) -> Consumer | None:
        """Whose host makes the change; None: the world itself."""
        names = ((consumer, host) for consumer in self.consumers for host in consumer.everyone())
        return next((consumer for consumer, host in names if host.owner == self.network.author), None)

    def _check_author(self, stream: Stream, version: Version) -> None:
        author = self._author()
        right = author is None or author.stream is stream
        stream.checker.expect("I1", right, f"{self.network.author} wrote {version.name}, which is of {stream.name}")

    def _note_change(self, version: Version) -> None:
        facts = {key: version.metadata[key] for key in ("last", "epoch", "gap", "dropped") if key in version.metadata}
        self.note(f"{version.name} {'deleted' if version.data is None else 'written'} by {self.network.author} {facts}")

    def _log(self, _: object, level: str, event: dict[str, Any]) -> Any:
        text = " ".join(f"{key}={value}" for key, value in event.items() if key not in {"event", "exc_info"})
        self.note(f"{level:7} {event['event']}  {text}")
        raise structlog.DropEvent

    def _unexpected(self, _: object, context: dict[str, Any]) -> None:
        self._unforeseen.append(f"unexpected: {context}")
