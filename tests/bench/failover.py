"""How long a partition stays unread: hosts killed, hosts stopped, hosts added and taken away.

    python -m tests.bench.failover [--only NAME]

Real host processes on the emulator and Azurite, events on all partitions all the time. A partition counts as read while
a reader is attached to it, as the emulator sees it every 0.1 s. Each row ends with a check that every event is in
exactly one file. Each is measured with leases alone, and with hosts that are told what their fleet is as the operator
tells it: every three seconds, and when a host becomes ready or its pod is gone. Prints one table; takes about twelve
minutes on an idle machine of two cores.
"""

import argparse
import base64
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from rich.console import Console
from rich.table import Column, Table

from eventconsumer_api.wire.fleet import FLEET_PATH, FLEET_SIGNATURE_HEADER, FleetMessage
from eventconsumer_api.wire.host_report import HostState
from eventconsumer_api.wire.identity import owner_id
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.azurite import AzuriteProcess
from tests.support.readers import Readers
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

POLL_SECONDS = 0.1
TELL_SECONDS = 3.0  # as the operator does while anything moves
SETTLED_SECONDS = 3.0  # balanced for so long is balanced
ROLL = {"maxBytes": 1_000_000, "maxSeconds": 5, "maxEvents": 100_000}


class Publisher(threading.Thread):
    """Puts an event on every partition every second; `sent` counts them."""

    def __init__(self, orders: Consumer, partitions: int) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self._orders = orders
        self._partitions = partitions
        self._ended = threading.Event()

    def run(self) -> None:
        """Publish until `end`."""
        while not self._ended.wait(1.0):
            for partition in range(self._partitions):
                self._orders.emulator.admin.put_event(self._orders.hub, str(partition), b"%d|" % self.sent)
                self.sent += 1

    def end(self) -> None:
        """Stop publishing."""
        self._ended.set()
        self.join()


class Operator(threading.Thread):
    """Tells hosts what their fleet is, as the operator does; silent until hosts are wanted."""

    def __init__(self, orders: Consumer) -> None:
        super().__init__(daemon=True)
        self.wanted = 0
        self._orders = orders
        self._key = Ed25519PrivateKey.generate()
        self._generation = 0
        self._seen: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # pods that are ready, owners that ended
        self._ended = threading.Event()
        public = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        orders.fleet_key.write_bytes(public)

    def run(self) -> None:
        """Look and tell until `end`."""
        told = 0.0
        while not self._ended.wait(POLL_SECONDS):
            seen = self._ready(), self._gone()
            if self.wanted and (seen != self._seen or time.monotonic() - told >= TELL_SECONDS):
                self._seen, told = seen, time.monotonic()
                self._tell(*seen)

    def _ready(self) -> tuple[str, ...]:
        found = []
        for host in self._orders.hosts:
            if host.process.poll() is None and int(host.name.rpartition("-")[2]) < self.wanted:
                with contextlib.suppress(OSError, AssertionError):  # it ends just now
                    if host.report().state is HostState.RUNNING:
                        found.append(host.name)
        return tuple(sorted(found))

    def _gone(self) -> tuple[str, ...]:
        """Owners without a process; the pods of hosts that the rows start again have another uid."""
        return tuple(
            sorted(
                owner_id("shop/orders", host.name, f"uid-of-{host.name}")
                for host in self._orders.hosts
                if host.process.poll() is not None
            )
        )

    def _tell(self, ready: tuple[str, ...], gone: tuple[str, ...]) -> None:
        self._generation = max(self._generation + 1, time.time_ns() // 1_000_000)
        body = FleetMessage(
            resource="shop/orders",
            generation=self._generation,
            time=datetime.now(UTC),
            hosts=self.wanted,
            ready=ready,
            gone=gone,
        )
        content = body.model_dump_json(by_alias=True).encode()
        headers = {FLEET_SIGNATURE_HEADER: base64.b64encode(self._key.sign(content)).decode()}
        for host in list(self._orders.hosts):
            if host.process.poll() is None:
                with contextlib.suppress(OSError, AssertionError):
                    host.post(FLEET_PATH, content, headers)

    def end(self) -> None:
        """Fall silent."""
        self._ended.set()
        self.join()


@dataclass(frozen=True)
class Row:
    """One measurement; times in seconds."""

    what: str
    told: bool
    lease: int
    owned: float  # until all partitions are owned as they should be
    unread: float  # the longest that any partition was unread


@dataclass
class FailoverStage:
    """A consumer at work."""

    orders: Consumer
    readers: Readers
    operator: Operator | None
    lease: int
    partitions: int

    def want(self, count: int) -> None:
        """Let the operator say that so many hosts are wanted."""
        if self.operator:
            self.operator.wanted = count

    def hosts(self, first: int, count: int) -> list[HostProcess]:
        """Start hosts."""
        return [self.orders.host(f"orders-host-{number}") for number in range(first, first + count)]

    def settle(self, hosts: list[HostProcess]) -> float:
        """Wait until these hosts own all, evenly, and read all, and stay so; when that began."""
        since = [0.0]

        def met() -> bool:
            counts = [len(host.owned()) for host in hosts]
            even = sum(counts) == self.partitions and max(counts) - min(counts) <= 1
            if not (even and self.readers.all_read()):
                since[0] = 0.0
            elif not since[0]:
                since[0] = time.monotonic()
            return bool(since[0]) and time.monotonic() - since[0] >= SETTLED_SECONDS

        wait_until(met, f"{len(hosts)} hosts own {self.partitions} partitions evenly")
        return since[0]

    def measure(self, what: str, act: Callable[[], object], left: Callable[[], list[HostProcess]]) -> Row:
        """Do something to a settled fleet, and see how long it takes to settle again."""
        self.readers.begin()
        began = time.monotonic()
        act()
        settled = self.settle(left())
        return Row(what, self.operator is not None, self.lease, settled - began, self.readers.longest())


@contextmanager
def stage(
    servers: tuple[EmulatorProcess, AzuriteProcess],
    name: str,
    lease: int,
    partitions: int,
    *,
    told: bool,
    roll: Mapping[str, int] = ROLL,
) -> Iterator[FailoverStage]:
    """A hub with publishers; at its end, everything published must be in files exactly once."""
    emulator, azurite = servers
    emulator.admin.create_hub(name, partitions=partitions)
    with tempfile.TemporaryDirectory() as folder:
        orders = Consumer(Path(folder), emulator, azurite, name, roll=dict(roll))
        orders.config["leases"]["durationSeconds"] = lease
        readers, publisher = (
            Readers(lambda: emulator.admin.links(kind="reader", hub=name), partitions),
            Publisher(orders, partitions),
        )
        operator = Operator(orders) if told else None
        readers.start()
        publisher.start()
        if operator:
            operator.start()
        try:
            yield FailoverStage(orders, readers, operator, lease, partitions)
            publisher.end()
            if operator:
                operator.end()
            for host in orders.hosts:
                if host.process.poll() is None:
                    host.process.terminate()
            for host in orders.hosts:
                host.process.wait(60)
            with orders.container(orders.drained) as container:
                assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), publisher.sent)
        finally:
            publisher.end()
            readers.end()
            if operator:
                operator.end()
            orders.close()
            emulator.admin.delete_hub(name)


def killed(stage: FailoverStage) -> Row:
    """One of two hosts is killed."""
    stage.want(2)
    hosts = stage.hosts(0, 2)
    stage.settle(hosts)
    return stage.measure("SIGKILL, one of 2 hosts", hosts[0].kill, lambda: hosts[1:])


def restarted(stage: FailoverStage) -> Row:
    """One of two hosts is killed, and another pod comes in its place."""
    stage.want(2)
    hosts = stage.hosts(0, 2)
    stage.settle(hosts)

    def act() -> None:
        hosts[0].kill()
        hosts[0] = stage.orders.host("orders-host-0", environment={"POD_UID": "uid-of-another"})

    return stage.measure("SIGKILL, one of 2 hosts, new pod at once", act, lambda: hosts)


def reduced(stage: FailoverStage, before: int, after: int) -> Row:
    """Some hosts are told to stop; where there is an operator, after they handed over."""
    stage.want(before)
    hosts = stage.hosts(0, before)
    stage.settle(hosts)

    def act() -> None:
        if stage.operator:
            stage.want(after)
            wait_until(lambda: not any(host.owned() for host in hosts[after:]), "those that leave handed over")
        for host in hosts[after:]:
            host.process.terminate()

    return stage.measure(f"{before} -> {after} hosts", act, lambda: hosts[:after])


def stopped(stage: FailoverStage) -> Row:
    """One of two hosts leaves."""
    return reduced(stage, 2, 1)


def taken(stage: FailoverStage) -> Row:
    """Six of eight hosts leave."""
    return reduced(stage, 8, 2)


def added(stage: FailoverStage) -> Row:
    """A second host comes."""
    stage.want(1)
    hosts = stage.hosts(0, 1)
    stage.settle(hosts)

    def act() -> None:
        stage.want(2)
        hosts.extend(stage.hosts(1, 1))

    return stage.measure("1 -> 2 hosts", act, lambda: hosts)


RUNS: dict[
    str, tuple[Callable[[FailoverStage], Row], int, int, bool]
] = {  # name -> what, lease seconds, partitions, told
    "kill-15": (killed, 15, 32, False),
    "kill-30": (killed, 30, 32, False),
    "restart-30": (restarted, 30, 32, False),
    "restart-30-told": (restarted, 30, 32, True),
    "stop-30": (stopped, 30, 32, False),
    "stop-30-told": (stopped, 30, 32, True),
    "add-15": (added, 15, 32, False),
    "add-30": (added, 30, 32, False),
    "add-30-told": (added, 30, 32, True),
    "take-15": (taken, 15, 32, False),
    "take-30": (taken, 30, 32, False),
    "take-30-told": (taken, 30, 32, True),
}


def main() -> int:
    """Run and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(RUNS), action="append", help="run this row; may be repeated")
    wanted = parser.parse_args().only or list(RUNS)
    console = Console(width=None if sys.stdout.isatty() else 110)
    table = Table(
        Column("what", no_wrap=True), "told", "lease", "partitions", "settled after", "longest unread", title="Failover"
    )
    with tempfile.TemporaryDirectory() as folder:
        emulator, azurite = EmulatorProcess(Path(folder) / "emulator"), AzuriteProcess(Path(folder) / "azurite.log")
        try:
            emulator.start()
            azurite.start()
            for name in wanted:
                run, lease, partitions, told = RUNS[name]
                console.print(f"{name} …", style="dim")
                with stage((emulator, azurite), name, lease, partitions, told=told) as at:
                    row = run(at)
                figures = (
                    "yes" if row.told else "no",
                    f"{row.lease} s",
                    str(partitions),
                    f"{row.owned:.1f} s",
                    f"{row.unread:.1f} s",
                )
                table.add_row(row.what, *figures)
                console.print("  ".join([row.what, *figures]), style="dim")
        finally:
            azurite.close()
            emulator.close()
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
