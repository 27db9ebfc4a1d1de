"""A process that drains a hub into files: one of our hosts, or the same work on the SDK's own processor."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from azure.storage.blob import ContainerClient

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.wire.host_config import BodyConfig
from tests.bench.machine import CLIENT_CORE, on_core
from tests.integration.processor.hosts import Consumer, without_decoder
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess


class Way(StrEnum):
    """Who drains."""

    OURS = "ours"
    OURS_PLAIN = "ours, without the compiled decoder"
    OURS_SDK_RECEIVER = "ours, the SDK's receiver"
    OURS_TABLE = "ours, with a table"
    SDK = "the SDK's processor"


@dataclass(frozen=True)
class Roll:
    """When a file is complete; the same for all."""

    most_bytes: int = 64 * 1024 * 1024
    most_seconds: int = 5
    most_events: int = 10_000_000
    lease_seconds: int = 15


@dataclass(frozen=True)
class Drainer:
    """A running one, with clients of its containers."""

    process: subprocess.Popen[bytes]
    files: ContainerClient
    leases: ContainerClient

    def drained(self) -> list[int]:
        """The number of events in each file so far."""
        found = self.files.list_blobs(include=["metadata"])
        return [int(blob.metadata["count"]) for blob in found if "count" in blob.metadata]

    def size(self) -> int:
        """Bytes of all files so far."""
        found = self.files.list_blobs(include=["metadata"])
        return sum(blob.size for blob in found if "count" in blob.metadata)

    def checkpoints(self) -> int:
        """The sum of all partitions' checkpoints, each as the number of events that it covers."""
        total = 0
        for blob in self.leases.list_blobs(include=["metadata"]):
            if "sequencenumber" in blob.metadata:
                total += int(blob.metadata["sequencenumber"]) + 1
            elif blob.size and blob.name.rpartition("/")[2].isdecimal():
                lease = json.loads(self.leases.download_blob(blob.name).readall())
                total += int(lease["sequenceNumber"]) + 1 if lease.get("offset") else 0
        return total

    def wait(self, met: Callable[[], bool], what: str, seconds: float = 300.0) -> None:
        """Wait until something is true.

        Raises:
            RuntimeError: The process ended, or it takes too long.
        """
        deadline = time.monotonic() + seconds
        while not met():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{what}: it ended with {self.process.poll()}, or takes over {seconds:.0f} s")
            time.sleep(0.1)

    def finish(self, count: int) -> None:
        """Wait until `count` events are in files, and the checkpoints say so."""
        self.wait(lambda: sum(self.drained()) >= count, f"{count} events are in files")
        self.wait(lambda: self.checkpoints() >= count, f"checkpoints cover {count} events")


@contextmanager
def drainer(
    way: Way,
    scratch: Path,
    servers: tuple[EmulatorProcess, AzuriteProcess],
    hub: str,
    roll: Roll,
    *,
    batch: int = 3000,
    notices: str = "",
    columns: Sequence[BodyColumn] = (),
) -> Iterator[Drainer]:
    """Start one on the clients' core, with containers of its own; end it behind the block.

    Args:
        way: Who drains.
        scratch: A folder.
        servers: Hub and storage.
        hub: The hub.
        roll: When a file is complete.
        batch: Events that ours takes at a time.
        notices: URL that ours sends a notice for each file to; empty: none.
        columns: Columns that ours makes of bodies.
    """
    emulator, azurite = servers
    folder = scratch / uuid.uuid4().hex
    folder.mkdir()
    limits = {"maxBytes": roll.most_bytes, "maxSeconds": roll.most_seconds, "maxEvents": roll.most_events}
    consumer = Consumer(folder, emulator, azurite, hub, roll=limits)
    client = "AzureSdk" if way is Way.OURS_SDK_RECEIVER else "BuiltIn"
    consumer.config["leases"]["durationSeconds"] = roll.lease_seconds
    consumer.config["processing"] = {
        "maxBatchSize": batch,
        "prefetchCount": 3000,
        "maxWaitSeconds": 5,
        "client": client,
    }
    if way is Way.OURS_TABLE:
        consumer.config["table"] = {"maxSeconds": 1}
    if body := BodyConfig.of(columns):
        consumer.config["body"] = body.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if notices:
        consumer.config["notices"] = {"url": notices}
    with consumer.container(consumer.leases) as leases, consumer.container(consumer.drained) as files:
        leases.create_container()
        files.create_container()
        with on_core(CLIENT_CORE):
            if way is Way.SDK:
                process = start_sdk(consumer, servers, roll, folder)
            else:
                process = consumer.host(environment=without_decoder(folder) if way is Way.OURS_PLAIN else None).process
        try:
            yield Drainer(process, files, leases)
        finally:
            process.kill()
            process.wait()
            consumer.close()


def start_sdk(
    consumer: Consumer, servers: tuple[EmulatorProcess, AzuriteProcess], roll: Roll, folder: Path
) -> subprocess.Popen[bytes]:
    """Start a process of the SDK's processor, with the consumer's containers."""
    emulator, azurite = servers
    settings = {
        "hub": emulator.connection_string(consumer.hub),
        "storage": azurite.connection_string,
        "leases": consumer.leases,
        "files": consumer.drained,
        "bytes": roll.most_bytes,
        "seconds": roll.most_seconds,
    }
    with (folder / "sdk.log").open("ab") as log:
        command = [sys.executable, "-m", "tests.bench.sdk_drain"]
        return subprocess.Popen(command, env=os.environ | {"SDK_DRAIN": json.dumps(settings)}, stderr=log)
