"""The slot chain in the layout SequenceNumber: names, facts, lookups and tombstones."""

import hashlib
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_host.prune import tombstones
from eventconsumer_host.sink import slots
from eventconsumer_host.sink.slots import Chain
from eventconsumer_storage.errors import Conflict, Damaged
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.unit.host.chains import LAYOUTS, NOON, chain, draft, tombstone

FOLDER = "p/segment=era/partition=0/from="
GENESIS = "p/_genesis/era/0.json"


def store() -> FakeBlobStore:
    """A container whose clock stands."""
    return FakeBlobStore(lambda: 0.0)


async def fill(blobs: FakeBlobStore, *starts: int) -> Chain:
    """A chain with files at these starts, each up to the next."""
    filled = chain("SequenceNumber", blobs)
    for start, after in zip(starts, [*starts[1:], starts[-1] + 5], strict=True):
        await filled.put(draft(start, after - 1), b"x")
    return filled


async def test_a_slot_is_named_by_the_next_number_and_has_the_facts_of_its_file() -> None:
    blobs = store()
    facts = replace(draft(17, 20), first=18, count=3, gap="retention:17-17")
    await chain("SequenceNumber", blobs).put(facts, b"events")
    assert list(blobs.blobs) == [f"{FOLDER}00000000000000000017.parquet"]
    slot = await chain("SequenceNumber", blobs).at(17)
    assert slot is not None
    found = (slot.start, slot.first, slot.last, slot.count, slot.gap, slot.size, slot.tombstone)
    assert found == (17, 18, 20, 3, "retention:17-17", 6, False)
    assert blobs.blobs[slot.path].metadata["sha256"] == hashlib.sha256(b"events").hexdigest()


@given(
    st.sets(st.integers(0, 2**63 - 1) | st.integers(0, 3000), min_size=1, max_size=40),
    st.lists(st.integers(-1, 2**63 - 1) | st.integers(0, 4000), max_size=5),
)
async def test_the_slot_before_a_number_is_found_wherever_it_is(starts: set[int], numbers: list[int]) -> None:
    filled = await fill(store(), *sorted(starts))
    around = [start + step for start in starts for step in (-1, 0, 1)]
    for number in [*numbers, *random.Random(0).sample(around, min(9, len(around)))]:
        below = [start for start in starts if start <= number]
        found = await filled.last_before(number)
        assert (found.start if found else None) == max(below, default=None)


async def test_the_slot_before_a_number_needs_few_short_listings_in_a_long_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "_PAGE", 1_100)  # above the 1,000 numbers of the first look
    blobs = store()
    filled, count = await fill(blobs, 0), 2_400
    one = blobs.blobs[filled.path(0)]
    blobs.blobs |= {filled.path(start): replace(one) for start in range(1, count)}
    for number in (599, 999, 1_000, 1_001, 1_499, 2_399, 12_345, 10**12):
        blobs.calls.clear()
        found = await filled.last_before(number)
        assert found is not None and found.start == min(number, count - 1)
        assert len(blobs.calls) <= (30 if number < 10**6 else 100), number


async def test_blobs_with_other_names_are_not_of_the_chain() -> None:
    blobs = store()
    filled = await fill(blobs, 5, 9)
    for name in ("00000000000000000007.parquet.bak", "7.parquet", "00000000000000000007.json", "x"):
        await blobs.put(FOLDER + name, b"?")
    assert [slot.start for slot in await filled.listed()] == [5, 9]
    before = await filled.last_before(8)
    assert before is not None and before.start == 5


async def test_a_blob_without_facts_is_reported_as_damaged() -> None:
    blobs = store()
    await blobs.put(f"{FOLDER}00000000000000000005.parquet", b"?")
    with pytest.raises(Damaged, match="is not a file of the chain"):
        await chain("SequenceNumber", blobs).at(5)


@pytest.mark.parametrize("record", [b"", b"[]", b"[" * 4000, b'{"start":Infinity}', b'{"start":1,"before":1}'])
async def test_a_record_of_the_start_that_cannot_be_read_is_damaged(record: bytes) -> None:
    blobs = store()
    await blobs.put(GENESIS, record)
    with pytest.raises(Damaged, match="restore it from a backup"):
        await chain("SequenceNumber", blobs).start()


async def test_a_chain_begins_once() -> None:
    blobs = store()
    one, other = chain("SequenceNumber", blobs), chain("Capture", blobs)
    assert await one.start() is None
    assert [(await one.begin(7)).start, (await other.begin(9)).start, await one.start()] == [7, 7, 7]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lost", ["", "put", "remove"])
async def test_a_tombstone_is_a_slot_without_content_whatever_answer_is_lost(
    layout: str, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tombstones, "FIRST_PAUSE", 0)
    blobs = store()
    files = chain(layout, blobs)
    await files.put(draft(5, 8), b"events")
    before = await files.at(5)
    assert before is not None
    facts = dict(blobs.blobs[files.path(5)].metadata)
    blobs.faults += [Fault(lost, applied=True)] if lost else []
    assert await tombstone(blobs, files, before)
    after = await files.at(5)
    assert after is not None and after.tombstone and after.size == 0
    assert {name: (blob.data, blob.metadata) for name, blob in blobs.blobs.items()} == {
        files.path(5): (b"", facts | {"tombstone": NOON.isoformat(timespec="seconds"), "size": "6"})
    }
    assert after.removed == 6
    assert replace(after, tombstone=False, size=6, removed=0, etag=before.etag) == before
    assert await tombstone(blobs, files, before)  # once more is no error
    with pytest.raises(Conflict):
        await files.put(draft(5, 8, nonce="late"), b"again")


async def test_only_the_file_that_was_meant_is_cleaned_up() -> None:
    blobs = store()
    files = await fill(blobs, 5)
    slot = await files.at(5)
    assert slot is not None
    await blobs.put(slot.path, b"other", metadata=draft(5, 9, nonce="other").metadata())
    assert not await tombstone(blobs, files, slot)
    assert blobs.blobs[slot.path].data == b"other"
