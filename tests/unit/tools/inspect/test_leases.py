"""Leases as the tools show them: blobs of this project and of other libraries, in both layouts."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_api.wire.identity import LeaseRecord
from eventconsumer_host.errors import LeasesAmbiguous
from eventconsumer_host.lease.azuresdk import Names
from eventconsumer_host.lease.azuresdk_store import FOREIGN_SECONDS
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_tools.inspect.leases import LeaseState, LeaseView, read_leases
from tests.support.fakes.blobs import EPOCH, FakeBlobStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEGACY, SDK = LeaseLayout.EVENT_PROCESSOR_HOST, LeaseLayout.AZURE_SDK
NAMES = Names("old/", "Shop.example:5671", "Orders", "$Default")
FOLDER = "old/shop.example/orders/$default/"


@pytest.fixture
def blobs() -> FakeBlobStore:
    """An empty container."""
    return FakeBlobStore(lambda: 0.0)


async def legacy(blobs: FakeBlobStore, body: object) -> LeaseView:
    """The lease of partition 0 with this body."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    await blobs.put("old/$Default/0", data)
    return (await read_leases(blobs, LEGACY, NAMES))["0"]


async def sdk(blobs: FakeBlobStore, **written: Mapping[str, str]) -> LeaseView:
    """The lease of partition 0 with these blobs."""
    for kind, metadata in written.items():
        await blobs.put(f"{FOLDER}{kind}/0", b"", metadata=metadata)
    return (await read_leases(blobs, SDK, NAMES))["0"]


def owned(seconds: int | None = None, age: float = 0) -> LeaseView:
    """A lease with an owner that wrote some seconds ago."""
    return LeaseView(Lease("0", "a"), modified=NOW - timedelta(seconds=age), seconds=seconds)


@pytest.mark.parametrize(
    ("lease", "state"),
    [
        (LeaseView(Lease("0", leased=True)), LeaseState.HELD),
        (LeaseView(Lease("0", "a")), LeaseState.EXPIRED),
        (owned(), LeaseState.EXPIRED),
        (LeaseView(Lease("0")), LeaseState.FREE),
        (LeaseView(Lease("0"), seconds=15, modified=NOW), LeaseState.FREE),
        (LeaseView(Lease("0"), damage="x"), LeaseState.UNKNOWN),
        (LeaseView(Lease("0", leased=True), damage="x"), LeaseState.HELD),
        (owned(15, 14), LeaseState.HELD),
        (owned(15, 16), LeaseState.EXPIRED),
        (owned(FOREIGN_SECONDS, 100), LeaseState.HELD),
        (owned(FOREIGN_SECONDS, 130), LeaseState.EXPIRED),
    ],
)
def test_who_owns_a_lease(lease: LeaseView, state: LeaseState) -> None:
    assert lease.state(NOW) is state


BODY = {"PartitionId": "0", "Owner": "a", "Token": "t", "Epoch": 3, "Offset": "70", "SequenceNumber": 7}


async def test_a_lease_of_eventprocessorhost(blobs: FakeBlobStore) -> None:
    await blobs.put("old/$Default/folder", b"", metadata={"hdi_isfolder": "true"})
    await blobs.put("old/$Default/0/deeper", b"")
    await blobs.put("old/$Default~identity.json", b"")
    found = await legacy(blobs, BODY)
    assert found.lease == Lease("0", "a", "t", 3, Checkpoint("70", 7), found.lease.etag)
    assert (found.blob, found.epoch, found.number, found.offset) == ("old/$Default/0", 3, 7, "70")
    assert (found.damage, found.modified, found.seconds) == ("", EPOCH, None)
    assert found.position is not None and found.position.offset == "70"
    assert list(await read_leases(blobs, LEGACY, NAMES)) == ["0"]
    await blobs.acquire_lease("old/$Default/0", "11111111-1111-1111-1111-111111111111", 15)
    assert (await read_leases(blobs, LEGACY, NAMES))["0"].lease.leased


@pytest.mark.parametrize(
    ("changes", "number", "offset"),
    [
        ({"Offset": None}, None, ""),
        ({"Offset": ""}, None, ""),
        ({"Offset": "-1"}, None, "-1"),
        ({"SequenceNumber": 0}, 0, "70"),
        ({"SequenceNumber": -5}, None, "70"),
    ],
)
async def test_a_lease_may_have_no_sequence_number(
    blobs: FakeBlobStore, changes: dict[str, object], number: int | None, offset: str
) -> None:
    found = await legacy(blobs, BODY | changes)
    assert (found.number, found.offset, found.position is None) == (number, offset, number is None)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", {}, BODY | {"PartitionId": "1"}, BODY | {"Epoch": "x"}])
async def test_a_damaged_lease_is_shown_with_the_reason(blobs: FakeBlobStore, body: object) -> None:
    found = await legacy(blobs, body)
    assert found.damage.startswith("it")
    assert found.lease.checkpoint is found.epoch is found.position is None
    assert found.state(NOW) is LeaseState.UNKNOWN
    assert found.lease.etag and found.modified


OURS = {"ownerid": "a", "epoch": "3", "token": "t", "seconds": "15"}
REACHED = {"offset": "70", "sequencenumber": "7"}


async def test_a_lease_of_an_sdk(blobs: FakeBlobStore) -> None:
    found = await sdk(blobs, checkpoint=REACHED, ownership=OURS)
    assert found.lease == Lease("0", "a", "", 3, Checkpoint("70", 7), found.lease.etag)
    assert (found.blob, found.epoch, found.seconds, found.modified) == (f"{FOLDER}checkpoint/0", 3, 15, EPOCH)
    foreign = await sdk(blobs, ownership={"ownerid": "b"})
    assert (foreign.lease.owner, foreign.epoch, foreign.seconds) == ("b", None, FOREIGN_SECONDS)
    forever = await sdk(blobs, ownership=OURS | {"seconds": "100000"})
    assert forever.seconds == FOREIGN_SECONDS


async def test_a_lease_of_an_sdk_can_be_one_blob(blobs: FakeBlobStore) -> None:
    alone = await sdk(blobs, ownership=OURS)
    assert (alone.blob, alone.number) == (f"{FOLDER}ownership/0", None)
    await blobs.put(f"{FOLDER}checkpoint/1", b"", metadata=REACHED)
    other = (await read_leases(blobs, SDK, NAMES))["1"]
    assert (other.number, other.lease.owner, other.modified, other.lease.etag) == (7, "", None, "")


@pytest.mark.parametrize(
    ("metadata", "number", "offset"),
    [
        ({"offset": "70", "sequencenumber": ""}, None, "70"),
        ({"offset": "70"}, None, "70"),
        ({"offset": "70", "sequencenumber": "-9223372036854775808"}, None, "70"),
        ({"offset": "no offset"}, None, ""),
        ({"offset": "no offset", "sequencenumber": "7"}, 7, ""),
        ({"Offset": "70", "SequenceNumber": "7"}, 7, "70"),
        ({}, None, ""),
    ],
)
async def test_a_checkpoint_of_an_sdk_may_lack_a_part(
    blobs: FakeBlobStore, metadata: dict[str, str], number: int | None, offset: str
) -> None:
    found = await sdk(blobs, checkpoint=metadata)
    assert (found.number, found.offset, found.damage) == (number, offset, "")


async def test_a_checkpoint_of_an_sdk_that_is_no_number_is_damage(blobs: FakeBlobStore) -> None:
    found = await sdk(blobs, checkpoint={"offset": "70", "sequencenumber": "seven"}, ownership=OURS)
    assert found.damage and found.lease.owner == "a"


@pytest.mark.parametrize("folder", ["Shop.example/Orders/$Default", "shop.example:5671/orders/$default"])
async def test_names_of_sdks_differ_in_case_and_port(blobs: FakeBlobStore, folder: str) -> None:
    await blobs.put("old/shop.example/orders/b/checkpoint/2", b"", metadata=REACHED)
    await blobs.put(f"old/{folder}/checkpoint/0", b"", metadata=REACHED)
    (found,) = (await read_leases(blobs, SDK, NAMES)).values()
    assert (found.number, found.blob) == (7, f"old/{folder}/checkpoint/0")
    await blobs.put(f"{FOLDER}checkpoint/0", b"", metadata={"offset": "90", "sequencenumber": "9"})
    with pytest.raises(LeasesAmbiguous, match=re.escape(folder)):
        await read_leases(blobs, SDK, NAMES)


@pytest.mark.parametrize("theirs", [10, 30])
async def test_an_owner_under_another_spelling_counts(theirs: float) -> None:
    now = 0.0
    blobs = FakeBlobStore(lambda: now)
    texts = dict.fromkeys(("namespace", "hub", "consumer_group", "chain", "sink", "resource"), "x")
    record = LeaseRecord(**texts, since=NOW).model_dump_json(by_alias=True).encode()
    await blobs.put("old/shop.example:5671/orders/$default~identity.json", record)
    for folder, owner, written in (
        ("shop.example:5671/orders/$default", OURS, 20),
        ("Shop.example/Orders/$Default", {"ownerid": "go-1"}, theirs),
    ):
        now = written
        await blobs.put(f"old/{folder}/ownership/0", b"", metadata=owner)
        await blobs.put(f"old/{folder}/checkpoint/0", b"", metadata={"offset": "1", "sequencenumber": str(written)})
    (found,) = (await read_leases(blobs, SDK, NAMES)).values()
    assert found.lease.owner == ("go-1" if theirs > 20 else "a")
    assert found.number == 20  # hosts continue from their own


@pytest.mark.parametrize("layout", [LEGACY, SDK])
async def test_no_container_has_no_leases(blobs: FakeBlobStore, layout: LeaseLayout) -> None:
    blobs.delete_container()
    assert await read_leases(blobs, layout, replace(NAMES, prefix="")) == {}
