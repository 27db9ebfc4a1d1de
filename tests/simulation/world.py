"""The world of one run: a container for leases, one for files, a hub, up to four hosts, and what happens to them.

Methods are what the rules play. `heal` ends every disturbance, and `settle` then asks for what must come: owners for
all partitions (L1), a balanced fleet that stays (L2), no lag and a complete account of every event (L3, S4). Where an
operator runs, it tells hosts what their fleet is, and whoever has its key may tell them anything. In the end either it
tells the truth, and the fleet must come to its plan, or it is silent, and the leases must balance alone.
"""

import contextlib
import json
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import structlog

from eventconsumer_api.fleet import FLEET_SILENCE_SECONDS, FleetMessage
from eventconsumer_api.host_config import HostConfig
from eventconsumer_processor.fleetnews import Refused
from eventconsumer_processor.lease.fleetplan import assignment
from eventconsumer_processor.lease.planned import KEEP_SECONDS, pod_of
from eventconsumer_processor.sink.slots import Chain
from tests.fakes.blobs import EPOCH, FakeBlobStore, Version
from tests.fakes.hub import FakeHub, FakeSource
from tests.simulation.checker import SLOT, Checker, Violation
from tests.simulation.host import SimHost, Surroundings
from tests.simulation.loop import SimLoop
from tests.simulation.network import UPSETS, Network, Upset
from tests.simulation.tampering import LeaseBlobs, OwnershipBlobs, Tampering, now

HOSTS = 4
LEASE_SECONDS = 15
HANDOVER_SECONDS = 45  # for which a partition that another program gave back is kept for it
SCAN_SECONDS = LEASE_SECONDS / 6 * 1.2
OPERATOR_SECONDS = 3.0  # between what the operator tells

CREDENTIAL = {"field": "f", "connectionStringFile": "x"}


def config(rng: Random, layout: str, *, shared: bool, **changes: Any) -> HostConfig:
    """A host's configuration; hosts differ in when they make files, as during a change of the resource."""
    values: dict[str, Any] = {
        "resource": {"namespace": "shop", "name": "orders", "uid": "u"},
        "eventHub": {"name": "orders", "consumerGroup": "$Default", "credential": CREDENTIAL},
        "leases": {
            "location": {"container": "leases", "prefix": "", "credential": CREDENTIAL},
            "durationSeconds": LEASE_SECONDS,
            "layout": layout,
            "shared": shared,
        },
        "startingPosition": {"type": rng.choice(["Earliest", "Latest"])},
        "processing": {"maxBatchSize": rng.randint(2, 6), "prefetch": 12, "maxWaitSeconds": 20},
        "sink": {"container": "drained", "prefix": "p", "credential": CREDENTIAL},
        "roll": {"maxBytes": 1_000_000, "maxSeconds": rng.randint(1, 5), "maxEvents": rng.randint(3, 9)},
        "batches": {
            "trigger": {"files": 4, "ageSeconds": 30},
            "limits": {"maxFiles": rng.choice([3, 1000])},
        },
        "drainSeconds": 10,
    }
    return HostConfig.model_validate(values | changes)


class World:
    """See the module. Everything in it follows from `seed` and from what is played."""

    def __init__(self, seed: str) -> None:
        self.rng = Random(f"world {seed}")
        self.loop = SimLoop()
        self.loop.set_exception_handler(self._unexpected)
        self.trace: list[str] = []
        self.era = 0
        self.hub = FakeHub(self.rng.randint(1, 5))
        self.leases = FakeBlobStore(lambda: self.loop.now)
        self.sink = FakeBlobStore(lambda: self.loop.now)
        self.layout = self.rng.choice(["EventProcessorHost", "AzureSdk"])
        self.shared = self.layout == "AzureSdk" and self.rng.random() < 0.5
        self.tampering: Tampering = LeaseBlobs(self.leases)
        if self.layout == "AzureSdk":
            self.tampering = OwnershipBlobs(self.leases, shared=self.shared)
        self.checker = Checker(
            era=lambda: f"e{self.era}", retained=self._retained_from, head=lambda p: self.hub.partitions[p].last
        )
        self.checker.lease_seconds = LEASE_SECONDS
        self.checker.shared = self.shared
        self.network = Network(self.loop, self.rng, self.checker, self.note)
        self.leases.watch = lambda version: self._changed(self.checker.lease_changed, version)
        self.sink.watch = lambda version: self._changed(self.checker.sink_changed, version)
        self.hosts: list[SimHost | None] = [None] * HOSTS
        self.gone: list[SimHost] = []
        self.wanted = 0  # hosts, as the operator says; 0: it is silent
        self._generation = 0
        self._starts = 0
        self._removed: dict[str, int] = {}  # partition -> retention removed what is below
        self.rivals: list[FakeSource] = []
        self._skipped: set[tuple[str, int]] = set()
        self._position = self.rng.choice(["Earliest", "Latest"])
        self._around = Surroundings(
            self.loop, self.network, self.leases, self.sink, self.hub, self.checker.violations.append
        )
        self._before = structlog.get_config()
        structlog.configure(processors=[self._log], cache_logger_on_first_use=False)

    # --- running ---

    def close(self) -> None:
        """Take everything down without effect."""
        for host in self.everyone():
            host.crash()
        self.loop.run_for(60)
        self.loop.close()
        structlog.configure(**self._before)

    def run(self, seconds: float) -> None:
        """Let time pass, and raise what was violated meanwhile."""
        self.loop.run_for(seconds)
        self.check()

    def check(self) -> None:
        """Raise the first violation."""
        if self.checker.violations:
            raise Violation(self.checker.violations[0])

    def note(self, text: str) -> None:
        """Into the trace."""
        self.trace.append(f"{self.loop.now - 1000:9.3f}  {text}")

    def everyone(self) -> list[SimHost]:
        """All hosts that run or ran."""
        return [*self.gone, *(host for host in self.hosts if host)]

    def alive(self) -> list[SimHost]:
        """Hosts that run."""
        return [host for host in self.hosts if host and host.running]

    # --- what happens ---

    def start(self, index: int, same: int = 0) -> None:
        """Start a host in a free place; as a new pod, or the same pod again."""
        former = self.hosts[index]
        if former and former.running:
            return
        self._starts += 1
        owner = former.owner if former and same else f"host-{index}.{self._starts}"
        if former:
            self.gone.append(former)
        options = config(self.rng, self.layout, shared=self.shared, startingPosition={"type": self._position})
        self.hosts[index] = SimHost(owner, options, self._around, self.rng.getrandbits(32))

    def with_host(self, index: int, act: Callable[[SimHost], None]) -> None:
        """Do something to a running host."""
        host = self.hosts[index]
        if host and host.running:
            act(host)

    def crash(self, index: int, silent: int) -> None:
        """Kill a host; its links stay open at the hub where the whole machine is gone."""

        def act(host: SimHost) -> None:
            owned = host.owns()
            host.crash()
            for partition in () if silent else owned:
                reader = self.hub.partitions[partition].reader
                if reader:
                    reader.closed = True

        self.with_host(index, act)

    def pause(self, index: int) -> None:
        """SIGSTOP."""
        self.with_host(index, lambda host: setattr(host.machine, "paused", True))

    def resume(self, index: int) -> None:
        """SIGCONT."""
        self.with_host(index, lambda host: host.machine.resume())

    def upset(self, kind: int, operation: str, subject: str = "") -> None:
        """Something happens to the next such request."""
        self.network.upsets.append(Upset(UPSETS[kind % len(UPSETS)], "", operation, subject))
        del self.network.upsets[:-6]

    def partition(self, number: int) -> str:
        """A partition's id."""
        return str(number % len(self.hub.partitions))

    def produce(self, number: int, count: int) -> None:
        """New events."""
        partition = self.hub.partitions[self.partition(number)]
        for _ in range(count):
            partition.add(f"e{self.era}/{self.partition(number)}/{partition.last + 1}".encode())

    def retain(self, number: int, kept: int) -> None:
        """Retention removes all but the newest events."""
        partition = self.hub.partitions[self.partition(number)]
        partition.retain_from(max(partition.last + 1 - kept, 0))
        removed = min(partition.events, default=partition.last + 1)
        self._removed[self.partition(number)] = max(removed, self._removed.get(self.partition(number), 0))

    def link(self, number: int) -> Any:
        """The link that is attached to a partition."""
        return self.hub.partitions[self.partition(number)].reader

    def redeliver(self, number: int, back: int) -> None:
        """A link gives old events again."""
        if reader := self.link(number):
            reader.position -= back

    def skip(self, number: int, count: int) -> None:
        """A link leaves events out, once."""
        reader = self.link(number)
        if reader and (self.partition(number), reader.position) not in self._skipped:
            self._skipped |= {(self.partition(number), reader.position + step) for step in range(-20, 21)}
            reader.position += count

    def drop(self, number: int) -> None:
        """A link is lost."""
        if reader := self.link(number):
            reader.broken = True

    def freeze(self, number: int) -> None:
        """A link gives nothing any more."""
        if reader := self.link(number):
            reader.frozen = True

    def recreate(self) -> None:
        """The hub is deleted and created again."""
        if self.era:
            return
        self.era += 1
        self.hub.recreate()

    def rival(self, number: int, above: int) -> None:
        """Another program attaches to a partition, under the epoch of the reader there or a higher one."""
        partition = self.partition(number)
        found = self.hub.partitions[partition]
        epoch = found.reader.epoch if found.reader else 0
        self.rivals.append(now(self.hub.open(partition, found.last, epoch + above, 1)))

    def rivals_leave(self) -> None:
        """The other programs end."""
        for rival in self.rivals:
            rival.closed = True
        self.rivals.clear()

    def add_partition(self) -> None:
        """The hub gets one more partition."""
        if len(self.hub.partitions) < 6:
            self.hub.add_partition()

    # --- what hosts are told ---

    def operator(self, hosts: int) -> None:
        """The operator says from now on that so many hosts are wanted, and what else is true; 0: it is silent."""
        if not self.wanted and hosts:
            self.loop.call_later(OPERATOR_SECONDS, self._tell_again)
        self.wanted = hosts
        self._tell_truth()

    def _tell_again(self) -> None:
        if self.wanted:
            self._tell_truth()
            self.loop.call_later(OPERATOR_SECONDS, self._tell_again)

    def _tell_truth(self) -> None:
        if not self.wanted:
            return
        running = {host.owner: host for host in self.alive()}
        ready = {
            pod_of(owner)
            for owner, host in running.items()
            if host.manager and not (host.stopping or host.machine.paused or host.node.cut)
        }
        known = [len(host.manager.partition_ids) for host in running.values() if host.manager]
        staying = {pod for pod in ready if int(pod.rpartition("-")[2]) < self.wanted}
        gone = {host.owner for host in self.everyone()} - running.keys()
        self.tell(self.alive(), self.wanted, staying, gone, max(known, default=None))

    def tell(
        self, hosts: list[SimHost], wanted: int, ready: set[str], gone: set[str], partitions: int | None = None
    ) -> None:
        """Tell hosts something, true or not."""
        self._deliver(hosts, self._message(wanted, ready, gone, partitions))

    def _message(self, wanted: int, ready: set[str], gone: set[str], partitions: int | None = None) -> FleetMessage:
        self._generation += 1
        return FleetMessage(
            resource_uid="u",
            generation=self._generation,
            time=EPOCH + timedelta(seconds=self.loop.now),
            hosts=wanted,
            partitions=partitions,
            ready=tuple(sorted(ready)),
            gone=tuple(sorted(gone)),
        )

    def _deliver(self, hosts: list[SimHost], message: FleetMessage) -> None:
        """Hosts that cannot listen hear nothing."""
        for host in hosts:
            if host.running and not host.machine.paused:
                with contextlib.suppress(Refused):
                    host.news.believe(message)

    def tell_wrongly(self, index: int, wanted: int, ready: int, gone: int) -> None:
        """Another operator, or a mistaken one: hosts that live are gone, hosts that do not exist are ready."""
        owners = {number: host.owner for number, host in enumerate(self.hosts) if host}
        self.tell(
            [host for number, host in enumerate(self.hosts) if host and index in {number, HOSTS}],
            wanted,
            {f"host-{number}" for number in range(HOSTS) if ready >> number & 1},
            {owner for number, owner in owners.items() if gone >> number & 1},
        )

    def tell_late(self, index: int, seconds: float) -> None:
        """One host hears what was true, much later."""
        host = self.hosts[index]
        if host:
            running = {each.owner for each in self.alive()}
            ready, gone = set(map(pod_of, running)), {each.owner for each in self.everyone()} - running
            self.loop.call_later(seconds, self._deliver, [host], self._message(len(running), ready, gone))

    # --- what others do to leases ---

    def tamper(self, number: int, act: Callable[[Tampering, str], object]) -> None:
        """Do something to a lease from outside."""
        partition = self.partition(number)
        if self.tampering.exists(partition):
            self.checker.tampering = True
            try:
                act(self.tampering, partition)
            finally:
                self.checker.tampering = False

    def break_session(self, index: int) -> None:
        """An administrator breaks the lease of a host's session."""
        for name, blob in self.leases.blobs.items():
            if name.endswith(f"sessions/host-{index}") and blob.lease:
                self.leases.break_lease(name, 0)

    def delete_leases(self) -> None:
        """The lease container is deleted."""
        self.checker.tampering = True
        self.leases.delete_container()
        self.checker.tampering = False

    # --- what others do to files ---

    def clean_up(self, count: int) -> None:
        """Files that Spark has read become tombstones."""
        done = sum("/_commits/" in name for name in self.sink.blobs)
        old = sorted(file["path"] for batch in self.checker.batches[:done] for file in batch["files"])
        for name in old[:count]:
            incarnation, partition, start = SLOT.fullmatch(name).groups()  # type: ignore[union-attr]
            chain = Chain(self.sink, "p", incarnation, partition)  # type: ignore[arg-type]
            if slot := now(chain.at(int(start))):
                now(chain.tombstone(slot))

    def commit_batch(self) -> None:
        """Spark finishes the open batch."""
        done = sum("/_commits/" in name for name in self.sink.blobs)
        if done < len(self.checker.batches):
            batch = self.checker.batches[done]
            record = {
                "number": done + 1,
                "committedAt": EPOCH.isoformat(),
                "application": "app",
                "attempt": "a",
                "output": "out",
                "files": len(batch["files"]),
                "rowsRead": sum(file["count"] for file in batch["files"]),
                "rowsWritten": 1,
                "seconds": 1.0,
            }
            now(self.sink.put(f"p/_commits/{done + 1:010d}.json", json.dumps(record).encode(), if_absent=True))

    # --- the end ---

    def heal(self) -> None:
        """End every disturbance."""
        self.note("--- heal ---")
        for host in self.alive():
            host.node.cut.clear()
            host.machine.set_rate(1.0)
            if host.machine.paused:
                host.machine.resume()
        self.network.upsets.clear()
        self.rivals_leave()
        while self.network.held:
            self.network.release()
        for number in range(len(self.hub.partitions)):
            self._repair(self.partition(number))
        if all(host.stopping for host in self.alive()):
            self.run(15)
            self.start(0)

    def _repair(self, partition: str) -> None:
        chains = {name: chain for (_, name), chain in self.checker.chains.items()}
        end = chains[partition].next - 1 if partition in chains else 1 << 62
        self.checker.tampering = True
        self.tampering.repair(partition, end, self.hub.partitions[partition].last)
        self.checker.tampering = False

    def settle(self) -> None:
        """Heal, and wait for what must come."""
        self.heal()
        if self.era:
            self._settle_recreated()
            return
        self._await("L1", lambda: not any(host.stopping for host in self.alive()), 60, "a stopped host goes on")
        self._tell_or_be_silent()
        for number in range(len(self.hub.partitions)):
            self.produce(number, 1)
        shared = HANDOVER_SECONDS if self.layout == "AzureSdk" else 0
        self._await("L1", self._owned, LEASE_SECONDS + 2 * SCAN_SECONDS + 45 + shared, "a partition has no owner")
        self._await("L3", self._drained, 150, "there is lag")
        kept = 3 * KEEP_SECONDS if self.wanted else 0  # a partition that its host did not take before
        for pause in (SCAN_SECONDS + 5, 0.02):  # a decision that was made before may still be on its way
            seconds = 10 * SCAN_SECONDS * len(self.hub.partitions) + shared + kept
            self._await("L2", self._balanced, seconds, "not balanced")
            self.run(pause)
        before = self._assignment()
        self.run(5 * SCAN_SECONDS)
        self.checker.expect(
            "L2", self._assignment() == before, f"moved while balanced: {before} -> {self._assignment()}"
        )
        self.check()
        self._check_account()

    def _check_account(self) -> None:
        for (_, partition), chain in self.checker.chains.items():
            head = self.hub.partitions[partition].last
            self.checker.expect("S4", chain.next == head + 1, f"partition {partition}: files end at {chain.next - 1}")
            whole = chain.rows + chain.gaps == head + 1 - chain.start
            self.checker.expect("S4", whole, f"partition {partition}: {chain.rows} rows and {chain.gaps} in gaps")
        self.check()

    def _settle_recreated(self) -> None:
        self.run(60)
        before = {key: chain.next for key, chain in self.checker.chains.items()}
        for number in range(len(self.hub.partitions)):
            self.produce(number, 60)
        self.run(60)
        after = {key: chain.next for key, chain in self.checker.chains.items()}
        self.checker.expect("F2", before == after, f"the chains go on: {before} -> {after}")
        for host in self.alive():
            told = any(problem.reason == "HubChanged" for problem in host.problems())
            owns = bool(host.owns()) or bool(host.blocked)
            self.checker.expect("F2", told or not owns, f"{host.owner} does not say that the hub was created again")
        self.check()

    def _tell_or_be_silent(self) -> None:
        """As StatefulSet and operator would have it, or without an operator."""
        if self.rng.random() < 0.5:
            wanted = 1 + max(number for number, host in enumerate(self.hosts) if host and host.running)
            for number in range(wanted):
                self.start(number)
            self.operator(wanted)
        else:
            self.operator(0)
            if any(host.news.current() for host in self.alive()):
                self.run(FLEET_SILENCE_SECONDS)

    def _await(self, name: str, met: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = self.loop.now + seconds
        while not met() and self.loop.now < deadline:
            self.run(0.5)
        self.checker.expect(name, met(), f"{otherwise} after {seconds:.0f} s: {self._assignment()}")
        self.check()

    def _assignment(self) -> dict[str, list[str]]:
        return {host.owner: sorted(host.owns()) for host in self.alive()}

    def _owned(self) -> bool:
        owned = sorted(partition for each in self._assignment().values() for partition in each)
        return owned == sorted(self.hub.partitions)

    def _balanced(self) -> bool:
        if self.wanted and not self.shared:
            plan = assignment(self.hub.partitions, self.wanted)
            return self._owned() and all(
                plan[partition] == int(pod_of(owner).rpartition("-")[2])
                for owner, owned in self._assignment().items()
                for partition in owned
            )
        counts = [len(owned) for owned in self._assignment().values()]
        return self._owned() and max(counts) - min(counts) <= 1

    def _drained(self) -> bool:
        chains = {partition: chain for (_, partition), chain in self.checker.chains.items()}
        return all(
            partition in chains and chains[partition].next == seen.last + 1
            for partition, seen in self.hub.partitions.items()
        )

    # --- plumbing ---

    def _retained_from(self, partition: str) -> int:
        return self._removed.get(partition, 0)

    def _changed(self, judge: Callable[[Version, str], None], version: Version) -> None:
        facts = {key: version.metadata[key] for key in ("last", "epoch", "gap") if key in version.metadata}
        self.note(f"{version.name} {'deleted' if version.data is None else 'written'} by {self.network.author} {facts}")
        judge(version, self.network.author)

    def _log(self, _: object, level: str, event: dict[str, Any]) -> Any:
        text = " ".join(f"{key}={value}" for key, value in event.items() if key not in {"event", "exc_info"})
        self.note(f"{level:7} {event['event']}  {text}")
        raise structlog.DropEvent

    def _unexpected(self, _: object, context: dict[str, Any]) -> None:
        self.checker.violations.append(f"unexpected: {context}")
