"""The probe on the real emulator and Azurite: it sees events while no host runs, and touches nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

from eventconsumer_api.host_report import FleetReport, HostState, PartitionLag
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess, wait_until


class ProbeProcess(HostProcess):
    """`eventconsumer probe` in a process of its own."""

    def __init__(self, directory: Path, consumer: Consumer, name: str = "orders-probe-0") -> None:
        self.name = name
        self.log_file = directory / f"{name}.log"
        config = directory / f"{name}.json"
        config.write_text(json.dumps(consumer.config))
        self._log = self.log_file.open("ab")
        environment = {"EVENTCONSUMER_CONFIG": str(config), "EVENTCONSUMER_PORT": "0", "POD_NAME": name, "POD_UID": "u"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eventconsumer_processor", "probe"],
            stdout=self._log,
            stderr=self._log,
            env=os.environ | environment,
        )
        self._port = 0
        self._log_start = 0
        consumer.hosts.append(self)

    def fleet(self) -> FleetReport:
        """Its report, once there is one."""
        wait_until(lambda: self.report().fleet is not None, 30, f"the probe measures: {self.log}")
        found = self.report().fleet
        assert found is not None
        return found


def contents(consumer: Consumer) -> list[tuple[str, str, str | None]]:
    """All blobs with their etags and lease states."""
    found = []
    for name in (consumer.leases, consumer.drained):
        with consumer.container(name) as container:
            found += [(blob.name, str(blob.etag), blob.lease.state) for blob in container.list_blobs()]
    return found


def test_nothing_waits_and_then_events_are_seen_within_seconds(consumer: MakeConsumer, tmp_path: Path) -> None:
    orders = consumer(partitions=4)
    orders.publish(400)
    host = orders.host()

    def drained() -> bool:
        fleet = host.report().fleet
        return fleet is not None and (fleet.events, fleet.lag_events) == (400, 0)

    wait_until(drained, 60, f"all events are in files: {host.log[-2000:]}")
    assert host.terminate() == 0
    before = contents(orders)
    probe = ProbeProcess(tmp_path, orders)
    fleet = probe.fleet()
    assert (fleet.lag_events, fleet.lag_seconds, fleet.partition_count, fleet.events) == (0, 0, 4, 400)
    assert fleet.owners == {}
    assert probe.report().state is HostState.RUNNING
    orders.publish(30, "2", start=400)
    wait_until(lambda: probe.fleet().lag_events == 30, 15, f"the probe sees the events: {probe.log}")
    seen = probe.fleet()
    assert seen.lags["2"].events == 30
    assert seen.lags["0"] == PartitionLag(events=0, seconds=0)
    assert b'eventconsumer_partition_lag_events{partition="2"} 30.0' in probe.get("/metrics")
    assert probe.get("/healthz") == b"ok\n"
    assert contents(orders) == before
    resident = next(
        line for line in Path(f"/proc/{probe.process.pid}/status").read_text().splitlines() if "VmRSS" in line
    )
    assert int(resident.split()[1]) < 120 * 1024, resident
    assert probe.terminate() == 0


def test_a_missing_secret_is_named_and_noticed_when_it_comes(consumer: MakeConsumer, tmp_path: Path) -> None:
    orders = consumer(partitions=1)
    content = orders.hub_secret.read_text()
    orders.hub_secret.unlink()
    probe = ProbeProcess(tmp_path, orders)
    found = probe.problem("SecretKeyMissing")
    assert found.field == "spec.eventHub.authentication.connectionStringSecretRef"
    orders.hub_secret.write_text(content)
    assert probe.fleet().lag_events == 0
    assert probe.report().problems == ()


def test_a_hub_that_was_created_anew_is_a_problem_and_no_lag(consumer: MakeConsumer, tmp_path: Path) -> None:
    orders = consumer(partitions=1)
    probe = ProbeProcess(tmp_path, orders)
    probe.fleet()
    orders.emulator.admin.delete_hub(orders.hub)
    orders.emulator.admin.create_hub(orders.hub, partitions=1)
    orders.publish(10, "0")
    wait_until(lambda: probe.fleet().lags["0"] == PartitionLag(), 30, f"the lag is unknown: {probe.log}")
    probe.terminate()
    again = ProbeProcess(tmp_path, orders, "orders-probe-1")
    assert again.problem("HubChanged").field == "spec.eventHub.name"
