"""`python -m tests.bench.table`: how long an event takes until a reader of the table finds it, and its cost.

Latency: events as in `latency`; files close after one second, and the table gets a commit each second. Storage is
looked at every 0.05 s. An event is queryable when a version of the table's log registers its file. Cost: the same
backlog is drained with a table and without one, in turn; the CPU time of the host by events.
"""

import argparse
import json
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from tests.bench.drain import drain
from tests.bench.drainers import Way
from tests.bench.hubs import fill
from tests.bench.latency import LOOK_SECONDS, PARTITIONS, InFiles, follow
from tests.bench.machine import servers_at
from tests.bench.options import Options

PREFIX = "shop/orders"


class InTable(InFiles):
    """Which events are in the table, and how long each took; beside it, the files."""

    def __init__(self, files: ContainerClient) -> None:
        super().__init__(files)
        self.table: dict[tuple[str, int], float] = {}
        self._version = 0

    def look(self) -> int:
        """Look once, at most every `LOOK_SECONDS`; how many events are in the table."""
        try:
            version = self.files.download_blob(f"{PREFIX}/_delta_log/{self._version:020d}.json").readall()
        except ResourceNotFoundError:
            version = b""
        else:
            self._version += 1
        for action in map(json.loads, version.splitlines()):
            if "add" in action:
                self.arrived(self.table, action["add"]["path"], json.loads(action["add"]["stats"])["numRecords"])
        super().look()
        return len(self.table)


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.table", description=__doc__)
    parser.add_argument("--events", type=int, default=400, help="of the latency [400]")
    parser.add_argument("--backlog", type=int, default=300_000, help="events of 1 KB of the cost [300,000]")
    parser.add_argument("--rounds", type=int, default=3, help="drains of each kind [3]")
    options = parser.parse_args()
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        followed = follow(Way.OURS_TABLE, Path(name), servers, options.events, InTable)
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
