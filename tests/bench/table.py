"""`python -m tests.bench.table`: how long an event takes until a reader of the table finds it, and its cost.

Latency: events as in `latency`; files close after one second, and the table gets a commit each second. Storage is
looked at every 0.05 s. An event is queryable when a version of the table's log registers its file. Cost: the same
backlog is drained with a table and without one, in turn; the CPU time of the host by events.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from azure.core.exceptions import ResourceNotFoundError

from tests.bench.drain import drain
from tests.bench.drainers import Drainer, Roll, Way, drainer
from tests.bench.hubs import await_readers, body, fill
from tests.bench.latency import EVERY_SECONDS, LOOK_SECONDS, PARTITIONS, Followed, where
from tests.bench.machine import servers_at
from tests.bench.options import Options
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

PREFIX = "shop/orders"


class Registered(Followed):
    """Which events are in the table, and how long each took; beside it, the files."""

    def __init__(self, running: Drainer) -> None:
        super().__init__(running)
        self.table: dict[tuple[str, int], float] = {}
        self._version = 0

    def look(self) -> int:
        """Look once; how many events are in the table."""
        try:
            name = f"{PREFIX}/_delta_log/{self._version:020d}.json"
            version = self._running.files.download_blob(name).readall()
        except ResourceNotFoundError:
            version = b""
        else:
            self._version += 1
        for action in map(json.loads, version.splitlines()):
            if "add" in action:
                partition, first = where(action["add"]["path"])
                for number in range(first, first + json.loads(action["add"]["stats"])["numRecords"]):
                    self.table[partition, number] = time.monotonic() - self.put[partition, number]
        super().look()
        return len(self.table)


def latency(scratch: Path, servers: tuple[EmulatorProcess, AzuriteProcess], count: int) -> Registered:
    """Follow events one by one."""
    emulator, hub = servers[0], "table-latency"
    emulator.admin.create_hub(hub, partitions=PARTITIONS)
    with drainer(Way.OURS_TABLE, scratch, servers, hub, Roll(most_seconds=1)) as running:
        await_readers(emulator, hub, PARTITIONS)
        followed = Registered(running)
        due = time.monotonic()
        for number in range(count):
            partition = str(number % PARTITIONS)
            put = time.monotonic()
            followed.put[partition, emulator.admin.put_event(hub, partition, body(1000, number))] = put
            due += EVERY_SECONDS
            while time.monotonic() < due:
                followed.look()
        running.wait(lambda: followed.look() == count, f"{count} events are in the table")
    return followed


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.table", description=__doc__)
    parser.add_argument("--events", type=int, default=400, help="of the latency [400]")
    parser.add_argument("--backlog", type=int, default=300_000, help="events of 1 KB of the cost [300,000]")
    parser.add_argument("--rounds", type=int, default=3, help="drains of each kind [3]")
    options = parser.parse_args()
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        followed = latency(Path(name), servers, options.events)
        for label, seconds in (("in a file", followed.seconds), ("in the table", followed.table)):
            cuts = statistics.quantiles(seconds.values(), n=100)
            print(f"from enqueued to {label}: p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s, {len(seconds)} events")
        print(f"looked at every {LOOK_SECONDS} s")
        count = fill(servers[0], "table-cost", 1000, options.backlog, PARTITIONS)
        ways = (Way.OURS, Way.OURS_TABLE)
        taken: dict[Way, list[float]] = {way: [] for way in ways}
        for number in range(options.rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                found = drain(way, Path(name), servers, "table-cost", count, PARTITIONS, Options())
                taken[way].append(found.micros)
        for way in ways:
            print(f"{way}: {statistics.median(taken[way]):.2f} us of CPU an event, {count:,} events, {taken[way]}")
        added = [table - plain for plain, table in zip(*taken.values(), strict=True)]
        print(f"added by the table: median {statistics.median(added):.2f} us an event")


if __name__ == "__main__":
    main()
