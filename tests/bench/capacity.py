"""`python -m tests.bench.capacity`: the capacity model beside one host that drains a steady load.

The host has one core, the emulator and Azurite have the other. Events arrive every half second on all partitions;
leases last 60 s, the default. After a start phase, CPU time and storage requests are counted over the same minutes.
The model (`eventconsumer_api.resource.capacity`) computes both from the rate, the size of an event, the partitions and
`roll.maxSeconds`, so a ratio of 1 means that the plan is right.
"""

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from eventconsumer_api.resource.capacity import Load, host_cpu_seconds, requests_per_second
from tests.bench.calls import requests
from tests.bench.drainers import Roll, Way, drainer
from tests.bench.hubs import add, await_readers
from tests.bench.machine import cpu_seconds, servers_at
from tests.support.servers import EmulatorProcess

START_SECONDS = 30.0
BEAT_SECONDS = 0.5


@dataclass(frozen=True)
class Case:
    """A steady load.

    Attributes:
        rate: Events per second, all partitions.
        size: Bytes of a body.
        partitions: Partitions of the hub, all of one host.
        roll_seconds: `roll.maxSeconds`.
        table: Whether the files are registered in a table.
    """

    rate: int
    size: int
    partitions: int
    roll_seconds: int
    table: bool = False

    def __str__(self) -> str:
        """A line of the table."""
        table = ", table" if self.table else ""
        return f"{self.rate:,}/s of {self.size} B, {self.partitions} partitions, {self.roll_seconds} s{table}"


CASES = (
    Case(0, 1000, 8, 10),
    Case(1000, 1000, 8, 10),
    Case(10_000, 1000, 8, 10),
    Case(2000, 200, 32, 10),
    Case(1000, 1000, 8, 10, table=True),
)


@dataclass(frozen=True)
class Measured:
    """What one case took, per second."""

    cpu: float
    requests: Counter[str]
    seconds: float

    @property
    def reads(self) -> float:
        """Storage reads per second: GET and HEAD without listings."""
        return self._of(lambda kind: kind.startswith(("GET", "HEAD")) and "comp=list" not in kind)

    @property
    def writes(self) -> float:
        """Writes, leases and listings per second."""
        return self.requests.total() / self.seconds - self.reads

    def _of(self, wanted: object) -> float:
        assert callable(wanted)
        return sum(count for kind, count in self.requests.items() if wanted(kind)) / self.seconds


@contextmanager
def publishing(emulator: EmulatorProcess, hub: str, case: Case) -> Iterator[None]:
    """Add events at the rate of the case until the end of the block."""
    ended = threading.Event()

    def publish() -> None:
        due = time.monotonic()
        while case.rate and not ended.is_set():
            add(emulator, hub, case.size, int(case.rate * BEAT_SECONDS), case.partitions)
            due += BEAT_SECONDS
            ended.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def measure(case: Case, seconds: float) -> Measured:
    """Drain the load of a case for some seconds."""
    with TemporaryDirectory() as name, servers_at(Path(name), access_log=True) as servers:
        emulator, log = servers[0], Path(name) / "azurite.log"
        emulator.admin.create_hub("capacity", partitions=case.partitions)
        way = Way.OURS_TABLE if case.table else Way.OURS
        roll = Roll(most_seconds=case.roll_seconds, lease_seconds=60)
        with drainer(way, Path(name), servers, "capacity", roll) as running:
            await_readers(emulator, "capacity", case.partitions)
            with publishing(emulator, "capacity", case):
                time.sleep(START_SECONDS)
                cpu, before, began = cpu_seconds(running.process.pid), requests(log), time.monotonic()
                time.sleep(seconds)
                took = time.monotonic() - began
                return Measured((cpu_seconds(running.process.pid) - cpu) / took, requests(log) - before, took)


def main() -> None:
    """Measure the cases, and print them beside the model."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.capacity", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="length of a measurement")
    parser.add_argument("--kinds", action="store_true", help="also print the requests by kind")
    options = parser.parse_args()
    print("| load | CPU, cores: model | measured | writes/s: model | measured | reads/s: model | measured |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for case in CASES:
        found = measure(case, options.seconds)
        load = Load(
            case.rate,
            case.size,
            case.partitions,
            1,
            roll_seconds=case.roll_seconds,
            table_seconds=1 if case.table else None,
            operator=False,
        )
        expected = requests_per_second(load)
        print(
            f"| {case} | {host_cpu_seconds(load):.3f} | {found.cpu:.3f} | {expected.writes:.2f} | {found.writes:.2f} "
            f"| {expected.reads:.2f} | {found.reads:.2f} |",
            flush=True,
        )
        if options.kinds:
            for kind, count in found.requests.most_common():
                print(f"    {count / found.seconds:.3f}/s {kind}")


if __name__ == "__main__":
    main()
