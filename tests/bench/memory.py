"""How much memory a draining process takes: at a full backlog of large events, and over ten million small ones."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.drainers import Roll, Way, drainer
from tests.bench.hubs import add, await_readers, fill, held
from tests.bench.machine import peak_mib, resident_mib, servers_at
from tests.bench.options import Options
from tests.bench.results import Row
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess

PARTITIONS = 32
LARGE = 1_040_000  # bytes of a body: with its properties it is just below 1 MiB
BACKLOG = 32 * 24  # events
QUICK_BACKLOG = 32 * 8
SMALL = 200  # bytes of a body
ROUNDS, ROUND = 20, 500_000  # events


def rows(options: Options) -> list[Row]:
    """The peak at a full backlog; with `--long` the growth over ten million events, too."""
    found = []
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        hub = "memory-backlog"
        count = fill(servers[0], hub, LARGE, QUICK_BACKLOG if options.quick else BACKLOG, PARTITIONS)
        ours, peer = (peak(way, Path(name), servers, hub, count) for way in (Way.OURS, Way.SDK))
        options.say(f"{count:,} events of 1 MiB: ours {ours:.0f} MiB, the SDK's processor {peer:.0f} MiB")
        found.append(Row("memory_backlog_1mib_32", "MiB", ours, peer))
        servers[0].admin.delete_hub(hub)
    if options.long:
        found += long(options)
    return found


def peak(way: Way, scratch: Path, servers: tuple[EmulatorProcess, AzuriteProcess], hub: str, count: int) -> float:
    """The most memory while all is drained, MiB."""
    with drainer(way, scratch, servers, hub, Roll()) as running:
        running.finish(count)
        return peak_mib(running.process.pid)


def long(options: Options) -> list[Row]:
    """Refill a hub in rounds, and look at one host's memory behind each; the last third against the first."""
    seen = []
    each = ROUND // (100 if options.quick else 1)
    with TemporaryDirectory() as name, servers_at(Path(name)) as servers:
        emulator, hub = servers[0], "memory-long"
        emulator.admin.create_hub(hub, partitions=4)
        with drainer(Way.OURS, Path(name), servers, hub, Roll(most_bytes=16 * 1024 * 1024)) as running:
            with held(emulator, hub):
                await_readers(emulator, hub, 4)
            done = 0
            for number in range(ROUNDS):
                done += add(emulator, hub, SMALL, each, 4, times=10 if each >= ROUND else 1)
                running.finish(done)
                for partition in range(4):
                    emulator.admin.move_retention(hub, str(partition), before=done // 4)
                seen.append(resident_mib(running.process.pid))
                options.say(f"round {number + 1}, {done:,} events: {seen[-1]:.0f} MiB")
    first, last = max(seen[: ROUNDS // 3]), max(seen[-(ROUNDS // 3) :])
    return [
        Row("memory_after_10m_events", "MiB", last),
        Row("memory_growth_10m", "last third / first third", last / first),
    ]
