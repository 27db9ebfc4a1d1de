"""Batches: when one starts, that ranges are contiguous, and that a new leader goes on exactly."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.batch import BatchManifest, commit_name
from eventconsumer_api.host_config import ResourceRef
from eventconsumer_api.spark import Trigger
from eventconsumer_processor.batches import BatchLog, BatchState, freeze, trigger
from eventconsumer_processor.errors import Damaged, Unavailable
from eventconsumer_processor.fleet import Ledger
from eventconsumer_processor.sink.slots import Chain, Draft, Slot, slot_of
from tests.fakes.blobs import FakeBlobStore, Fault
from tests.fakes.virtual import virtual
from tests.unit.processor.stage import virtual_clock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RESOURCE = ResourceRef(namespace="shop", name="orders", uid="u")


def slot(start: int, count: int) -> Slot:
    """A file of `count` events."""
    last = start + count - 1
    return Slot(f"p/{start}", '"e"', count * 10, NOW, start, start, last, count, 1, "n", str(last), NOW)


@pytest.mark.parametrize(
    ("files", "age", "reason"),
    [(0, 9999, ""), (1, 0, ""), (9, 299.9, ""), (10, 0, "Files"), (11, 9999, "Files"), (1, 300, "Age")],
)
def test_the_trigger(files: int, age: float, reason: str) -> None:
    assert trigger(Trigger(files=10, age_seconds=300), files, age) == reason


chains = st.dictionaries(
    st.sampled_from(["0", "1", "2"]), st.lists(st.integers(1, 50), min_size=1, max_size=6), min_size=1
)


@given(chains, st.integers(0, 100), st.data())
def test_successive_batches_cover_every_file_once(
    counts: dict[str, list[int]], start: int, data: st.DataObject
) -> None:
    slots: dict[str, list[Slot]] = {}
    for partition, sizes in counts.items():
        position = start
        for size in sizes:
            slots.setdefault(partition, []).append(slot(position, size))
            position += size
    starts = dict.fromkeys(counts, start)
    manifests: list[BatchManifest] = []
    pending = {partition: list(found) for partition, found in slots.items()}
    while any(pending.values()):
        taken = {p: data.draw(st.integers(0, len(found))) for p, found in pending.items()}
        if not any(taken.values()):
            taken = {p: len(found) for p, found in pending.items()}
        part = {p: found[: taken[p]] for p, found in pending.items() if taken[p]}
        last = manifests[-1] if manifests else None
        manifests.append(freeze(last, part, starts, resource=RESOURCE, incarnation="era", reason="Files", now=NOW))
        pending = {p: found[taken[p] :] for p, found in pending.items()}
    assert [manifest.number for manifest in manifests] == list(range(1, len(manifests) + 1))
    for partition, found in slots.items():
        position = start
        for manifest in manifests:
            if partition in manifest.ranges:
                assert manifest.ranges[partition].first == position  # S8: contiguous
                position = manifest.ranges[partition].last + 1
            assert manifest.next[partition] == position
        assert position == found[-1].last + 1
    files = [file.path + file.partition for manifest in manifests for file in manifest.files]
    assert len(files) == len(set(files)) == sum(map(len, slots.values()))
    totals = manifests[-1].totals
    assert totals.files == len(files)
    assert totals.events * 10 == totals.bytes


@virtual
async def test_a_new_leader_restores_open_and_committed_batches() -> None:
    blobs = FakeBlobStore(virtual_clock)
    log = BatchLog(blobs, "p")
    assert await log.restore() == BatchState()
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, resource=RESOURCE, incarnation="e", reason="Age", now=NOW)
    assert await log.freeze(one) == one
    state = await log.restore()
    assert (state.open, state.committed_number, state.processed_files) == (one, 0, 0)
    await blobs.put(commit_name("p", 1), b"{}")
    state = await log.poll(state)
    assert (state.open, state.committed_number, state.processed_files, state.committed_reason) == (None, 1, 1, "Age")
    two = freeze(one, {"0": [slot(5, 5)]}, {"0": 0}, resource=RESOURCE, incarnation="e", reason="Files", now=NOW)
    await log.freeze(two)
    state = await BatchLog(blobs, "p").restore()
    assert (state.open, state.committed_number, state.processed_files, state.committed_reason) == (two, 1, 1, "Age")


@virtual
async def test_two_leaders_agree_on_the_first_manifest() -> None:
    blobs = FakeBlobStore(virtual_clock)
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, resource=RESOURCE, incarnation="e", reason="Age", now=NOW)
    other = freeze(None, {"0": [slot(0, 9)]}, {"0": 0}, resource=RESOURCE, incarnation="e", reason="Files", now=NOW)
    assert await BatchLog(blobs, "p").freeze(one) == one
    assert await BatchLog(blobs, "p").freeze(other) == one


@virtual
async def test_a_manifest_whose_answer_was_lost_counts() -> None:
    blobs = FakeBlobStore(virtual_clock)
    blobs.faults.append(Fault("put", applied=True))
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, resource=RESOURCE, incarnation="e", reason="Age", now=NOW)
    assert await BatchLog(blobs, "p").freeze(one) == one


@virtual
async def test_a_manifest_that_was_not_written_is_no_damage() -> None:
    blobs = FakeBlobStore(virtual_clock)
    blobs.faults.append(Fault("put"))
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, resource=RESOURCE, incarnation="e", reason="Age", now=NOW)
    with pytest.raises(Unavailable):
        await BatchLog(blobs, "p").freeze(one)
    assert await BatchLog(blobs, "p").freeze(one) == one


@virtual
async def test_a_damaged_manifest_is_named() -> None:
    blobs = FakeBlobStore(virtual_clock)
    await blobs.put("p/_batches/0000000001.json", b"{")
    with pytest.raises(Damaged, match=r"_batches/0000000001\.json cannot be read"):
        await BatchLog(blobs, "p").restore()


@virtual
async def test_a_ledger_follows_only_new_files() -> None:
    blobs = FakeBlobStore(virtual_clock)
    chain = Chain(blobs, "p", "era", "0")
    for start in (0, 5):
        await chain.put(Draft(start, start, start + 4, 5, 1, "w", "n", "o", NOW), b"data")
    ledger = Ledger(chain, 0, 0)
    await ledger.follow()
    assert (ledger.next, ledger.files, ledger.events, ledger.bytes) == (10, 2, 10, 8)
    asked = len(blobs.calls)
    await ledger.follow()
    assert len(blobs.calls) == asked + 1
    ledger.batched(5)
    assert (ledger.start, ledger.files, [found.start for found in ledger.pending]) == (5, 1, [5])


@virtual
async def test_a_blob_that_is_no_file_of_the_chain_is_refused() -> None:
    blobs = FakeBlobStore(virtual_clock)
    await blobs.put("p/x.parquet", b"", metadata={"first": "0"})
    info = await blobs.head("p/x.parquet")
    assert info is not None
    with pytest.raises(Damaged, match=r"p/x\.parquet is not a file of the chain"):
        slot_of(info, 0)


async def test_batches_start_behind_files_that_were_cleaned_up() -> None:
    chain = Chain(FakeBlobStore(lambda: 0.0), "p", "era", "0")
    for start in (0, 5, 10):
        await chain.put(Draft(start, start, start + 4, 5, 1, "w", f"n{start}", "x", NOW), b"data")
    for slot in (await chain.listed())[:2]:
        await chain.tombstone(slot)
    batches, counts = Ledger(chain, 0, 0), Ledger(chain, 0, 0, keep=False)
    for ledger in (batches, counts):
        await ledger.follow()
    assert (batches.start, batches.next, [slot.start for slot in batches.pending]) == (10, 15, [10])
    assert (batches.files, batches.events) == (1, 5)
    assert (counts.next, counts.files, counts.events) == (15, 3, 15)
