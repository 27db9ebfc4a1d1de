"""How long an event is on its way: from the moment the hub has it until a file in storage holds it.

An event every quarter of a second, on four partitions in turn; files close after one second. Storage is looked at every
0.05 s, so that much is added to all. At this rate a file holds one event or a few, and waiting for the file to close is
most of the time.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from azure.storage.blob import ContainerClient

from tests.bench.drainers import Roll, Way, drainer
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
            count = QUICK_EVENTS if options.quick else EVENTS
            followed = follow(way, Path(name), servers, count, InFiles)
            cuts = statistics.quantiles(followed.seconds.values(), n=100)
            found[way] = (cuts[49], cuts[98])
            options.say(f"latency of {way}: median {cuts[49]:.2f} s, 99th percentile {cuts[98]:.2f} s")
    pairs = zip(("p50", "p99"), found[Way.OURS], found[Way.SDK], strict=True)
    return [Row(f"latency_{name}", "seconds", ours, peer) for name, ours, peer in pairs]


class InFiles:
    """Which events are in files, and how long each took."""

    def __init__(self, files: ContainerClient) -> None:
        self.put: dict[tuple[str, int], float] = {}  # partition and sequence number -> when
        self.seconds: dict[tuple[str, int], float] = {}
        self.files = files
        self._seen: set[str] = set()

    def look(self) -> int:
        """Look once, at most every `LOOK_SECONDS`; how many events have arrived."""
        began = time.monotonic()
        for blob in self.files.list_blobs(include=["metadata"]):
            if "count" in blob.metadata and blob.name not in self._seen:
                self._seen.add(blob.name)
                self.arrived(self.seconds, blob.name, int(blob.metadata["count"]))
        time.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - began)))
        return len(self.seconds)

    def arrived(self, seconds: dict[tuple[str, int], float], path: str, count: int) -> None:
        """Note the events of a file."""
        partition, first = where(path)
        for number in range(first, first + count):
            seconds[partition, number] = time.monotonic() - self.put[partition, number]


Follower = TypeVar("Follower", bound=InFiles)


def follow(
    way: Way,
    scratch: Path,
    servers: tuple[EmulatorProcess, AzuriteProcess],
    count: int,
    observe: Callable[[ContainerClient], Follower],
) -> Follower:
    """Publish events one by one, and look for them until all have arrived.

    Args:
        way: Who drains.
        scratch: A folder.
        servers: Hub and storage.
        count: Number of events.
        observe: Makes the observer of a container.
    """
    emulator, hub = servers[0], f"latency-{way.name.lower()}"
    emulator.admin.create_hub(hub, partitions=PARTITIONS)
    with drainer(way, scratch, servers, hub, Roll(most_seconds=1)) as running:
        await_readers(emulator, hub, PARTITIONS)
        followed = observe(running.files)
        due = time.monotonic()
        for number in range(count):
            partition = str(number % PARTITIONS)
            put = time.monotonic()
            followed.put[partition, emulator.admin.put_event(hub, partition, body(1000, number))] = put
            due += EVERY_SECONDS
            while time.monotonic() < due:
                followed.look()
        running.wait(lambda: followed.look() == count, f"{count} events have arrived")
        return followed


def where(path: str) -> tuple[str, int]:
    """Partition and first sequence number of a file: .../partition=3/from=00017.parquet, or 3/00017.parquet."""
    folder, name = path.split("/")[-2:]
    return folder.removeprefix("partition="), int(name.removeprefix("from=").removesuffix(".parquet"))
