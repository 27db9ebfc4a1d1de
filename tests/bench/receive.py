"""What receiving costs: CPU time of the client for each event, ours against the SDK's.

    python -m tests.bench.receive [--events N]

The client is a process of its own on one core, the emulator on another. Events have three properties; they are in the
hub before the clock starts, and one event is received first. Prints one table; takes about two minutes.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from azure.eventhub import EventData, EventHubProducerClient
from rich.console import Console
from rich.table import Column, Table

from eventconsumer_processor.credentials import HubAccess
from eventconsumer_processor.source.amqp.hub import AmqpHub
from eventconsumer_processor.source.hub import Hub
from eventconsumer_processor.source.sdk import SdkHub
from tests.servers import EmulatorProcess

SIZES = (200, 1000, 16_000)
PREFETCH = 3000
HUB_BYTES = 100_000_000  # of one hub's events at most
ADAPTERS: dict[str, Callable[[HubAccess], Hub]] = {"sdk": SdkHub, "amqp": AmqpHub}


def main() -> None:
    """Measure all, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument(
        "--client", nargs=4, metavar=("ADAPTER", "CONNECTION", "EVENTS", "CORE"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.client:
        adapter, connection, events, core = options.client
        os.sched_setaffinity(0, {int(core)})
        asyncio.run(receive(ADAPTERS[adapter], connection, int(events)))
        return
    table = Table(
        "body", *(Column(name, justify="right") for name in ("SDK us", "ours us", "ratio", "SDK ev/s", "ours ev/s"))
    )
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as directory:
        emulator = EmulatorProcess(Path(directory), "--quiet", "--retention-mib=512")
        emulator.start()
        try:
            os.sched_setaffinity(emulator.pid, {cores[-1]})
            for size in SIZES:
                count = min(options.events, HUB_BYTES // size)
                fill(emulator, f"bytes-{size}", size, count)
                sdk, ours = (
                    measure(name, emulator.connection_string(f"bytes-{size}"), count, cores[0]) for name in ADAPTERS
                )
                row = (
                    f"{sdk[0]:.1f}",
                    f"{ours[0]:.1f}",
                    f"{sdk[0] / ours[0]:.1f}",
                    f"{sdk[1]:,.0f}",
                    f"{ours[1]:,.0f}",
                )
                table.add_row(f"{size} B", *row)
                emulator.admin.delete_hub(f"bytes-{size}")
        finally:
            emulator.close()
    Console().print(table)


def fill(emulator: EmulatorProcess, hub: str, size: int, count: int, partitions: int = 1) -> None:
    """A hub that holds `count` events, as many in each partition."""
    emulator.admin.create_hub(hub, partitions=partitions)
    with EventHubProducerClient.from_connection_string(emulator.connection_string(hub)) as producer:
        for partition in range(partitions):
            sent = 0
            while sent < count // partitions:
                batch = producer.create_batch(partition_id=str(partition))
                while sent < count // partitions:
                    event = EventData(body(size, sent))
                    event.properties = {"region": "eu-west", "device": f"device-{sent % 500}", "number": sent}
                    try:
                        batch.add(event)
                    except ValueError:  # it is full
                        break
                    sent += 1
                producer.send_batch(batch)


def body(size: int, number: int) -> bytes:
    """A JSON body of `size` bytes that compresses as readings of a device do."""
    noise = os.urandom(size // 4).hex()
    text = f'{{"device": "device-{number % 500}", "number": {number}, "unit": "kPa", "trace": "{noise}"}}'
    return text.ljust(size).encode()


def measure(adapter: str, connection: str, count: int, core: int) -> tuple[float, float]:
    """CPU microseconds for each event, and events a second."""
    command = [sys.executable, "-m", "tests.bench.receive", "--client", adapter, connection, str(count), str(core)]
    process = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = json.loads(process.stdout)
    return found["cpu"] / found["events"] * 1e6, found["events"] / found["seconds"]


async def receive(adapter: Callable[[HubAccess], Hub], connection: str, count: int) -> None:
    """Receive every event, and print what it took."""
    hub = adapter(HubAccess("localhost", connection.rpartition("=")[2], "$Default", connection))
    source = await hub.open("0", -1, 1, PREFETCH)
    received = len(await source.receive(1, 10))
    already = received
    cpu, started = time.process_time(), time.perf_counter()
    while received < count:
        received += len(await source.receive(PREFETCH, 1))
    taken = {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - started, "events": received - already}
    print(json.dumps(taken))
    await source.close()
    await hub.close()


if __name__ == "__main__":
    main()
