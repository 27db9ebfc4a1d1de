"""One EventConsumer: up to four hosts, and what an operator tells them.

A resource that is deleted and applied again has another uid, and may have another namespace. Its hosts stop or die, or
run on where nobody can reach them.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from eventconsumer_api.wire.fleet import FleetMessage
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import owner_id, pod_of
from eventconsumer_host.lease.assignment import assignment
from eventconsumer_host.partition.operator_messages import MessageRefused
from tests.simulation.checker import IN_FLIGHT
from tests.simulation.host import SimHost, Surroundings
from tests.simulation.loop import SimLoop
from tests.simulation.stream import Spark, Stream
from tests.support.fakes.blobs import EPOCH

HOSTS = 4
LEASE_SECONDS = 15
KEPT_BYTES = 400  # of files that retention keeps: a few
OPERATOR_SECONDS = 3.0  # between what the operator tells

CREDENTIAL = {"field": "f", "connectionStringFile": "x"}


class Consumer:
    """See the module."""

    def __init__(self, namespace: str, stream: Stream, prefix: str | None, around: Surroundings, rng: Random) -> None:
        """Begin without hosts.

        Args:
            namespace: Of the resource, which has the hub's name.
            stream: What it drains.
            prefix: Of its leases, as the resource says; None: the default.
            around: The loop, the network and the containers.
            rng: For what differs from host to host.
        """
        self.namespace, self.name, self.uid = namespace, stream.name, f"{namespace}-0"
        self._first = namespace
        self.stream = stream
        self.hosts: list[SimHost | None] = [None] * HOSTS
        self.gone: list[SimHost] = []
        self.wanted = 0  # hosts, as the operator says; 0: it is silent
        self._prefix = prefix
        self._around = around
        self._loop: SimLoop = around.loop
        self._rng = rng
        self._generation = 0
        self._late: list[asyncio.TimerHandle] = []
        self._starts = 0
        self._lives = 0  # how often the resource was applied again

    @property
    def path(self) -> str:
        """The resource's name."""
        return f"{self.namespace}/{self.name}"

    def everyone(self) -> list[SimHost]:
        """All hosts that run or ran."""
        return [*self.gone, *(host for host in self.hosts if host)]

    def alive(self) -> list[SimHost]:
        """Hosts that run."""
        return [host for host in self.hosts if host and host.running]

    def own(self) -> list[SimHost]:
        """Hosts that run and are the resource's as it is now, not those of one that was deleted."""
        return [host for host in self.alive() if host.uid == self.uid]

    # --- what happens ---

    def start(self, index: int, same: int = 0) -> None:
        """Start a host in a free place; as a new pod, or the same pod again."""
        former = self.hosts[index]
        if former and former.running:
            return
        self.stream.begin()
        self._starts += 1
        owner = owner_id(self.path, f"{self.name}-host-{index}", str(self._starts))
        if former and same and former.uid == self.uid:
            owner = former.owner
        if former:
            self.gone.append(former)
        self.hosts[index] = SimHost(owner, self.config(), self._around, self.stream, self._rng.getrandbits(32))

    def config(self) -> HostConfig:
        """A host's configuration; hosts differ in when they make files, as during a change of the resource."""
        rng, stream = self._rng, self.stream
        handling = {"handler": "user:Editing", "handlerMode": "Transform"} if stream.transforms else {}
        freezes = stream.spark is Spark.ALWAYS or (stream.spark is Spark.SOMETIMES and self._starts % 3 > 0)
        values: dict[str, Any] = {
            "resource": {"namespace": self.namespace, "name": self.name, "uid": self.uid},
            "eventHub": {"name": stream.name, "consumerGroup": "$Default", "credential": CREDENTIAL},
            "leases": {
                "location": {"container": "leases", "prefix": self._prefix, "credential": CREDENTIAL},
                "durationSeconds": LEASE_SECONDS,
                "layout": stream.layout,
                "shared": stream.checker.shared,
            },
            "startingPosition": {"type": stream.position},
            "processing": {"maxBatchSize": rng.randint(2, 6), "prefetchCount": 12, "maxWaitSeconds": 20} | handling,
            "sink": {"container": "drained", "prefix": stream.prefix, "credential": CREDENTIAL},
            "roll": {"maxBytes": 1_000_000, "maxSeconds": rng.randint(1, 5), "maxEvents": rng.randint(3, 9)},
            "batches": {
                "trigger": {"files": 4, "ageSeconds": 30},
                "limits": {"maxFiles": rng.choice([3, 1000]), "inFlight": rng.choice([1, 1, IN_FLIGHT])},
            },
            "table": {"maxSeconds": rng.randint(1, 5)} if stream.table else None,
            "notices": {"url": "https://hooks.example/files"} if stream.notices else None,
            "retention": {"bytes": KEPT_BYTES} if stream.retention else None,
            "drainSeconds": 10,
        }
        if not freezes:
            values["batches"] = None
        return HostConfig.model_validate(values)

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
                reader = self.stream.hub.partitions[partition].reader
                if reader:
                    reader.closed = True

        self.with_host(index, act)

    def recreate(self, how: int, move: int) -> None:
        """Delete the resource and apply it again.

        Args:
            how: Its hosts stop (0), die (1), or run on, on nodes that do not answer (2).
            move: It comes again in another namespace (1).
        """
        self._lives += 1
        self.uid = f"{self._first}-{self._lives}"
        if move:
            self.namespace = f"{self._first}{self._lives}"
        for index, host in enumerate(self.hosts):
            if host and host.running and how == 0:
                host.stop()
            elif how == 1:
                self.crash(index, 0)

    # --- what hosts are told ---

    def operator(self, hosts: int) -> None:
        """The operator says from now on that so many hosts are wanted, and what else is true; 0: it is silent."""
        if not self.wanted and hosts:
            self._loop.call_later(OPERATOR_SECONDS, self._tell_again)
        self.wanted = hosts
        self._tell_truth()

    def _tell_again(self) -> None:
        if self.wanted:
            self._tell_truth()
            self._loop.call_later(OPERATOR_SECONDS, self._tell_again)

    def _tell_truth(self) -> None:
        if not self.wanted:
            return
        own = self.own()
        ready = {
            pod_of(host.owner)
            for host in own
            if host.manager and not (host.stopping or host.machine.paused or host.node.cut)
        }
        known = [len(host.manager.partition_ids) for host in own if host.manager]
        staying = {pod for pod in ready if int(pod.rpartition("-")[2]) < self.wanted}
        gone = {host.owner for host in self.everyone()} - {host.owner for host in self.alive()}
        self._deliver(self.alive(), self._message(self.wanted, staying, gone, max(known, default=None)))

    def _message(self, wanted: int, ready: set[str], gone: set[str], partitions: int | None = None) -> FleetMessage:
        self._generation += 1
        return FleetMessage(
            resource=self.path,
            generation=self._generation,
            time=EPOCH + timedelta(seconds=self._loop.now),
            hosts=wanted,
            partitions=partitions,
            ready=tuple(sorted(ready)),
            gone=tuple(sorted(gone)),
        )

    def _deliver(self, hosts: list[SimHost], message: FleetMessage) -> None:
        """Hosts that cannot listen hear nothing."""
        for host in hosts:
            if host.running and not host.machine.paused:
                with contextlib.suppress(MessageRefused):
                    host.news.accept(message)

    def tell_wrongly(self, index: int, wanted: int, ready: int, gone: int) -> None:
        """Another operator, or a mistaken one: hosts that live are gone, hosts that do not exist are ready."""
        owners = {number: host.owner for number, host in enumerate(self.hosts) if host}
        self._deliver(
            [host for number, host in enumerate(self.hosts) if host and index in {number, HOSTS}],
            self._message(
                wanted,
                {f"{self.name}-host-{number}" for number in range(HOSTS) if ready >> number & 1},
                {owner for number, owner in owners.items() if gone >> number & 1},
            ),
        )

    def tell_late(self, index: int, seconds: float) -> None:
        """One host hears what was true, much later."""
        host = self.hosts[index]
        if host:
            running = {each.owner for each in self.alive()}
            ready, gone = set(map(pod_of, running)), {each.owner for each in self.everyone()} - running
            message = self._message(len(running), ready, gone)
            self._late.append(self._loop.call_later(seconds, self._deliver, [host], message))

    def lose_late_messages(self) -> None:
        """Messages that are still on their way do not arrive."""
        for timer in self._late:
            timer.cancel()

    # --- how it is ---

    def assignment(self) -> dict[str, list[str]]:
        """Host -> partitions that it reads."""
        return {host.owner: sorted(host.owns()) for host in self.alive()}

    def owned(self) -> bool:
        """Whether each partition is read by one host."""
        owned = sorted(partition for each in self.assignment().values() for partition in each)
        return owned == sorted(self.stream.hub.partitions)

    def balanced(self) -> bool:
        """Whether the partitions are spread as they should be."""
        if self.wanted and not self.stream.checker.shared:
            plan = assignment(self.stream.hub.partitions, self.wanted)
            return self.owned() and all(
                plan[partition] == int(pod_of(owner).rpartition("-")[2])
                for owner, owned in self.assignment().items()
                for partition in owned
            )
        counts = [len(owned) for owned in self.assignment().values()]
        return self.owned() and max(counts) - min(counts) <= 1

    def refused(self, reason: str) -> bool:
        """Whether all hosts that run say that they must not drain, for this reason, and read nothing."""
        return all(
            not host.owns() and any(problem.reason == reason for problem in host.blocked) for host in self.alive()
        )
