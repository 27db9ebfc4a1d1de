"""Real host processes for tests: `python -m eventconsumer_tools` on a free port, stopped by pid."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from azure.eventhub import EventData, EventHubProducerClient
from azure.storage.blob import ContainerClient

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import HostReport, Problem
from eventconsumer_audit.model import AuditReport
from eventconsumer_audit.read import audit
from eventconsumer_tools.access import Options, opened
from tests.support.azurite import AzuriteProcess
from tests.support.servers import EmulatorProcess
from tests.support.waiting import HANG_SECONDS, wait_until


def without_decoder(folder: Path) -> dict[str, str]:
    """The variables of a host that does not find the compiled decoder."""
    (folder / "eventconsumer_decoder.py").write_text("raise ModuleNotFoundError('kept away')\n")
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{path}" if path else str(folder)}


class HostProcess:
    """One host."""

    def __init__(
        self,
        directory: Path,
        name: str,
        config: dict[str, Any],
        *,
        checked: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        if checked:
            HostConfig.model_validate(config)
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log_file = directory / f"{name}.log"
        config_file = directory / f"{name}.json"
        config_file.write_text(json.dumps(config))
        self._log = self.log_file.open("ab")
        self._log_start = self._log.tell()  # a pod of this name may have been there before
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eventconsumer_tools"],
            stdout=self._log,
            stderr=self._log,
            env=os.environ
            | {
                "EVENTCONSUMER_CONFIG": str(config_file),
                "EVENTCONSUMER_PORT": "0",
                "POD_NAME": name,
                "POD_UID": f"uid-of-{name}",
            }
            | (environment or {}),
        )
        self._port = 0

    def __repr__(self) -> str:
        """Its name, and the end of its log."""
        return f"{self.name} {self.log[-3000:]}"

    @property
    def log(self) -> str:
        """Everything it logged."""
        return self.log_file.read_bytes()[self._log_start :].decode()

    def get(self, path: str) -> bytes:
        """The answer of its HTTP side."""
        if not self._port:
            wait_until(lambda: '"port": ' in self.log, f"{self.name} listens: {self.log}")
            found = re.search(r'"port": (\d+)', self.log)
            assert found
            self._port = int(found[1])
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=HANG_SECONDS) as answer:
            content: bytes = answer.read()
            return content

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Send something to its HTTP side, which must take it."""
        self.get("/healthz")  # it listens
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=HANG_SECONDS):
            pass

    def report(self) -> HostReport:
        """Its /status."""
        return HostReport.model_validate_json(self.get("/status"))

    def owned(self) -> set[str]:
        """Partitions it owns."""
        return {partition.id for partition in self.report().partitions}

    def problem(self, reason: str) -> Problem:
        """Wait for a problem with this reason in /status."""
        found: list[Problem] = []

        def met() -> bool:
            found[:] = [problem for problem in self.report().problems if problem.reason == reason]
            return bool(found)

        wait_until(met, f"{self.name} reports {reason}, log: {self.log[-2000:]}")
        return found[0]

    def pause(self) -> None:
        """Stop it as a machine in suspend would."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a warning."""
        self.process.kill()
        self.process.wait()

    def terminate(self, seconds: float = 30) -> int:
        """SIGTERM, and wait for its exit code."""
        self.process.terminate()
        return self.process.wait(seconds)

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.go_on()
            self.kill()
        self._log.close()


class Consumer:
    """One consumer: a hub, containers, Secret files, and the hosts started for it."""

    def __init__(
        self, directory: Path, emulator: EmulatorProcess, azurite: AzuriteProcess, hub: str, **overrides: Any
    ) -> None:
        self.hub = hub
        self.emulator = emulator
        self.hosts: list[HostProcess] = []
        self.leases = azurite.container()
        self.drained = azurite.container()
        self.hub_secret = directory / "hub-secret"
        self.storage_secret = directory / "storage-secret"
        self.hub_secret.write_text(emulator.connection_string(hub))
        self.storage_secret.write_text(azurite.connection_string)
        self._connection_string = azurite.connection_string
        self.directory = directory
        self.azurite = azurite
        self.fleet_key = directory / "fleet.pem"
        self.config: dict[str, Any] = {
            "resource": {"namespace": "shop", "name": "orders", "uid": "uid-1"},
            "eventHub": {"consumerGroup": "$Default", "credential": self._secret("eventHub", self.hub_secret)},
            "leases": {"location": self._location("checkpointStore", self.leases, ""), "durationSeconds": 15},
            "startingPosition": {"type": "Earliest"},
            "processing": {"maxBatchSize": 300, "prefetchCount": 3000, "maxWaitSeconds": 5},
            "sink": self._location("sink", self.drained, "shop/orders"),
            "roll": {"maxBytes": 1_000_000, "maxSeconds": 1, "maxEvents": 100_000},
            "batches": None,
            "drainSeconds": 20,
            "allowInsecureEndpoints": True,
        } | overrides

    def _secret(self, part: str, file: Path) -> dict[str, Any]:
        return {
            "field": f"spec.{part}.authentication.connectionStringSecretRef",
            "secret": f"{part}-secret",
            "key": "connectionString",
            "connectionStringFile": str(file),
        }

    def _location(self, part: str, container: str, prefix: str) -> dict[str, Any]:
        return {"container": container, "prefix": prefix, "credential": self._secret(part, self.storage_secret)}

    def host(
        self,
        name: str = "orders-host-0",
        *,
        checked: bool = True,
        environment: dict[str, str] | None = None,
        **overrides: Any,
    ) -> HostProcess:
        """Start a host."""
        config = self.config | overrides
        host = HostProcess(self.directory, name, config, checked=checked, environment=environment)
        self.hosts.append(host)
        return host

    def audit(self, *, deep: bool, hub: bool = False) -> AuditReport:
        """Audit the files, with the configuration of the last host."""

        async def go() -> AuditReport:
            async with opened(self.hosts[-1].log_file.with_suffix(".json"), Options(), hub=hub) as found:
                return await audit(found.subject, deep=deep)

        return asyncio.run(go())

    def container(self, name: str) -> ContainerClient:
        """A client of a container."""
        return ContainerClient.from_connection_string(self._connection_string, name)

    def publish(self, count: int, partition: str | None = None, start: int = 0, size: int = 100) -> None:
        """Send events with the bodies `<number>|…`, through the SDK."""
        producer = EventHubProducerClient.from_connection_string(self.emulator.connection_string(self.hub))
        with producer:
            sent = start
            while sent < start + count:
                key = None if partition else f"key-{sent % 97}"
                batch = producer.create_batch(partition_id=partition, partition_key=key)
                while sent < start + count and len(batch) < 500:
                    event = EventData(f"{sent}|".encode().ljust(size, b"x"))
                    event.properties = {"number": sent}
                    batch.add(event)
                    sent += 1
                producer.send_batch(batch)

    def last_offset(self, partition: str) -> str:
        """The offset of the newest event of a partition, as an SDK's checkpoint names it."""
        client = EventHubProducerClient.from_connection_string(self.emulator.connection_string(self.hub))
        with client:
            return str(client.get_partition_properties(partition)["last_enqueued_offset"])

    def heads(self) -> dict[str, int]:
        """The hub's last sequence numbers, by partition."""
        found = self.emulator.admin.hub(self.hub)["partitions"]
        return {partition["partition"]: partition["last_enqueued_sequence_number"] for partition in found}

    def close(self) -> None:
        """End all hosts."""
        for host in self.hosts:
            host.close()
