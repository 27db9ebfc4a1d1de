"""Chains and leases are claimed before any other write; storage holds the claims. In virtual time."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from eventconsumer_api.errors import Blocked
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import (
    ChainRecord,
    LeaseRecord,
    chain_name,
    consumer_of,
    lease_prefix,
    lease_record_name,
    output_record_name,
    owner_id,
    pod_of,
)
from eventconsumer_host import problems
from eventconsumer_host.errors import LeasesAmbiguous
from eventconsumer_host.identity.records import (
    LEAD_SECONDS,
    Leases,
    Times,
    claim_chain,
    claim_leases,
    is_displaced,
    misfit,
    restore_lease_record,
    take_lead,
)
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.lease.store import LeaseStore
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.errors import Conflict, Damaged, Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.hub import CREATED, FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.host.stage import CONFIG

ERA = "0123456789abcdef"
TIMES = Times(lambda: datetime(2026, 11, 23, tzinfo=UTC), virtual_clock)
SHOP, AGAIN, MARKET = (
    {"namespace": namespace, "name": "orders", "uid": uid}
    for namespace, uid in (("shop", "u"), ("shop", "u2"), ("market", "u3"))
)


@dataclass
class Account:
    """One storage account with a container for leases and one for files, and a hub."""

    hub: FakeHub = field(default_factory=lambda: FakeHub(2))
    leases: FakeBlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    sink: FakeBlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))

    def config(self, resource: dict[str, str] = SHOP, prefix: str | None = "", **changes: Any) -> HostConfig:
        leases = {**CONFIG["leases"], **changes.pop("leases", {})}
        leases["location"] = {**leases["location"], "prefix": prefix}
        return HostConfig.model_validate(CONFIG | {"resource": resource, "leases": leases} | changes)

    def store(self, config: HostConfig, hub: str = "orders") -> LeaseStore:
        return lease_store(config, self.info(hub), self.leases, virtual_clock)

    def info(self, hub: str = "orders") -> HubInfo:
        return HubInfo("shop.example", hub, CREATED, tuple(self.hub.partitions))

    async def chain(self, resource: dict[str, str] = SHOP) -> str:
        config = self.config(resource)
        return await claim_chain(config, ERA, self.store(config), self.sink, TIMES)

    async def claim(self, config: HostConfig, chain: str, hub: str = "orders") -> None:
        held = Leases(self.store(config, hub), self.leases)
        await claim_leases(config, self.hub, self.info(hub), chain=chain, leases=held, sink=self.sink, times=TIMES)

    def names(self) -> dict[str, str]:
        return {name: blob.etag for name, blob in self.leases.blobs.items()}

    def resource(self) -> str:
        return ChainRecord.model_validate_json(self.sink.blobs[chain_name("p")].data).resource.uid


def test_names_of_owners_leases_and_outputs() -> None:
    owner = owner_id("shop/orders", "orders.v1-host-3", "0123-ab")
    assert (consumer_of(owner), pod_of(owner)) == ("shop/orders", "orders.v1-host-3")
    for other in ("", "an-sdk", "orders-host-0.u1", "a/b", "a/b/c", "a/b/c/d.e"):
        assert (consumer_of(other), pod_of(other)) == ("", other)
    legacy, modern = LeaseLayout.EVENT_PROCESSOR_HOST, LeaseLayout.AZURE_SDK
    assert lease_prefix(None, legacy, "shop.example", "Orders") == "shop.example/orders/"
    assert lease_prefix(None, legacy, "shop.example", "orders", "may") == "shop.example/orders/_replays/may/"
    assert (lease_prefix(None, modern, "shop.example", "orders"), lease_prefix("", legacy, "s", "o")) == ("", "")
    assert lease_record_name("A/$Default/", "$Default") == "A/$default~identity.json"
    assert lease_record_name("Team-Billing", "Billing") == "Team-billing~identity.json"
    assert output_record_name("/results/orders/") == "results/orders/_eventconsumer.json"
    assert output_record_name("") == "_eventconsumer.json"


@virtual
async def test_a_chain_keeps_its_identity_when_another_resource_asks_or_an_answer_is_lost() -> None:
    account = Account()
    account.sink.faults.append(Fault("put", applied=True))  # it has its effect, and no answer
    with pytest.raises(Unavailable):
        await account.chain()
    identity = await account.chain()
    assert len(identity) == 16
    account.sink.account = "restored-elsewhere"
    assert await account.chain(AGAIN) == await account.chain(MARKET) == identity
    assert account.resource() == "u3"


@virtual
async def test_another_resource_takes_a_chain_over_only_without_a_leader() -> None:
    account = Account()
    identity = await account.chain()
    await take_lead(account.sink, "p", "a" * 36, LEAD_SECONDS, virtual_clock)
    for resource, other in ((AGAIN, "was applied since"), (MARKET, "market/orders (uid u3) is blocked")):
        with pytest.raises(Blocked, match=other.replace("(", r"\(").replace(")", r"\)")) as raised:
            await account.chain(resource)
        assert raised.value.problem.reason == "ChainInUse"
        assert "shop/orders (uid u)" in raised.value.problem.message
    assert account.resource() == "u"
    await account.sink.release_lease("p/_leader", "a" * 36)
    assert await account.chain(MARKET) == identity
    assert await is_displaced(account.sink, "p", account.config().resource)
    await take_lead(account.sink, "p", "b" * 36, LEAD_SECONDS, virtual_clock)  # it lets go of the lead
    with pytest.raises(Blocked, match="market/orders"):
        await account.chain()


@virtual
async def test_another_resource_waits_while_hosts_of_the_first_hold_leases() -> None:
    account = Account()
    await account.chain()
    store = account.store(account.config())
    lease = (await store.list(["0"])).leases["0"]
    taken = await store.acquire(lease, owner_id("shop/orders", "orders-host-0", "p"))
    assert taken is not None
    with pytest.raises(Blocked):
        await account.chain(MARKET)
    assert await account.chain(AGAIN)  # of the same name: its own hosts come back
    await store.release(taken.lease)
    assert await account.chain(MARKET)


@virtual
async def test_an_unreadable_record_is_an_error_with_its_name() -> None:
    account = Account()
    await account.sink.put(chain_name("p"), b"{}")
    with pytest.raises(Damaged, match=r"cannot parse the record p/_chain\.json"):
        await account.chain()


@virtual
@pytest.mark.parametrize("layout", ["EventProcessorHost", "AzureSdk"])
async def test_leases_belong_to_one_hub_and_one_chain(layout: str) -> None:
    account = Account()
    config = account.config(leases={"layout": layout, "shared": True})  # other programs may share; another hub never
    await account.claim(config, "c" * 16)
    await account.claim(config, "c" * 16)
    before = account.names()
    (name,) = before
    assert name.endswith("~identity.json")
    record = LeaseRecord.model_validate_json(account.leases.blobs[name].data)
    assert (record.hub, record.consumer_group, record.sink) == ("orders", "$Default", "account/drained/p")
    with pytest.raises(Blocked, match=r"drains into account/drained/p.*separate consumer group") as raised:
        await account.claim(config, "d" * 16)
    assert raised.value.problem.reason == "CheckpointStoreInUse"
    if layout == "EventProcessorHost":  # the other layout has the hub in its names whatever the prefix
        with pytest.raises(
            Blocked, match=r"this consumer drains Event Hub billing .* remove spec\.checkpointStore\.prefix"
        ):
            await account.claim(config, "c" * 16, "billing")
    assert account.names() == before
    for hub in ("orders", "billing"):
        await account.claim(account.config(prefix=None, leases={"layout": layout}), "c" * 16, hub)


@virtual
async def test_the_first_host_records_how_the_names_of_the_leases_are_spelled() -> None:
    account = Account()
    config, spelled = account.config(leases={"layout": "AzureSdk"}), "Shop.example/ORDERS/$Default"
    await account.leases.put(f"{spelled}/ownership/0", b"", metadata={"ownerid": ""})
    await account.claim(config, "c" * 16)
    await account.leases.put("shop.example/orders/$default/ownership/0", b"", metadata={"ownerid": ""})
    await account.claim(config, "c" * 16)
    assert await account.store(config).spelling() == spelled
    name = "shop.example/orders/$default~identity.json"
    record = json.loads(account.leases.blobs[name].data)
    assert record.pop("spelling") == spelled
    await account.leases.put(name, json.dumps(record).encode())  # of an older version: its leases are in lower case
    assert await account.store(config).spelling() == ""
    account.leases.delete(name)
    with pytest.raises(LeasesAmbiguous):
        await account.claim(config, "c" * 16)
    problem = problems.of(config, problems.SINK, LeasesAmbiguous(["a/B", "a/b"]))
    assert (problem.field, problem.reason) == ("spec.checkpointStore.container", "CheckpointStoreInUse")
    assert "container leases: leases of this consumer group exist in 2 folders" in problem.message
    assert "a/B and a/b" in problem.message


def in_group(account: Account, group: str, resource: dict[str, str] = SHOP) -> HostConfig:
    hub = {**CONFIG["eventHub"], "consumerGroup": group}
    return account.config(resource, eventHub=hub)


@virtual
async def test_a_consumer_group_in_another_case_is_the_same_group() -> None:
    account = Account()
    await account.leases.put("$Default/0", b"{}")  # of an EventProcessorHost
    with pytest.raises(Blocked, match=r"at \$Default/, and \$DEFAULT would restart at \$DEFAULT/") as raised:
        await account.claim(in_group(account, "$DEFAULT"), "c" * 16)
    problem = raised.value.problem
    assert (problem.field, problem.reason) == ("spec.eventHub.consumerGroup", "CheckpointStoreInUse")
    account.leases.delete("$Default/0")
    await account.claim(in_group(account, "$Default"), "c" * 16)
    with pytest.raises(Blocked, match=r"belong to EventConsumer shop/orders"):
        await account.claim(in_group(account, "$default", MARKET), "d" * 16)
    with pytest.raises(Blocked, match=r"consumerGroup: \$Default, to continue"):  # deleted, and created otherwise
        await account.claim(in_group(account, "$default", AGAIN), "c" * 16)
    await account.claim(in_group(account, "$Default", AGAIN), "c" * 16)
    await account.claim(in_group(account, "billing"), "c" * 16)
    await account.claim(account.config(AGAIN, leases={"layout": "AzureSdk"}), "c" * 16)
    assert {*account.names()} == {
        "$default~identity.json",
        "billing~identity.json",
        "shop.example/orders/$default~identity.json",
    }


@virtual
async def test_a_record_of_an_earlier_version_keeps_its_name_and_its_folder() -> None:
    account = Account()
    await account.claim(in_group(account, "$Default"), "c" * 16)
    record = account.leases.blobs.pop("$default~identity.json").data
    await account.leases.put("$Default~identity.json", record)
    await account.claim(in_group(account, "$Default"), "c" * 16)
    found = LeaseRecord.model_validate_json(record)
    await restore_lease_record(account.leases, "$Default/", found)
    assert {*account.names()} == {"$Default~identity.json"}
    with pytest.raises(Blocked, match=r"at \$Default/, and \$default would restart"):
        await account.claim(in_group(account, "$default", MARKET), "d" * 16)
    account.leases.delete("$Default~identity.json")
    await restore_lease_record(account.leases, "$Default/", found)
    assert {*account.names()} == {"$default~identity.json"}


FREE = Lease("0", checkpoint=Checkpoint("40", 4))


@virtual
@pytest.mark.parametrize(
    ("lease", "shared", "why"),
    [
        (FREE, False, ""),
        (replace(FREE, checkpoint=None), False, ""),
        (replace(FREE, checkpoint=Checkpoint("2079", 3)), False, "the hub's event with that number has offset 30"),
        (replace(FREE, checkpoint=Checkpoint("", 3)), False, ""),  # another library does not say
        (replace(FREE, checkpoint=Checkpoint("1:22:30", 3)), False, ""),  # of the time before or after geo-replication
        (replace(FREE, checkpoint=Checkpoint("30", -1)), False, ""),  # of a library that keeps only offsets
        (replace(FREE, checkpoint=Checkpoint("30", 0)), False, ""),  # of a library that read such a lease
        (replace(FREE, checkpoint=Checkpoint("35", 0)), False, "has offset '35' and no sequence number"),
        (
            replace(FREE, checkpoint=Checkpoint("35", -1), leased=True, owner="a"),
            True,
            "",
        ),  # a link would disconnect its reader
        (replace(FREE, checkpoint=Checkpoint("x", 5)), False, "is sequence number 5, but the hub's last event is 4"),
        (replace(FREE, partition="7"), False, "partition 7, but the hub does not have this partition"),
        (replace(FREE, leased=True, owner="laptop"), False, "laptop holds the lease of partition 0"),
        (replace(FREE, leased=True), False, "an unknown program holds"),
        (replace(FREE, leased=True, owner="laptop"), True, ""),
        (replace(FREE, leased=True, owner="shop/orders/orders-host-0.u"), False, ""),  # the container was deleted
        (replace(FREE, leased=True, owner="shop/billing/orders-host-0.u"), False, "shop/billing/orders-host-0.u holds"),
    ],
)
async def test_leases_without_a_record_are_adopted_where_they_fit(lease: Lease, shared: bool, why: str) -> None:
    account = Account()
    for _ in range(5):
        account.hub.partitions["0"].add(b"x")
    found = await misfit(account.config(leases={"shared": shared}), [lease], account.hub, account.info())
    assert why in found and bool(why) == bool(found)


@virtual
@pytest.mark.parametrize(
    ("layout", "owner", "opened"),
    [
        ("EventProcessorHost", "", True),
        ("EventProcessorHost", "laptop", True),  # its lease has run out
        ("AzureSdk", "", True),
        ("AzureSdk", "laptop", False),  # it may live
        ("AzureSdk", "shop/orders/orders-host-1.u", False),
    ],
)
async def test_no_link_is_opened_while_another_reader_is_possible(layout: str, owner: str, opened: bool) -> None:
    account = Account()
    for _ in range(5):
        account.hub.partitions["0"].add(b"x")
    config = account.config(leases={"layout": layout})
    assert not await misfit(config, [replace(FREE, owner=owner)], account.hub, account.info())
    assert (account.hub.partitions["0"].reader is not None) == opened


@virtual
async def test_two_hosts_that_claim_at_once_agree() -> None:
    account = Account()
    config = account.config()
    identity = await account.chain()

    class Slow(FakeBlobStore):
        """Another host is faster between the look and the put."""

        async def put(self, name: str, data: bytes, **options: Any) -> str:
            if options.get("if_absent") and name not in self.blobs:
                await FakeBlobStore.put(self, name, data)
            return await FakeBlobStore.put(self, name, data, **options)

    account.leases.__class__ = Slow
    await account.claim(config, identity)
    with pytest.raises(Conflict):
        await account.leases.put(lease_record_name("$Default", "$Default"), b"", if_absent=True)
