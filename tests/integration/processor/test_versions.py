"""Hosts of the previous release and of this tree share one consumer and take over from each other, as in an upgrade."""

import json
from pathlib import Path

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import FleetReport
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer, HostProcess, without_decoder
from tests.integration.processor.test_audit import commit_open_batch
from tests.integration.processor.test_drain import wait_drained
from tests.integration.processor.test_leader import fleet_of
from tests.integration.processor.test_table import rows_of
from tests.support.audited import run_program
from tests.support.previous import Previous
from tests.support.waiting import wait_until

PARTITIONS = 4
REWRITE = """
import json
import sys

from eventconsumer_api.wire.host_config import HostConfig

print(json.dumps(HostConfig.model_validate_json(json.load(sys.stdin)).to_json()))
"""


def wait_led(orders: Consumer, events: int, *hosts: HostProcess) -> None:
    """Wait until all events are in files, in the table and in committed batches, as the leading host of these says."""
    found: list[FleetReport | None] = []

    def met() -> bool:
        commit_open_batch(orders)
        found[:] = [fleet := fleet_of(*hosts)]
        table = fleet.table if fleet else None
        return fleet is not None and table is not None and (table.events, fleet.pending_files) == (events, 0)

    wait_until(met, found)


def test_an_upgrade_and_a_rollback_host_by_host(consumer: MakeConsumer, tmp_path: Path) -> None:
    previous = Previous.check_out(tmp_path)
    # The compiled decoder is of this tree.
    path = f"{without_decoder(tmp_path)['PYTHONPATH']}:{previous.environment['PYTHONPATH']}"
    old = previous.environment | {"PYTHONPATH": path}
    batches = {"trigger": {"files": 4, "ageSeconds": 2}}
    orders = consumer(partitions=PARTITIONS, batches=batches, table={"maxSeconds": 1})
    config = HostConfig.model_validate(orders.config).to_json()
    assert previous.run(REWRITE, config) == config  # so its digest is the same, and no host restarts
    orders.config = json.loads(config)
    orders.publish(1000)
    first = orders.host("orders-host-0", environment=old)
    wait_drained(orders, 1000)
    wait_led(orders, 1000, first)
    second = orders.host("orders-host-1")
    wait_until(lambda: len(first.owned()) == len(second.owned()) == PARTITIONS // 2, "both have their share")
    orders.publish(1000, start=1000)
    wait_drained(orders, 2000)
    wait_led(orders, 2000, first, second)
    assert first.terminate() == 0
    orders.publish(1000, start=2000)
    wait_until(lambda: len(second.owned()) == PARTITIONS, "this tree's host has all of them")
    wait_drained(orders, 3000)
    wait_led(orders, 3000, second)
    assert second.terminate() == 0
    orders.publish(1000, start=3000)
    back = orders.host("orders-host-0", environment=old)
    wait_until(lambda: len(back.owned()) == PARTITIONS, "the previous release has all of them again")
    wait_drained(orders, 4000)
    wait_led(orders, 4000, back)
    assert rows_of(orders).total() == len(rows_of(orders)) == 4000
    assert [host.name for host in orders.hosts if "Traceback" in host.log] == []
    configured = {"EVENTCONSUMER_CONFIG": str(back.log_file.with_suffix(".json"))}
    for auditor in ({}, old):
        audited = run_program("audit", "--deep", "--hub", **configured, **auditor)
        assert audited.returncode == 0, audited.stdout + audited.stderr
