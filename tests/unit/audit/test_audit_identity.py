"""The auditor proves that all parts of a consumer belong to one chain, and names others that share a part."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_audit.codes import MEANINGS, SELF, Code, Level
from eventconsumer_audit.container import RECORD_MAX_BYTES, StoreContainer
from eventconsumer_audit.leases import LeaseFacts, ownership
from eventconsumer_audit.owners import LeaseReader, LeaseSubject
from eventconsumer_audit.read import Subject, audit
from tests.support.fakes.blobs import Fault
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import (
    CHAIN,
    CHAIN_RECORD,
    CREATED,
    LEASE_RECORD,
    RESOURCE,
    WHOSE,
    AuditedWorld,
    Change,
    commit,
    delete,
    edit,
    fake,
    file,
    lease,
    manifest,
    sample,
    table,
)

OTHER = "0123456789abcdef"
BILLING = {"namespace": "shop", "name": "billing", "uid": "b"}
LEASES, OUTPUT = "$default~identity.json", "orders/_eventconsumer.json"


def chain(name: str = "p/_chain.json", **changes: object) -> Change:
    """A record of a chain."""
    return lambda world: world.files.put(name, json.dumps(CHAIN_RECORD | changes).encode())


def leases(**changes: object) -> Change:
    """The record of the leases."""
    return lambda world: world.leases.put(LEASES, json.dumps(LEASE_RECORD | changes).encode())


def output(**changes: object) -> Change:
    """The record of the output."""
    return lambda world: world.results.put(OUTPUT, json.dumps(WHOSE | changes).encode())


def claim(number: int, /, **changes: object) -> Change:
    """Change the claim of a batch."""
    return edit(f"_attempts/{number:010d}.json", **changes)


def held_by(owner: str) -> Change:
    """This owner holds the lease of partition 0."""
    return lease(39, epoch=2, owner=owner, held=True)


VIOLATIONS: list[tuple[str, Change, Code, str]] = [
    ("no record", delete("_chain.json"), Code.CHAIN_RECORD_MISSING, "p/_chain.json"),
    ("a damaged record", chain(chain="x"), Code.CHAIN_RECORD_DAMAGED, "cannot be read"),
    ("the chain is another consumer's", chain(resource=BILLING), Code.CHAIN_IN_USE, "EventConsumer shop/billing"),
    ("a manifest of another chain", manifest(2, chain=OTHER), Code.CHAIN_DIFFERS, f"names chain {OTHER}"),
    ("a manifest of no chain", manifest(2, chain=""), Code.CHAIN_DIFFERS, "manifest of batch 2 names no chain"),
    ("a claim of another chain", claim(2, chain=OTHER), Code.CHAIN_DIFFERS, "the claim of batch 2 names"),
    ("a commit of another chain", commit(1, chain=OTHER), Code.CHAIN_DIFFERS, "the commit record of batch 1"),
    ("a file of another chain", file(40, [40], chain=OTHER), Code.CHAIN_DIFFERS, f"{OTHER}, but the record names"),
    ("a file of no chain", file(40, [40], chain=""), Code.CHAIN_DIFFERS, "the file names no chain"),
    ("leases without a record", delete(LEASES, "leases"), Code.LEASE_RECORD_MISSING, LEASES),
    ("leases with a damaged record", leases(hub=7), Code.LEASE_RECORD_DAMAGED, "cannot be read"),
    ("leases of another hub", leases(hub="billing", resource="b/b"), Code.CHECKPOINT_STORE_IN_USE, "b/b"),
    ("leases of another namespace", leases(namespace="x.example"), Code.CHECKPOINT_STORE_IN_USE, "x.example/orders"),
    ("leases of another group", leases(consumerGroup="other"), Code.CHECKPOINT_STORE_IN_USE, "consumer group other"),
    ("leases of another chain", leases(chain=OTHER), Code.CHECKPOINT_STORE_IN_USE, f"{OTHER} (this consumer: {CHAIN})"),
    (
        "another consumer's host holds a lease",
        held_by("shop/billing/billing-host-0.77"),
        Code.LEASE_OWNER_FOREIGN,
        "billing-host-0.77 of EventConsumer shop/billing holds the lease",
    ),
    ("another program holds a lease", held_by("worker-7"), Code.LEASE_OWNER_FOREIGN, "another program (worker-7)"),
    ("another chain's output", output(chain=OTHER, resource="shop/billing"), Code.OUTPUT_IN_USE, "shop/billing"),
]


@pytest.mark.parametrize(("change", "code", "said"), table(VIOLATIONS))
@virtual
async def test_two_consumers_that_share_something_are_a_violation(change: Change, code: Code, said: str) -> None:
    world = await sample()
    await change(world)
    report = await world.audit()
    assert (report.exit_code, list(report.counts)) == (2, [code]), report.findings
    (found,) = report.findings
    assert (found.level, found.invariant) == (Level.VIOLATION, "S9")
    assert said in f"{found.message} {found.blob}"
    assert MEANINGS[code].remedy.replace(SELF, "orders -n shop") in report.summary


ALLOWED: list[tuple[str, Change, Code | None, int]] = [
    ("a chain in a folder of this one", chain("p/eu/orders/_chain.json", resource=BILLING), Code.PREFIX_NESTED, 1),
    ("a replay of this chain", chain("p/_replays/one/_chain.json", chain=OTHER), None, 0),
    ("the resource was applied again", chain(resource=RESOURCE | {"uid": "new"}), Code.RESOURCE_RENEWED, 0),
    ("the last owner was another's", lease(39, epoch=2, owner="x/y/z.1"), None, 0),
    ("an empty folder of leases", delete("$Default/0", "leases"), Code.LEASE_MISSING, 0),
    ("a claim of a user's program", claim(2, chain=""), None, 0),
    ("a commit of a user's program", commit(1, chain=""), None, 0),
    ("a folder of each batch", commit(1, output="abfs://r@shop.x/orders/_batch=1"), None, 0),
    ("a folder of another name", commit(1, output="abfs://r@shop.x/orders/batch=1"), Code.OUTPUT_MIXED, 1),
    ("an output in another account", commit(1, output="abfs://r@other.x/orders"), Code.OUTPUT_UNREAD, 0),
    ("an output without a path", commit(1, output="/tmp/out"), Code.OUTPUT_UNREAD, 0),
    ("an output without a record", delete(OUTPUT, "results"), Code.OUTPUT_UNREAD, 0),
    ("an output with a damaged record", output(chain=7), Code.OUTPUT_UNREAD, 0),
]


@pytest.mark.parametrize(("change", "code", "exit_code"), table(ALLOWED))
@virtual
async def test_changes_that_break_no_chain_are_no_violation(change: Change, code: Code | None, exit_code: int) -> None:
    world = await sample()
    await change(world)
    report = await world.audit()
    assert report.exit_code == exit_code, report.findings
    assert {each for each in report.counts if each != "ForeignNames"} == ({code} if code else set())


@virtual
async def test_the_report_names_the_chain_and_its_resource() -> None:
    report = await (await sample()).audit()
    assert (report.chain, report.resource) == (CHAIN, "shop/orders")


@virtual
async def test_a_prefix_inside_that_of_another_chain_is_named() -> None:
    world = await sample()
    blobs = fake(world.files).blobs
    for name in list(blobs):
        blobs[name.replace("p/", "eu/shop/", 1)] = blobs.pop(name)
    container = StoreContainer(world.files)
    assert "PrefixNested" not in (await audit(Subject(container, "eu/shop"))).counts
    await chain("eu/_chain.json", resource=BILLING)(world)
    report = await audit(Subject(container, "eu/shop"))
    (found,) = [each for each in report.findings if each.code == Code.PREFIX_NESTED]
    assert found.message == "the sink prefix eu/shop is inside the sink prefix eu: two chains share a folder"
    await chain("eu/shop/_replays/one/_chain.json")(world)
    replay = await audit(Subject(container, "eu/shop/_replays/one"))
    assert [each.message for each in replay.findings if each.code == Code.PREFIX_NESTED] == [
        "the sink prefix eu/shop/_replays/one is inside the sink prefix eu: two chains share a folder"
    ]


@virtual
async def test_a_chain_that_is_taken_over_while_the_audit_runs_is_no_damage() -> None:
    world = await sample()
    await held_by("shop/billing/billing-host-0.77")(world)

    class TakenOver(StoreContainer):
        async def read(self, name: str, limit: int = RECORD_MAX_BYTES) -> bytes | None:
            data = await super().read(name, limit)
            if name == "p/_chain.json":
                await chain(resource=BILLING)(world)
            return data

    subject = LeaseSubject(StoreContainer(world.leases), "", "$Default")
    report = await audit(Subject(TakenOver(world.files), "p", subject))
    assert report.exit_code == 0, report.findings


@virtual
async def test_programs_that_share_leases_hold_some() -> None:
    world = await sample()
    await held_by("worker-7")(world)
    report = await world.audit(shared=True)
    assert report.exit_code == 0, report.findings


@virtual
async def test_an_output_that_cannot_be_read_is_only_noted() -> None:
    world = await sample()
    fake(world.results).faults.append(Fault("read"))
    report = await world.audit()
    assert (report.exit_code, report.counts) == (0, {"OutputUnread": 1})


@virtual
async def test_a_wrong_prefix_is_unreadable_and_not_a_violation() -> None:
    world = await sample()
    report = await audit(Subject(StoreContainer(world.files), "elsewhere", resource=ResourceRef(**RESOURCE)))
    assert report.exit_code == 3


@pytest.mark.parametrize(
    ("age", "seconds", "held"), [(14, 15, True), (16, 15, False), (119, None, True), (121, None, False)]
)
def test_an_ownership_of_the_sdk_layout_is_held_for_a_while(age: int, seconds: int | None, held: bool) -> None:
    reader = LeaseReader(
        LeaseSubject(StoreContainer(AuditedWorld().leases), None, "$Default", LeaseLayout.AZURE_SDK), "n", "h"
    )
    lease = replace(LeaseFacts("0", "b"), owner="o", modified=CREATED, seconds=seconds)
    assert reader.is_held(lease, CREATED + timedelta(seconds=age)) is held


@pytest.mark.parametrize("seconds", ["9" * 5000, "", "-1", "1e3"])
def test_a_time_of_an_ownership_that_is_no_number_is_unknown(seconds: str) -> None:
    found = ownership(LeaseFacts("0", "b"), {"ownerid": "o", "epoch": "1", "seconds": seconds}, etag="")
    assert (found.epoch, found.seconds) == (1, None)
