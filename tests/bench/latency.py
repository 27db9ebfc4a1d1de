"""How long an event is on its way: from the moment the hub has it until a file in storage holds it.

An event every quarter of a second, on four partitions in turn; files close after one second. Storage is looked at every
0.05 s, so that much is added to all. At this rate a file holds one event or a few, and waiting for the file to close is
most of the time.
"""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.drainers import Drainer, Roll, Way, drainer
from tests.bench.hubs import await_readers, body
from tests.bench.machine import servers_at
from tests.bench.options import Options
from tests.bench.results import Row
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

PARTITIONS = 4
EVERY_SECONDS = 0.25
LOOK_SECONDS = 0.05
EVENTS, QUICK_EVENTS = 400, 40


def rows(options: Options) -> list[Row]:
    """Median and 99th percentile of ours and the SDK's processor."""
    found = {}
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        for way in (Way.OURS, Way.SDK):
            seconds = measure(way, Path(name), servers, QUICK_EVENTS if options.quick else EVENTS)
            cuts = statistics.quantiles(seconds, n=100)
            found[way] = (cuts[49], cuts[98])
            options.say(f"latency of {way}: median {cuts[49]:.2f} s, 99th percentile {cuts[98]:.2f} s")
    pairs = zip(("p50", "p99"), found[Way.OURS], found[Way.SDK], strict=True)
    return [Row(f"latency_{name}", "seconds", ours, peer) for name, ours, peer in pairs]


def measure(way: Way, scratch: Path, servers: tuple[EmulatorProcess, AzuriteProcess], count: int) -> list[float]:
    """Seconds that each event took."""
    emulator, hub = servers[0], f"latency-{way.name.lower()}"
    emulator.admin.create_hub(hub, partitions=PARTITIONS)
    with drainer(way, scratch, servers, hub, Roll(most_seconds=1)) as running:
        await_readers(emulator, hub, PARTITIONS)
        followed = Followed(running)
        due = time.monotonic()
        for number in range(count):
            partition = str(number % PARTITIONS)
            put = time.monotonic()
            followed.put[partition, emulator.admin.put_event(hub, partition, body(1000, number))] = put
            due += EVERY_SECONDS
            while time.monotonic() < due:
                followed.look()
        running.wait(lambda: followed.look() == count, f"{count} events are in files")
        return list(followed.seconds.values())


class Followed:
    """Which events are in files, and how long each took."""

    def __init__(self, running: Drainer) -> None:
        self.put: dict[tuple[str, int], float] = {}  # partition and sequence number -> when
        self.seconds: dict[tuple[str, int], float] = {}
        self._running = running
        self._seen: set[str] = set()

    def look(self) -> int:
        """Look once; how many events are in files."""
        began = time.monotonic()
        for blob in self._running.files.list_blobs(include=["metadata"]):
            if "count" in blob.metadata and blob.name not in self._seen:
                self._seen.add(blob.name)
                partition, first = where(blob.name)
                for number in range(first, first + int(blob.metadata["count"])):
                    self.seconds[partition, number] = time.monotonic() - self.put[partition, number]
        time.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - began)))
        return len(self.seconds)


def where(path: str) -> tuple[str, int]:
    """Partition and first sequence number of a file: .../partition=3/from=00017.parquet, or 3/00017.parquet."""
    folder, name = path.split("/")[-2:]
    return folder.removeprefix("partition="), int(name.removeprefix("from=").removesuffix(".parquet"))
