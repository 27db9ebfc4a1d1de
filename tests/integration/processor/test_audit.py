"""The auditor beside running hosts: whatever they are just doing, it finds nothing wrong, and the hub tells the lag."""

import json

from eventconsumer_audit.model import AuditReport
from tests.integration.processor.batches import PREFIX, commit_batch, read_commit, read_manifest
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.hosts import Consumer
from tests.support.audited import run_program
from tests.support.waiting import wait_until


def commit_open_batch(consumer: Consumer) -> bool:
    """Commit the batch that is open, as a Spark job would; whether there was one."""
    with consumer.container(consumer.drained) as container:
        names = [blob.name for blob in container.list_blobs(f"{PREFIX}/_batches/")]
        if not names:
            return False
        number = len(names)
        if read_commit(container, number):
            return False
        commit_batch(container, read_manifest(container, number))
    return True


def look(consumer: Consumer, *, deep: bool) -> AuditReport:
    """Audit, which must find nothing wrong, and let Spark go on."""

    report = consumer.audit(deep=deep)
    assert report.exit_code == 0, report
    commit_open_batch(consumer)
    return report


def test_audits_beside_hosts_that_come_and_go_find_nothing(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=4, batches={"trigger": {"files": 4, "ageSeconds": 2}})
    orders.config["roll"] |= {"maxEvents": 50}
    first = orders.host("orders-host-0")
    wait_until(lambda: bool(first.owned()), "the first host owns partitions")
    audits = 0
    for round_ in range(4):
        orders.publish(1000, start=1000 * round_)
        if round_ == 1:
            orders.host("orders-host-1")
        if round_ == 2:
            first.kill()
        for _ in range(3):
            look(orders, deep=audits % 2 == 0)
            audits += 1

    def done() -> bool:
        return sum(partition.events for partition in look(orders, deep=False).partitions) == 4000

    wait_until(done, "all is drained")
    config = str(orders.hosts[1].log_file.with_suffix(".json"))
    result = run_program("audit", "--json", "--deep", "--hub", EVENTCONSUMER_CONFIG=config)
    report = json.loads(result.stdout)
    assert (result.returncode, report["counts"]) == (0, {})
    assert {partition["lag"] for partition in report["partitions"]} == {0}
    assert all(partition["owner"] and partition["epoch"] >= 1 for partition in report["partitions"])
    orders.hosts[1].terminate()
    orders.publish(100, "0", start=4000)
    result = run_program("audit", "--json", "--hub", EVENTCONSUMER_CONFIG=config)
    assert (result.returncode, json.loads(result.stdout)["partitions"][0]["lag"]) == (0, 100)
