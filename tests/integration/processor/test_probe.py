"""The probe on the real emulator and Azurite: while no host runs it sees events and freezes batches, no more."""

import json
import os
import subprocess
import sys
from pathlib import Path

from eventconsumer_api.wire.batch import commit_name, manifest_name
from eventconsumer_api.wire.host_report import FleetReport, HostState, PartitionLag
from tests.integration.processor.batches import PREFIX, commit_batch, read_manifest
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.waiting import wait_until


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
            [sys.executable, "-m", "eventconsumer_tools", "probe"],
            stdout=self._log,
            stderr=self._log,
            env=os.environ | environment,
        )
        self._port = 0
        self._log_start = 0
        consumer.hosts.append(self)

    def fleet(self) -> FleetReport:
        """Its report, once there is one."""
        wait_until(lambda: self.report().fleet is not None, f"the probe measures: {self.log}")
        found = self.report().fleet
        assert found is not None
        return found


def contents(consumer: Consumer) -> list[tuple[str, str, str | None]]:
    """All blobs with their etags and lease states, except the watermark, which the probe writes."""
    found = []
    for name in (consumer.leases, consumer.drained):
        with consumer.container(name) as container:
            blobs = (blob for blob in container.list_blobs() if not blob.name.endswith("/_watermark.json"))
            found += [(blob.name, str(blob.etag), blob.lease.state) for blob in blobs]
    return found


def test_a_missing_secret_then_nothing_waits_then_events_are_seen_and_then_another_hub(
    consumer: MakeConsumer, tmp_path: Path
) -> None:
    orders = consumer(partitions=4)
    orders.publish(400)
    host = orders.host()

    def drained() -> bool:
        fleet = host.report().fleet
        return fleet is not None and (fleet.events, fleet.lag_events) == (400, 0)

    wait_until(drained, f"all events are in files: {host.log[-2000:]}")
    assert host.terminate() == 0
    before = contents(orders)
    secret = orders.hub_secret.read_text()
    orders.hub_secret.unlink()
    probe = ProbeProcess(tmp_path, orders)
    assert probe.problem("SecretKeyMissing").field == "spec.eventHub.authentication.connectionStringSecretRef"
    orders.hub_secret.write_text(secret)
    fleet = probe.fleet()
    assert probe.report().problems == ()
    assert (fleet.lag_events, fleet.lag_seconds, fleet.partition_count, fleet.events) == (0, 0, 4, 400)
    assert fleet.owners == {}
    assert probe.report().state is HostState.RUNNING
    orders.publish(30, "2", start=400)
    wait_until(lambda: probe.fleet().lag_events == 30, f"the probe sees the events: {probe.log}")
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
    orders.emulator.admin.recreate_hub(orders.hub)
    assert probe.problem("HubDiverged").field == "spec.eventHub.name"
    assert probe.fleet().lags["0"] == PartitionLag()
    assert contents(orders) == before
    assert probe.terminate() == 0


def test_files_that_wait_become_batches_and_commits_are_seen_while_no_host_runs(
    consumer: MakeConsumer, tmp_path: Path
) -> None:
    batches = {"trigger": {"files": 1000, "ageSeconds": 8}, "limits": {"maxFiles": 1}}
    orders = consumer(partitions=2, batches=batches)
    orders.publish(40, "0")
    orders.publish(40, "1", start=40)
    host = orders.host()

    def drained() -> bool:
        fleet = host.report().fleet
        return fleet is not None and (fleet.events, fleet.lag_events) == (80, 0)

    wait_until(drained, f"all events are in files: {host.log[-2000:]}")
    assert host.terminate() == 0
    before = {name for name, *_ in contents(orders)}
    probe = ProbeProcess(tmp_path, orders)
    wait_until(lambda: probe.fleet().open_batch is not None, f"what waits becomes a batch: {probe.log}")
    fleet = probe.fleet()
    assert fleet.open_batch is not None
    assert (fleet.open_batch.number, fleet.open_batch.files, fleet.open_batch.reason) == (1, 1, "Age")
    assert (fleet.pending_files, fleet.committed_batch, fleet.lag_events) == (fleet.files, 0, 0)
    with orders.container(orders.drained) as container:
        one = read_manifest(container, 1)
        commit_batch(container, one)
        wait_until(lambda: probe.fleet().committed_batch == 1, f"the commit is seen: {probe.log}")
        last = probe.fleet().last_commit
        assert last is not None and (last.number, last.rows_read) == (1, one.files[0].count)
        wait_until(lambda: probe.fleet().open_batch is not None, f"the rest follows: {probe.log}")
    assert {name for name, *_ in contents(orders)} - before == {
        manifest_name(PREFIX, 1),
        manifest_name(PREFIX, 2),
        commit_name(PREFIX, 1),
    }
    assert probe.terminate() == 0
