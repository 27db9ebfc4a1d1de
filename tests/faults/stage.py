"""What one row of the fault list acts on: a hub and containers of its own, hosts, and fault proxies before storage.

Every row ends with `FaultStage.settled`: all events are in exactly one file each, by a reader that shares no code with
the host, and every checkpoint is at its hub's head. What the auditor says about it is asked last, by
`FaultStage.finish`.
"""

import json
import re
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from tests.integration.processor.drained import Drained, assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.audited import run_audit
from tests.support.azurite import AzuriteProcess
from tests.support.faultproxy import Exchange, FaultProxy, Match
from tests.support.servers import EmulatorProcess
from tests.support.waiting import wait_until

PREFIX = "shop/orders"
LEASE_SECONDS = 15
NEVER = {"maxBytes": 100_000_000, "maxSeconds": 600, "maxEvents": 1_000_000}  # files only when told to stop


def commits(partition: str = r"\d+") -> Match:
    """Puts of files into slots."""
    return Match("PUT", rf"/partition={partition}/from=\d+", {"comp": None}, {"if-none-match": r"\*"})


def lease_writes(partition: str = r"\d+", body: bytes = b"") -> Match:
    """Writes of a lease's body by its owner: checkpoints, and the owner's name."""
    return Match("PUT", rf"/\$Default/{partition}$", {"comp": None}, {"x-ms-lease-id": ".+"}, body)


def lease_bodies(partition: str = r"\d+") -> Match:
    """Writes of a lease's body, that of its release too, which comes after the lease."""
    return Match("PUT", rf"/\$Default/{partition}$", {"comp": None})


def checkpoints(partition: str = r"\d+") -> Match:
    """Writes of checkpoints, where the hub was not drained before."""
    return lease_writes(partition, rb'"offset":"[^"]+".*"owner":"[^"]')


def owner_writes(partition: str = r"\d+") -> Match:
    """The write that ends an acquisition, where the hub was not drained before."""
    return lease_writes(partition, rb'^\{"sequenceNumber":.*"owner":"[^"]')


def lease_calls(action: str, partition: str = r"\d+") -> Match:
    """Lease requests: acquire, renew, change, release or break."""
    return Match("PUT", rf"/\$Default/{partition}$", {"comp": "lease"}, {"x-ms-lease-action": action})


class FaultStage:
    """One row's hub, containers, hosts and proxies."""

    def __init__(self, directory: Path, azurite: AzuriteProcess, emulator: EmulatorProcess) -> None:
        self.azurite = azurite
        self.emulator = emulator
        self.directory = directory
        self._consumers: list[Consumer] = []
        self._verdicts: dict[str, tuple[Consumer, int]] = {}  # by hub: what the auditor has to say at the end
        self._proxies: list[FaultProxy] = []
        self._emulators: list[EmulatorProcess] = []

    def own_emulator(self) -> None:
        """Take a namespace of its own, for faults that meet every hub of one."""
        self.emulator = EmulatorProcess(self.directory / "emulator")
        self._emulators.append(self.emulator)
        self.emulator.start()

    def consumer(self, partitions: int = 2, **overrides: Any) -> Consumer:
        """A consumer of a new hub."""
        hub = f"orders-{uuid.uuid4().hex[:12]}"
        self.emulator.admin.create_hub(hub, partitions=partitions)
        directory = self.directory / hub
        directory.mkdir()
        consumer = Consumer(directory, self.emulator, self.azurite, hub, **overrides)
        self._consumers.append(consumer)
        return consumer

    def proxy(self) -> FaultProxy:
        """A proxy before storage, without faults yet."""
        proxy = FaultProxy(self.azurite.port, self.azurite.connection_string)
        proxy.start()
        self._proxies.append(proxy)
        return proxy

    def host(self, consumer: Consumer, name: str, proxy: FaultProxy | None = None, **overrides: Any) -> HostProcess:
        """Start a host, with storage behind a proxy where one is given."""
        if proxy is not None:
            secret = self.directory / f"storage-through-{proxy.port}"
            secret.write_text(proxy.connection_string)
            for part, location in (
                ("sink", consumer.config["sink"]),
                ("leases", consumer.config["leases"]["location"]),
            ):
                through = location | {"credential": location["credential"] | {"connectionStringFile": str(secret)}}
                overrides[part] = through if part == "sink" else consumer.config["leases"] | {"location": through}
        return consumer.host(name, **overrides)

    def settled(self, consumer: Consumer, sent: int, seconds: float = 60, *, gaps: int = 0) -> Drained:
        """Wait until everything is drained and checkpointed; then nothing is doubled, lost or changed.

        Args:
            consumer: Whose hub and files.
            sent: Events published by `Consumer.publish`, all of them.
            seconds: How long to wait.
            gaps: Files that record a gap; their events are not asked for.
        """
        wait_until(lambda: behind(consumer) == {}, Behind(consumer))
        with consumer.container(consumer.drained) as container:
            drained = read_drained(container, PREFIX)
        if not gaps:
            assert_exactly_once(drained, consumer.heads(), sent)
        assert len(drained.gaps) == gaps, drained.gaps
        for partition, lease in leases(consumer).items():
            assert lease["epoch"] >= max(drained.epochs.get(partition) or [0]), (partition, lease)
        self._verdicts[consumer.hub] = (consumer, 1 if gaps else 0)
        for host in consumer.hosts:
            assert "Traceback" not in host.log, host.log
        return drained

    def audit(self, consumer: Consumer, code: int = 0) -> dict[str, Any]:
        """The auditor's report on everything, and its verdict: 0 clean, 1 explained gaps, 2 violation."""
        self._verdicts.pop(consumer.hub, None)
        report = run_audit(self.azurite, consumer.drained, PREFIX, consumer.leases)
        assert report["exitCode"] == code, (report["summary"], report["findings"])
        return report

    def finish(self) -> None:
        """The auditor's verdict on every consumer that settled: at the end of a row, once."""
        for consumer, code in [*self._verdicts.values()]:
            self.audit(consumer, code)

    def close(self) -> None:
        """End hosts, proxies and namespaces."""
        for consumer in self._consumers:
            consumer.close()
        for proxy in self._proxies:
            proxy.close()
        for emulator in self._emulators:
            emulator.close()
        self._consumers, self._proxies, self._emulators = [], [], []


def publish(consumer: Consumer, each: int, start: int = 0, size: int = 100) -> int:
    """Send `each` events to every partition; the number that comes after the last one."""
    for partition in consumer.heads():
        consumer.publish(each, partition, start, size)
        start += each
    return start


def leases(consumer: Consumer) -> dict[str, dict[str, Any]]:
    """All leases that are there and can be read, by partition."""
    with consumer.container(consumer.leases) as container:
        found = {}
        for partition in consumer.heads():
            try:
                found[partition] = json.loads(container.download_blob(f"$Default/{partition}").readall())
            except (ResourceNotFoundError, ValueError, RecursionError):
                continue
        return found


def behind(consumer: Consumer) -> dict[str, tuple[int, int]]:
    """Partitions whose checkpoint is not at the hub's head: (head, checkpoint)."""
    known = leases(consumer)
    found = {}
    for partition, head in consumer.heads().items():
        lease = known.get(partition) or {}
        checkpoint = int(lease["sequenceNumber"]) if lease.get("offset") else -1
        if checkpoint != head:
            found[partition] = (head, checkpoint)
    return found


class Behind:
    """What is behind, and the ends of the logs: worked out only where it is shown."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __str__(self) -> str:
        """Partition -> (head, checkpoint), and logs."""
        logs = "\n".join(f"--- {host.name}\n{host.log[-4000:]}" for host in self._consumer.hosts)
        return f"all is drained, but behind: {behind(self._consumer)}\n{logs}"


def slots(consumer: Consumer) -> dict[str, str]:
    """Names and etags of all files."""
    with consumer.container(consumer.drained) as container:
        return files_in(container)


def files_in(container: ContainerClient) -> dict[str, str]:
    """Names and etags of all files in a container."""
    return {blob.name: blob.etag for blob in container.list_blobs(f"{PREFIX}/segment=")}


def total(host: HostProcess, name: str, partition: str = "") -> int:
    """A counter's sum over its labels, or its value for one partition."""
    text = host.get("/metrics").decode()
    assert f"# TYPE eventconsumer_{name}_total counter" in text, f"no counter is called {name}"
    pattern = rf"^eventconsumer_{name}_total{{.*{f'partition=.{partition}.' if partition else ''}.*}} (\S+)$"
    return int(sum(float(value) for value in re.findall(pattern, text, re.MULTILINE)))


def wait_buffered(host: HostProcess, events: int) -> None:
    """Wait until a host has received so many events."""
    wait_until(lambda: total(host, "received_events") >= events, f"{events} events are received: {host.log[-3000:]}")


def wait_owned(host: HostProcess, partitions: int) -> None:
    """Wait until a host owns so many partitions."""
    wait_until(lambda: len(host.owned()) == partitions, f"{host.name} owns {partitions}: {host.log[-3000:]}")


def wait_attached(host: HostProcess, partition: str) -> None:
    """Wait until a host reads a partition."""
    wait_until(
        lambda: any(p.id == partition and p.next_sequence_number is not None for p in host.report().partitions),
        f"{host.name} reads partition {partition}: {host.log[-3000:]}",
    )


def logged(host: HostProcess, event: str) -> list[dict[str, Any]]:
    """The entries of a host's log with this event."""
    entries = [json.loads(line) for line in host.log.splitlines() if line.startswith("{")]
    return [entry for entry in entries if entry["message"] == event]


def assert_checkpoints_follow_files(exchanges: list[Exchange]) -> None:
    """No checkpoint was sent before the file it covers was asked for, and none falls; by what went over the wire."""
    files: dict[str, set[int]] = {}
    heights: Counter[str] = Counter()
    checked = 0
    for exchange in exchanges:
        request = exchange.request
        if found := re.search(r"/partition=(\d+)/from=", request.path):
            last = [request.headers.get("x-ms-meta-last"), *(_last(reply.head) for reply in exchange.replies)]
            if any(reply.status in (200, 201) for reply in exchange.replies):
                files.setdefault(found[1], set()).update(int(value) for value in last if value)
        elif checkpoints().meets(request):
            partition, number = request.path.rsplit("/", 1)[1], json.loads(request.body)["sequenceNumber"]
            assert number in files.get(partition, set()), (partition, number)
            assert number >= heights[partition]
            heights[partition] = number
            checked += 1
    assert checked, "no checkpoint was written"


def _last(head: bytes) -> str | None:
    found = re.search(rb"(?im)^x-ms-meta-last: (\d+)", head)
    return found[1].decode() if found else None
