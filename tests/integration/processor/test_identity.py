"""To whom leases and files belong: two hubs in one storage account, leases of others, and a resource applied again."""

import json
from typing import Any

import pytest
from azure.storage.blob import BlobLeaseClient

from eventconsumer_api.batch import BatchManifest
from eventconsumer_api.identity import ChainRecord, LeaseRecord, chain_name, consumer_of, lease_record_name
from tests.integration.processor.conftest import MakeConsumer
from tests.integration.processor.drained import assert_exactly_once, read_drained
from tests.integration.processor.hosts import Consumer, HostProcess
from tests.support.audited import assert_clean
from tests.support.waiting import wait_until

MOVED = {"namespace": "market", "name": "orders", "uid": "uid-3"}
APPLIED_AGAIN = {"namespace": "shop", "name": "orders", "uid": "uid-2"}


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


def test_two_hubs_with_one_lease_container_are_both_drained(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=4)
    orders.config["leases"] = in_container(orders)
    billing = billing_of(orders, consumer)
    orders.publish(4000)
    first = orders.host("orders-host-0")
    caught_up(orders, first)
    billing.publish(3000)
    second = billing.host("billing-host-0")
    caught_up(billing, second)
    orders.publish(100, start=4000)
    caught_up(orders, first)
    with orders.container(orders.drained) as container:
        assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), 4100)
        assert_exactly_once(read_drained(container, "shop/billing"), billing.heads(), 3000)
    assert not first.report().problems and not second.report().problems
    owners = {
        consumer_of(json.loads(record(one, one.leases, name))["Owner"])
        for one in (orders, billing)
        for name in etags(one, one.leases)
        if not name.endswith("~identity.json")
    }
    assert owners == {"shop/orders", "shop/billing"}


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
    problem = billing.host("billing-host-0").problem("LeaseStoreInUse")
    assert problem.field == "spec.leaseStore.prefix"
    assert "shop/orders" in problem.message and "remove spec.leaseStore.prefix" in problem.message
    assert etags(orders, orders.leases) == before


@pytest.mark.parametrize(
    ("number", "held", "why"),
    [(12_000, False, "sequence number 12000"), (5, False, "offset 999"), (5, True, "orders-host-0.0000 holds")],
    ids=["beyond", "another event", "held"],
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
    problem = billing.host("billing-host-0").problem("LeaseStoreInUse")
    assert why in problem.message
    assert etags(orders, orders.leases) == before


def test_leases_of_an_old_library_that_fit_the_hub_are_adopted(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=1)
    orders.config["leases"] = in_container(orders, prefix="")
    orders.publish(100, "0")
    offset = orders.last_offset("0")
    orders.publish(200, "0", start=100)
    with orders.container(orders.leases) as client:
        client.create_container()
        body = {"Offset": offset, "SequenceNumber": 99, "PartitionId": "0", "Owner": "", "Token": "", "Epoch": 3}
        client.upload_blob("$Default/0", json.dumps(body))
    host = orders.host()
    caught_up(orders, host)
    assert host.report().partitions[0].events == 200  # from behind the checkpoint on
    found = LeaseRecord.model_validate_json(record(orders, orders.leases, lease_record_name("$Default")))
    assert (found.hub, found.resource) == ("orders", "shop/orders")


@pytest.mark.parametrize("resource", [APPLIED_AGAIN, MOVED], ids=["applied again", "another namespace"])
def test_a_resource_that_is_applied_again_goes_on_with_its_chain_and_its_open_batch(
    consumer: MakeConsumer, resource: dict[str, str]
) -> None:
    orders = consumer(partitions=2, batches={"trigger": {"files": 2, "ageSeconds": 10}})
    orders.config["leases"] = in_container(orders)
    orders.publish(400)
    first = orders.host("orders-host-0")
    caught_up(orders, first)
    wait_until(lambda: "shop/orders/_batches/0000000001.json" in etags(orders, orders.drained), "a batch is frozen")
    frozen = record(orders, orders.drained, "shop/orders/_batches/0000000001.json")
    chain = ChainRecord.model_validate_json(record(orders, orders.drained, chain_name("shop/orders")))
    assert first.terminate() == 0
    orders.publish(200, start=400)
    second = orders.host("orders-host-0", resource=resource)
    caught_up(orders, second)
    now = ChainRecord.model_validate_json(record(orders, orders.drained, chain_name("shop/orders")))
    assert (now.chain, now.resource.uid) == (chain.chain, resource["uid"])
    wait_until(lambda: second.report().fleet is not None, "it leads")
    fleet = second.report().fleet
    assert fleet is not None and fleet.open_batch is not None and fleet.open_batch.number == 1
    assert fleet.chain == chain.chain == BatchManifest.model_validate_json(frozen).chain
    assert record(orders, orders.drained, "shop/orders/_batches/0000000001.json") == frozen
    with orders.container(orders.drained) as container:
        assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), 600)
    second.terminate()
    assert_clean(orders.azurite, orders.drained, "shop/orders")


def test_a_second_resource_on_a_chain_is_refused_while_the_first_one_lives(consumer: MakeConsumer) -> None:
    orders = consumer(partitions=2)
    orders.config["leases"] = in_container(orders)
    orders.publish(200)
    first = orders.host("orders-host-0")
    caught_up(orders, first)
    second = orders.host("other-host-0", resource=MOVED)
    problem = second.problem("ChainInUse")
    assert problem.field == "spec.sink.prefix"
    assert "shop/orders" in problem.message and "market/orders" in problem.message
    orders.publish(100, start=200)
    caught_up(orders, first)
    assert not second.owned() and not first.report().problems
    assert first.terminate() == 0
    orders.publish(100, start=300)
    caught_up(orders, second)
    with orders.container(orders.drained) as container:
        assert_exactly_once(read_drained(container, "shop/orders"), orders.heads(), 400)
    back = orders.host("orders-host-0")
    assert "market/orders" in back.problem("ChainInUse").message
