"""Storage calls of a consumer that has nothing to do: 32 partitions on eight hosts, leases of 60 s, the default.

Counted in Azurite's access log over some minutes behind the settling, extrapolated to an hour. Ours with an operator
that tells hosts their fleet, as in a cluster; the peer is eight processes of the SDK's processor with its own defaults
(load balancing every 30 s).
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from eventconsumer_host.identity.records import MOVED_SECONDS
from tests.bench.drainers import Roll, start_sdk
from tests.bench.failover import Operator
from tests.bench.machine import servers_at
from tests.bench.options import Options
from tests.bench.results import Row
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.azurite import ACCOUNT, AzuriteProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

PARTITIONS, HOSTS, LEASE_SECONDS = 32, 8, 60
SETTLE_SECONDS, QUICK_SECONDS = 240.0, 60.0  # until scans rest
COUNT_SECONDS = MOVED_SECONDS  # the longest pause between two checks; hosts that start together check together
TABLE_SECONDS = 10

Servers = tuple[EmulatorProcess, AzuriteProcess]


def rows(options: Options) -> list[Row]:
    """Count ours, then the SDK's."""
    fleets = (("ours", our_fleet), ("ours with a table", our_fleet_with_a_table), ("the SDK", sdk_fleet))
    ours, table, peer = (hourly(name, fleet, options) for name, fleet in fleets)
    unit = "calls per hour"
    return [Row("storage_calls_idle_32_on_8", unit, ours, peer), Row("storage_calls_idle_32_on_8_table", unit, table)]


def hourly(
    who: str, fleet: Callable[[Consumer, Servers, Path], AbstractContextManager[None]], options: Options
) -> float:
    """Calls an hour of a balanced fleet, on servers of its own."""
    with TemporaryDirectory() as name, servers_at(Path(name), access_log=True) as servers:
        emulator, azurite = servers
        emulator.admin.create_hub("idle", partitions=PARTITIONS)
        consumer = Consumer(Path(name), emulator, azurite, "idle")
        consumer.config["leases"]["durationSeconds"] = LEASE_SECONDS
        with fleet(consumer, servers, Path(name)):
            time.sleep(SETTLE_SECONDS)
            log, seconds = Path(name) / "azurite.log", QUICK_SECONDS if options.quick else COUNT_SECONDS
            before = requests(log)
            time.sleep(seconds)
            found = requests(log) - before
    for kind, count in found.most_common(8):
        options.say(f"{who}: {count * 3600 / seconds:,.0f} an hour: {kind}")
    return found.total() * 3600 / seconds


@contextmanager
def our_fleet(consumer: Consumer, servers: Servers, folder: Path) -> Iterator[None]:
    """Eight hosts, and the operator."""
    operator = Operator(consumer)
    operator.start()
    try:
        operator.wanted = HOSTS
        hosts = [_started(consumer, number) for number in range(HOSTS)]
        share = PARTITIONS // HOSTS
        wait_until(lambda: all(len(host.owned()) == share for host in hosts), "balanced")
        yield
    finally:
        operator.end()
        consumer.close()


@contextmanager
def our_fleet_with_a_table(consumer: Consumer, servers: Servers, folder: Path) -> Iterator[None]:
    """The same, with `sink.table` and its default of 10 s."""
    consumer.config["table"] = {"maxSeconds": TABLE_SECONDS}
    with our_fleet(consumer, servers, folder):
        yield


def _started(consumer: Consumer, number: int) -> HostProcess:
    host = consumer.host(f"orders-host-{number}")
    host.get("/healthz")  # one after the other: eight at once would start slowly
    return host


@contextmanager
def sdk_fleet(consumer: Consumer, servers: Servers, folder: Path) -> Iterator[None]:
    """Eight processes of the SDK's processor."""
    with consumer.container(consumer.leases) as leases, consumer.container(consumer.drained) as files:
        leases.create_container()
        files.create_container()
        processes = [start_sdk(consumer, servers, Roll(), folder) for _ in range(HOSTS)]

        def balanced() -> bool:
            blobs = leases.list_blobs(include=["metadata"])
            owners = Counter(blob.metadata["ownerid"] for blob in blobs if "ownerid" in blob.metadata)
            return sorted(owners.values()) == [PARTITIONS // HOSTS] * HOSTS

        try:
            wait_until(balanced, "balanced")
            yield
        finally:
            for process in processes:
                process.kill()
                process.wait()


def requests(log: Path) -> Counter[str]:
    """The requests so far, by method and what distinguishes them: the operation, and the kind of blob."""
    found = Counter[str]()
    for line in log.read_text().splitlines():
        _, quote, request = line.partition('"')
        method, _, target = request.partition(" ")
        if quote and target.startswith(f"/{ACCOUNT}"):
            path, _, query = target.split(" ")[0].partition("?")
            operation = " ".join(part for part in query.split("&") if part.startswith(("comp=", "restype=")))
            found[f"{method} {operation} {'/'.join(path.split('/')[3:-1])}"] += 1
    return found
