"""The layout of Event Hubs Capture: names by time, commit records, orphans and empty files."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.identity.segments import name_of
from eventconsumer_host.sink.capture import CaptureChain, namespace_name
from eventconsumer_host.sink.chains import chains_of
from eventconsumer_host.sink.content import Content
from eventconsumer_storage.errors import Conflict, Damaged, Unavailable
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.unit.host.chains import HUB, NOON, Seconds, chain, draft
from tests.unit.host.stage import CONFIG

RECORD = "p/segment=era/partition=0/from=00000000000000000005.json"
FIRST = "p/shop/orders/0/2026/11/21/12/00/00.avro"
EVENTS = (b"eve", b"nts")  # goes up in blocks
SECOND = "p/shop/orders/0/2026/11/21/12/00/01.avro"


def store() -> FakeBlobStore:
    """A container whose clock stands."""
    return FakeBlobStore(lambda: 0.0)


async def test_a_file_is_named_by_time_and_its_slot_holds_a_record_of_it() -> None:
    blobs = store()
    files = chain("Capture", blobs)
    await files.put(draft(5, 8), b"events")
    assert sorted(blobs.blobs) == [RECORD, FIRST]
    slot = await files.at(5)
    assert slot is not None
    assert (slot.path, slot.size, slot.etag) == (FIRST, 6, blobs.blobs[FIRST].etag)
    record = blobs.blobs[RECORD]
    facts = draft(5, 8).metadata() | {"sha256": Content.of(b"events").sha256}
    assert record.metadata == facts | {"path": FIRST, "size": "6", "etag": slot.etag}
    assert json.loads(record.data) == {"from": 5, **record.metadata}
    assert blobs.blobs[FIRST].metadata == facts


@pytest.mark.parametrize(
    ("time", "name"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026/01/02/03/04/05.avro"),
        (datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=2))), "2025/12/31/22/30/00.avro"),
    ],
)
def test_names_are_padded_and_in_utc(time: datetime, name: str) -> None:
    assert CaptureChain(store(), "p", "era", "17", HUB).data_path(time) == f"p/shop/orders/17/{name}"


def test_the_folder_is_named_by_the_record_of_the_segment_whatever_the_configuration() -> None:
    config = HostConfig.model_validate(CONFIG | {"files": {"layout": "Capture", "format": "Avro"}})
    segment = SegmentRecord(number=1, segment_id="0" * 16, hub=name_of(HUB), since=NOON)
    files = chains_of(config, replace(HUB, name="ORDERS"), segment, store())("0")
    assert isinstance(files, CaptureChain) and files.data_path(NOON).startswith("p/shop/orders/0/")


@pytest.mark.parametrize(
    ("host", "name"),
    [("shop.servicebus.windows.net", "shop"), ("localhost", "localhost"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1")],
)
def test_a_namespace_is_named_by_its_first_label(host: str, name: str) -> None:
    assert namespace_name(host) == name


async def test_a_taken_second_means_the_next_one() -> None:
    blobs = store()
    files = chain("Capture", blobs)
    for start in (5, 9, 13):
        await files.put(draft(start, start + 3, nonce=str(start)), b"events of %d" % start)
    slots = await files.listed()
    assert [slot.path[-8:] for slot in slots] == ["/00.avro", "/01.avro", "/02.avro"]
    assert [blobs.blobs[slot.path].data for slot in slots] == [b"events of 5", b"events of 9", b"events of 13"]


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("operation", ["put_block", "put_block_list", "put"])  # of the data file, twice; the record
async def test_a_second_try_continues_with_its_own_data_file(operation: str, applied: bool) -> None:
    blobs = store()
    files = chain("Capture", blobs, Seconds())
    blobs.faults.append(Fault(operation, applied))
    with pytest.raises(Unavailable):
        await files.put(draft(5, 8), Content.of(*EVENTS))
    if operation == "put" and applied:
        with pytest.raises(Conflict):  # by itself
            await files.put(draft(5, 8), Content.of(*EVENTS))
    else:
        await files.put(draft(5, 8), Content.of(*EVENTS))
    assert sorted(blobs.blobs) == [RECORD, FIRST]
    slot = await files.at(5)
    assert slot is not None and (slot.nonce, slot.path, slot.etag) == ("mine", FIRST, blobs.blobs[FIRST].etag)


async def test_a_writer_that_finds_its_slot_taken_puts_nothing() -> None:
    blobs = store()
    await chain("Capture", blobs).put(draft(5, 8, nonce="theirs"), b"theirs")
    before = dict(blobs.blobs)
    with pytest.raises(Conflict):
        await chain("Capture", blobs, Seconds()).put(draft(5, 9), b"mine")
    assert dict(blobs.blobs) == before


async def loser(blobs: FakeBlobStore) -> CaptureChain:
    """A chain whose data file is there and whose record came too late."""
    mine = CaptureChain(blobs, "p", "era", "0", HUB, now=lambda: NOON)
    blobs.faults.append(Fault("put"))
    with pytest.raises(Unavailable):
        await mine.put(draft(5, 8), Content.of(*EVENTS))
    await chain("Capture", blobs).put(draft(5, 6, nonce="theirs"), b"theirs")
    assert sorted(blobs.blobs) == [RECORD, FIRST, SECOND]
    return mine


@pytest.mark.parametrize("case", ["its own", "of another draft", "of another writer", "storage fails"])
async def test_only_the_losers_own_data_file_is_removed(case: str) -> None:
    blobs = store()
    mine = await loser(blobs)
    if case == "of another writer":
        await blobs.put(FIRST, b"another writer's", metadata={"nonce": "other"})
    if case == "storage fails":
        blobs.faults.append(Fault("remove"))
    before = blobs.blobs[FIRST].data
    await mine.forsake(draft(5, 8, nonce="another" if case == "of another draft" else "mine"))
    kept = blobs.blobs.get(FIRST)
    assert (kept and kept.data) == (None if case == "its own" else before)
    assert [slot.path for slot in await chain("Capture", blobs).listed()] == [SECOND]


async def test_an_empty_file_has_508_bytes_and_no_record() -> None:
    blobs = store()
    files = chain("Capture", blobs)
    await files.put_empty()
    await files.put_empty()
    assert {name: (len(blob.data), blob.metadata) for name, blob in blobs.blobs.items()} == {
        FIRST: (508, {"empty": "true"})
    }
    assert await files.listed() == []
    await files.put(draft(5, 8), b"events")
    slot = await files.at(5)
    assert slot is not None and slot.path == SECOND


async def test_an_empty_file_replaces_nothing() -> None:
    blobs = store()
    files = chain("Capture", blobs)
    await files.put(draft(5, 8), b"events")
    await files.put_empty()
    assert blobs.blobs[FIRST].data == b"events"
    slots = store()
    await chain("SequenceNumber", slots).put_empty()
    assert not slots.blobs


async def test_a_record_that_names_no_file_is_damaged() -> None:
    blobs = store()
    files = chain("Capture", blobs)
    await files.put(draft(5, 8), b"events")
    del blobs.blobs[RECORD].metadata["etag"]
    with pytest.raises(Damaged, match="does not say which file"):
        await files.at(5)
