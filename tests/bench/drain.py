"""What draining costs: events for each CPU second, from the hub to Parquet files in storage, with checkpoints.

A backlog is in four partitions. The client starts and attaches a reader to each, but the hub holds its events back, so
that starting costs nothing here. Then the clock starts, the hub lets go, and the clock stops when every event is in a
file and the checkpoints say so. The client is one process on one core; the servers are on another.

CPU time is that of the process's clock, of all threads. What a host does beside the events while it waits for the last
files is in it: 0.08 s, 0.3 to 0.4 us for each of 200,000 to 300,000 events.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from eventconsumer_api.spec.body_columns import BodyColumn
from tests.bench.drainers import Roll, Way, drainer
from tests.bench.hubs import await_readers, fill, held
from tests.bench.machine import cpu_seconds, peak_mib, servers_at
from tests.bench.options import Options
from tests.bench.results import Row
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

PARTITIONS = 4
SIZES = {"200b": (200, 400_000), "1k": (1000, 300_000), "16k": (16_000, 30_000)}  # bytes of a body, events
QUICK = 10  # times fewer events
SETTLE_SECONDS = 1.0  # behind the last attach
OTHERS = {Way.OURS_PLAIN: "plain_vs_sdk", Way.OURS_SDK_RECEIVER: "sdk_receiver"}  # measured for one size


@dataclass(frozen=True)
class Taken:
    """What draining took: CPU seconds, events, files with their bytes, and the most memory at a time, MiB."""

    cpu: float
    events: int
    files: int
    size: int
    memory: float

    @property
    def rate(self) -> float:
        """Events for each CPU second."""
        return self.events / self.cpu

    @property
    def micros(self) -> float:
        """CPU microseconds for each event."""
        return 1e6 * self.cpu / self.events


def rows(options: Options) -> list[Row]:
    """Drain events of three sizes, each way."""
    found = []
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        for label, (size, most) in SIZES.items():
            hub = f"drain-{label}"
            count = fill(servers[0], hub, size, most // (QUICK if options.quick else 1), PARTITIONS)
            ways = [Way.OURS, *OTHERS, Way.SDK] if label == "1k" else [Way.OURS, Way.SDK]
            taken = {way: drain(way, Path(name), servers, hub, count, PARTITIONS, options) for way in ways}
            ours, peer = taken[Way.OURS], taken[Way.SDK]
            found += [
                Row(f"drain_{label}_vs_sdk", "events per CPU second", ours.rate, peer.rate),
                Row(f"drain_{label}_cost", "CPU us per event", ours.micros, peer.micros),
                Row(f"drain_{label}_peak_memory", "MiB", ours.memory, peer.memory),
            ]
            for way, row in OTHERS.items():
                if (other := taken.get(way)) is not None:
                    found.append(Row(f"drain_{label}_{row}", "events per CPU second", other.rate, peer.rate))
            servers[0].admin.delete_hub(hub)
        found.append(_compacted(Path(name), servers, options))
    return found


def _compacted(scratch: Path, servers: tuple[EmulatorProcess, AzuriteProcess], options: Options) -> Row:
    """Drain as many events of 1 KB as above from a hub whose log compaction has removed every second event."""
    hub, (size, most) = "drain-1k-compacted", SIZES["1k"]
    count = fill(servers[0], hub, size, 2 * most // (QUICK if options.quick else 1), PARTITIONS)
    left = count
    for partition in range(PARTITIONS):
        left -= servers[0].admin.compact(hub, str(partition), range(0, count // PARTITIONS - 1, 2))
    ours, peer = (drain(way, scratch, servers, hub, left, PARTITIONS, options) for way in (Way.OURS, Way.SDK))
    servers[0].admin.delete_hub(hub)
    return Row("drain_1k_compacted_vs_sdk", "events per CPU second", ours.rate, peer.rate)


def drain(
    way: Way,
    scratch: Path,
    servers: tuple[EmulatorProcess, AzuriteProcess],
    hub: str,
    count: int,
    partitions: int,
    options: Options,
    columns: Sequence[BodyColumn] = (),
) -> Taken:
    """Drain a filled hub into containers of its own, with these columns of bodies."""
    with drainer(way, scratch, servers, hub, Roll(), columns=columns) as running:
        with held(servers[0], hub):
            await_readers(servers[0], hub, partitions)
            time.sleep(SETTLE_SECONDS)
            before = cpu_seconds(running.process.pid)
        running.finish(count)
        cpu = cpu_seconds(running.process.pid) - before
        taken = Taken(cpu, count, len(running.drained()), running.size(), peak_mib(running.process.pid))
    options.say(
        f"{hub}, {way}: {taken.micros:.1f} us an event, {taken.rate:,.0f} events per CPU s, {count:,} events in "
        f"{taken.files} files of {taken.size / count:.0f} B an event, {len(columns)} columns of bodies, "
        f"peak {taken.memory:.0f} MiB"
    )
    return taken
