"""To whom leases belong: those of others are left alone. Two hubs, and a resource applied again: tests/e2e."""

import json
from typing import Any

import pytest
from azure.storage.blob import BlobLeaseClient

from eventconsumer_api.wire.identity import LeaseRecord, lease_record_name
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.legacyleases import document
from tests.support.waiting import wait_until


def billing_of(orders: Consumer, consumer: MakeConsumer, **location: Any) -> Consumer:
    """A consumer of another hub in the same containers, as the examples are written."""
    billing = consumer(partitions=4, hub="billing")
    billing.leases, billing.drained = orders.leases, orders.drained
    billing.config |= {
        "resource": {"namespace": "shop", "name": "billing", "uid": "uid-9"},
        "leases": in_container(orders, **location),
        "sink": orders.config["sink"] | {"prefix": "shop/billing"},
    }
    return billing


def in_container(one: Consumer, **location: Any) -> dict[str, Any]:
    """Leases in its container; without a prefix at the default path."""
    default = {key: value for key, value in one.config["leases"]["location"].items() if key != "prefix"}
    return one.config["leases"] | {"location": default | location}


def caught_up(one: Consumer, host: HostProcess) -> None:
    """Wait until its files reach the hub's heads."""

    def met() -> bool:
        found = {report.id: report.next_sequence_number for report in host.report().partitions}
        return found == {partition: head + 1 for partition, head in one.heads().items()}

    wait_until(met, f"{host.name} caught up, see {host.log_file}")


def etags(one: Consumer, container: str) -> dict[str, str]:
    """All blobs of a container."""
    with one.container(container) as client:
        return {blob.name: blob.etag for blob in client.list_blobs()}


def record(one: Consumer, container: str, name: str) -> bytes:
    with one.container(container) as client:
        return client.download_blob(name).readall()


def test_leases_of_another_consumer_are_not_touched(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=4)
    orders.config["leases"] = in_container(orders, prefix="")  # somebody chose the path that old libraries use
    billing = billing_of(orders, consumer, prefix="")
    orders.publish(1000)
    billing.publish(500)
    first = orders.host("orders-host-0")
    caught_up(orders, first)
    assert first.terminate() == 0
    before = etags(orders, orders.leases)
    problem = billing.host("billing-host-0").problem("CheckpointStoreInUse")
    assert problem.field == "spec.checkpointStore.prefix"
    assert "shop/orders" in problem.message and "remove spec.checkpointStore.prefix" in problem.message
    assert etags(orders, orders.leases) == before


def test_a_rival_with_leases_of_its_own_is_named_by_its_pod(consumer: MakeConsumer) -> None:
    """Two EventConsumers of different Kubernetes namespaces read one hub in one consumer group."""
    orders = consumer(partitions=1)
    rival = consumer(partitions=1, hub="other")
    rival.hub_secret.write_text(orders.emulator.connection_string(orders.hub))
    rival.config |= {"resource": {"namespace": "dev", "name": "billing", "uid": "uid-9"}}
    rival.config["sink"] |= {"prefix": "dev/billing"}
    first, second = orders.host("orders-host-0"), rival.host("billing-host-0")
    by_name = {host.name: host.problem("Fenced") for host in (first, second)}
    for host, other in ((first, second), (second, first)):
        problem = by_name[host.name]
        assert problem.field == "spec.eventHub.consumerGroup"
        assert f"another reader of consumer group $Default (name: {other.name}) takes" in problem.message
    assert {link["name"] for link in orders.emulator.admin.links(kind="reader")} <= {first.name, second.name}


@pytest.mark.parametrize(
    ("number", "held", "why"),
    [
        pytest.param(12_000, False, "sequence number 12000", id="beyond", marks=pytest.mark.long),
        pytest.param(5, False, "offset 999", id="another event"),
        pytest.param(5, True, "orders-host-0.0000 holds", id="held", marks=pytest.mark.long),
    ],
)
def test_leases_without_a_record_that_do_not_fit_the_hub_are_not_touched(
    consumer: MakeConsumer, number: int, held: bool, why: str
) -> None:
    """An older version, or another program, made them for another hub."""
    orders = consumer(partitions=4)
    billing = billing_of(orders, consumer, prefix="")
    for partition in range(4):
        billing.publish(100, str(partition))
    with orders.container(orders.leases) as client:
        client.create_container()
        for partition in range(4):
            body = {
                "Offset": "999",
                "SequenceNumber": number,
                "PartitionId": str(partition),
                "Owner": "orders-host-0.0000",
                "Token": "00000000-0000-4000-8000-000000000000",
                "Epoch": 7,
            }
            blob = client.upload_blob(f"$Default/{partition}", json.dumps(body))
            if held:
                BlobLeaseClient(blob, body["Token"]).acquire(60)
    before = etags(orders, orders.leases)
    problem = billing.host("billing-host-0").problem("CheckpointStoreInUse")
    assert why in problem.message
    assert etags(orders, orders.leases) == before


def test_a_consumer_group_in_another_case_is_the_same_group(consumer: MakeConsumer) -> None:
    """Event Hubs takes `$default` for `$Default`: one of two readers would lose its links again and again."""
    orders = consumer(partitions=1)
    billing = billing_of(orders, consumer, prefix=orders.config["leases"]["location"]["prefix"])
    billing.hub, billing.config["eventHub"] = orders.hub, orders.config["eventHub"] | {"consumerGroup": "$default"}
    orders.publish(10)
    first = orders.host("orders-host-0")
    caught_up(orders, first)
    problem = billing.host("billing-host-0").problem("CheckpointStoreInUse")
    assert "belong to EventConsumer shop/orders" in problem.message and "group $Default" in problem.message
    with orders.container(orders.leases) as client:
        assert {blob.name for blob in client.list_blobs()} == {"$Default/0", "$default~identity.json"}
        client.delete_blob("$default~identity.json")  # only leases, as of an EventProcessorHost
    problem = billing.host("billing-host-1").problem("CheckpointStoreInUse")
    assert problem.field == "spec.eventHub.consumerGroup"
    assert "at $Default/, and $default would begin anew at $default/" in problem.message


@pytest.mark.parametrize(
    "dialect",
    ["net-standard", "net-framework-old", "net-standard-upgraded", pytest.param("python-1", marks=pytest.mark.long)],
)
def test_leases_of_an_old_library_that_fit_the_hub_are_adopted(consumer: MakeConsumer, dialect: str) -> None:
    """Where the lease has no sequence number, the host finds it by the offset."""
    orders = consumer(partitions=1)
    orders.config["leases"] = in_container(orders, prefix="")
    orders.publish(100, "0")
    offset = orders.last_offset("0")
    orders.publish(200, "0", start=100)
    with orders.container(orders.leases) as client:
        client.create_container()
        client.upload_blob("$Default/0", document(dialect, "0", offset, 99))
    host = orders.host()
    caught_up(orders, host)
    assert host.report().partitions[0].events == 200  # from behind the checkpoint on
    found = LeaseRecord.model_validate_json(record(orders, orders.leases, lease_record_name("$Default", "$Default")))
    assert (found.hub, found.resource) == ("orders", "shop/orders")
    assert host.terminate() == 0
    with orders.container(orders.drained) as container:
        drained = read_drained(container, "shop/orders")
    assert drained.rows["0"] == list(range(100, 300)) and not drained.gaps
