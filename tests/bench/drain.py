"""What draining costs: CPU time for each event from the hub to a Parquet file in storage, with checkpoints.

    python -m tests.bench.drain [--events N]

Ours with either receiver against the same work on the SDK's processor (`sdk_drain`), in one run. The client is one
process on one core; the emulator and Azurite are on another. A backlog is in four partitions before the client starts.
CPU is counted from the first file to the last, so starting costs nothing here. Prints one table; takes about eight
minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from azure.storage.blob import ContainerClient
from rich.console import Console
from rich.table import Column, Table

from tests.azurite import AzuriteProcess
from tests.bench.receive import fill
from tests.integration.processor.hosts import Consumer
from tests.servers import EmulatorProcess

SIZES = (200, 1000, 16_000)
PARTITIONS = 4
HUB_BYTES = 160_000_000  # of one hub's events at most
FILE_BYTES, FILE_SECONDS = 8_000_000, 5
WAYS = ("SDK's processor", "ours, SDK receiver", "ours, own receiver")
_TICKS = os.sysconf("SC_CLK_TCK")
_SECONDS = 300.0  # until all is in files


@dataclass(frozen=True)
class Taken:
    """What draining took: CPU microseconds and events a second, and the most memory at a time, MiB."""

    micros: float
    rate: float
    memory: float


def main() -> None:
    """Measure all, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})  # the servers inherit it
    columns = ("us an event", "events / CPU s", "times the SDK's", "events/s", "peak MiB")
    table = Table("body", "who", *(Column(name, justify="right") for name in columns))
    with tempfile.TemporaryDirectory() as scratch, _servers(Path(scratch)) as (emulator, azurite):
        for size in SIZES:
            count = min(options.events, HUB_BYTES // size) // PARTITIONS * PARTITIONS
            hub = f"bytes-{size}"
            fill(emulator, hub, size, count, PARTITIONS)
            found = [drain(way, Path(scratch), emulator, azurite, hub, count, cores[0]) for way in WAYS]
            for way, taken in zip(WAYS, found, strict=True):
                ratio = found[0].micros / taken.micros
                row = (f"{taken.micros:.1f}", f"{1e6 / taken.micros:,.0f}", f"{ratio:.1f}", f"{taken.rate:,.0f}")
                table.add_row(f"{size} B", way, *row, f"{taken.memory:.0f}")
            emulator.admin.delete_hub(hub)
    Console().print(table)


@contextmanager
def _servers(scratch: Path) -> Iterator[tuple[EmulatorProcess, AzuriteProcess]]:
    emulator = EmulatorProcess(scratch, "--quiet", "--retention-mib=1024")
    azurite = AzuriteProcess(scratch / "azurite.log")
    try:
        emulator.start()
        azurite.start()
        yield emulator, azurite
    finally:
        azurite.close()
        emulator.close()


def drain(
    way: str, scratch: Path, emulator: EmulatorProcess, azurite: AzuriteProcess, hub: str, count: int, core: int
) -> Taken:
    """Drain a hub into a container of its own."""
    folder = scratch / f"{hub}-{WAYS.index(way)}"
    folder.mkdir()
    roll = {"maxBytes": FILE_BYTES, "maxSeconds": FILE_SECONDS, "maxEvents": 1_000_000}
    consumer = Consumer(folder, emulator, azurite, hub, roll=roll)
    for name in (consumer.leases, consumer.drained):
        with ContainerClient.from_connection_string(azurite.connection_string, name) as container:
            container.create_container()
    consumer.config["eventHub"]["source"] = "amqp" if way == WAYS[2] else "sdk"
    process = _sdk(consumer, emulator, azurite) if way == WAYS[0] else consumer.host().process
    os.sched_setaffinity(process.pid, {core})
    try:
        with ContainerClient.from_connection_string(azurite.connection_string, consumer.drained) as files:
            return _follow(process, files, count)
    finally:
        process.kill()
        process.wait()
        consumer.close()


def _sdk(consumer: Consumer, emulator: EmulatorProcess, azurite: AzuriteProcess) -> subprocess.Popen[bytes]:
    settings = {
        "hub": emulator.connection_string(consumer.hub), "storage": azurite.connection_string,
        "leases": consumer.leases, "files": consumer.drained, "bytes": FILE_BYTES, "seconds": FILE_SECONDS,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.bench.sdk_drain"]
    return subprocess.Popen(command, env=os.environ | {"SDK_DRAIN": json.dumps(settings)})


def _follow(process: subprocess.Popen[bytes], files: ContainerClient, count: int) -> Taken:
    deadline = time.monotonic() + _SECONDS
    first: tuple[int, float, float] | None = None
    while True:
        done = sum(
            int(blob.metadata["count"]) for blob in files.list_blobs(include=["metadata"]) if "count" in blob.metadata
        )
        now = (done, _cpu_seconds(process.pid), time.monotonic())
        if first is None and done:
            first = now
        if done >= count and first is not None:
            break
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{done} of {count} events are in files, and it ended or takes too long")
        time.sleep(0.2)
    events, cpu, seconds = (last - before for last, before in zip(now, first, strict=True))
    return Taken(cpu / events * 1e6, events / seconds, _peak_mib(process.pid))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak_mib(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
