"""A file that others delete: the auditor sees it, and no host makes it worse (row 15 of the fault list)."""

from azure.storage.blob import BlobServiceClient

from tests.faults.stage import (
    FaultStage,
    behind,
    publish,
    slots,
    wait_owned,
)
from tests.support.waiting import wait_until


def test_15_file_deleted(stage: FaultStage) -> None:
    orders = stage.consumer(partitions=2)
    host = orders.host("only")
    wait_owned(host, 2)
    for start in (0, 200, 400):
        publish(orders, 100, start=start)
        stage.settled(orders, start + 200)
    assert host.terminate() == 0
    name = sorted(name for name in slots(orders) if "/partition=0/" in name)[1]
    with (
        BlobServiceClient.from_connection_string(stage.azurite.connection_string) as service,
        service.get_blob_client(orders.drained, name) as blob,
    ):
        blob.delete_blob()
        report = stage.audit(orders, 2)
        assert any(finding.get("partition") == "0" for finding in report["findings"]), report["findings"]
        assert not any(finding.get("partition") == "1" for finding in report["findings"]), report["findings"]
        damaged = slots(orders)
        successor = orders.host("successor")
        wait_owned(successor, 2)
        publish(orders, 100, start=600)
        wait_until(lambda: behind(orders) == {}, f"it goes on behind the damage: {successor.log[-3000:]}")
        assert damaged.items() <= slots(orders).items()  # and mends nothing by rewriting
        assert name not in slots(orders)
        stage.audit(orders, 2)
