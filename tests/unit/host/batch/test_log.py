"""Batches in storage: ranges are contiguous, a new leader continues exactly, commit records are read or named."""

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_api.wire.batch import (
    BatchClaim,
    BatchCommit,
    BatchFile,
    BatchManifest,
    CommitTotals,
    Quarantine,
    attempt_name,
    commit_name,
)
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_host.batch.log import COMMIT_LIMIT, BatchLog, BatchState
from eventconsumer_host.batch.memory import manifest_limit
from eventconsumer_host.batch.plan import freeze
from eventconsumer_host.batch.report import batch_report
from eventconsumer_host.leader.ledger import Ledger
from eventconsumer_host.leader.tail import Follower
from eventconsumer_host.sink.slots import Chain, Draft, Slot, slot_of
from eventconsumer_storage.errors import Damaged, Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual
from tests.unit.host.chains import tombstone

MIB = 1024 * 1024
NOW = datetime(2026, 1, 1, tzinfo=UTC)
OF: Any = {"resource": ResourceRef(namespace="shop", name="orders", uid="u"), "chain": "c1"}


def slot(start: int, count: int) -> Slot:
    """A file of `count` events."""
    last = start + count - 1
    return Slot(f"p/{start}", '"e"', count * 10, NOW, start, start, last, count, 1, "n", str(last), NOW)


def record(number: int, **fields: object) -> bytes:
    """A commit record."""
    values: dict[str, object] = {
        "number": number,
        "committed_at": NOW,
        "application": "app",
        "attempt": "a",
        "output": "out",
        "files": 1,
        "rows_read": 5,
        "rows_written": 4,
        "seconds": 1.5,
    }
    return BatchCommit.model_validate(values | fields).model_dump_json(by_alias=True).encode()


def opened(state: BatchState) -> list[int]:
    """Numbers of the open batches."""
    return [batch.report.number for batch in state.open]


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
        manifests.append(freeze(last, part, starts, **OF, segment_id="era", reason="Files", now=NOW))
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
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW)
    assert await log.freeze(one) == one
    state = await log.restore()
    assert (opened(state), state.committed_number, state.processed_files) == ([1], 0, 0)
    await blobs.put(commit_name("p", 1), record(1))
    state = await log.poll(state)
    assert (opened(state), state.committed_number, state.processed_files, state.committed_reason) == ([], 1, 1, "Age")
    assert state.processed_bytes == 50
    assert state.commit is not None and (state.commit.number, state.commit.application) == (1, "app")
    two = freeze(one, {"0": [slot(5, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Files", now=NOW)
    await log.freeze(two)
    found = await BatchLog(blobs, "p").restore()
    assert (opened(found), found.committed_number, found.processed_files, found.committed_reason) == ([2], 1, 1, "Age")
    assert found == state.then(two)


async def frozen(blobs: FakeBlobStore, count: int) -> None:
    """Freeze parallel batches of one file each."""
    last = None
    for number in range(count):
        files = {"0": [slot(number * 5, 5)]}
        last = freeze(last, files, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW, parallel=True)
        await BatchLog(blobs, "p").freeze(last)


async def commits(blobs: FakeBlobStore) -> list[BatchCommit]:
    """The published commits."""
    found = [blob.name for blob in await blobs.list("p/_commits/")]
    return [BatchCommit.model_validate_json(blob.data) for name in found if (blob := await blobs.read(name, 10**6))]


async def lead(blobs: FakeBlobStore, state: BatchState | None = None) -> BatchState:
    """What a leader knows after it has published the commits; it is new if it has no state."""
    log = BatchLog(blobs, "p")
    state = await (log.poll(state) if state else log.restore())
    await log.publish(state)
    return await log.poll(state)


@given(st.permutations(range(1, 6)), st.sets(st.integers(1, 5)), st.data())
def test_commits_of_parallel_batches_are_published_in_order_whichever_is_decided_first(
    order: list[int], excluding: set[int], data: st.DataObject
) -> None:
    """Two leaders publish, of which one is new each time."""

    @virtual
    async def publish() -> None:
        blobs = FakeBlobStore(virtual_clock)
        await frozen(blobs, 5)
        old = await BatchLog(blobs, "p").restore()
        done: set[int] = set()
        for number in order:
            left = Quarantine(number=number, rows=number) if number in excluding else None
            await blobs.put(attempt_name("p", number), record(number, quarantine=left))
            done.add(number)
            if data.draw(st.booleans()):
                old = await lead(blobs, old)
            new = await lead(blobs)
            ready = next(each for each in range(6) if each + 1 not in done)
            assert (new.committed_number, opened(new)) == (ready, list(range(ready + 1, 6)))
            assert [each.number for each in await commits(blobs)] == list(range(1, ready + 1))
        assert await lead(blobs, old) == await BatchLog(blobs, "p").restore()
        for before, each in zip([None, *(found := await commits(blobs))], found, strict=False):
            own = Quarantine(number=each.number, rows=each.number) if each.number in excluding else None
            assert each == BatchCommit.model_validate_json(record(each.number, quarantine=own)).after(before)

    publish()


@virtual
async def test_a_claim_is_not_published_and_a_lost_commit_before_is_named() -> None:
    blobs = FakeBlobStore(virtual_clock)
    await frozen(blobs, 3)
    log = BatchLog(blobs, "p")
    claim = BatchClaim(number=1, claimed_at=NOW, application="app", attempt="a")
    await blobs.put(attempt_name("p", 1), claim.model_dump_json(by_alias=True).encode())
    await blobs.put(attempt_name("p", 2), record(2))
    state = await lead(blobs)
    assert opened(state) == [1, 2, 3]
    assert await commits(blobs) == []
    await blobs.put(attempt_name("p", 1), record(1))
    assert opened(await log.restore()) == [1, 2, 3]  # who only reads publishes nothing
    blobs.faults.append(Fault("put", applied=True))  # the answer is lost
    with pytest.raises(Unavailable):
        await log.publish(state)
    state = await lead(blobs, state)
    assert opened(state) == [3]
    blobs.delete(commit_name("p", 2))
    await blobs.put(attempt_name("p", 3), record(3))
    with pytest.raises(Damaged, match=r"_commits/0000000002\.json is missing"):
        await log.publish(state)
    await blobs.put(commit_name("p", 2), b"{")
    with pytest.raises(Damaged, match=r"_commits/0000000002\.json cannot be read"):
        await log.publish(state)
    await blobs.put(commit_name("p", 2), record(2))
    assert opened(await lead(blobs, state)) == []


@virtual
async def test_two_leaders_agree_on_the_first_manifest() -> None:
    blobs = FakeBlobStore(virtual_clock)
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW)
    other = freeze(None, {"0": [slot(0, 9)]}, {"0": 0}, **OF, segment_id="e", reason="Files", now=NOW)
    assert await BatchLog(blobs, "p").freeze(one) == one
    assert await BatchLog(blobs, "p").freeze(other) == one


@virtual
async def test_a_manifest_whose_answer_was_lost_counts() -> None:
    blobs = FakeBlobStore(virtual_clock)
    blobs.faults.append(Fault("put", applied=True))
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW)
    assert await BatchLog(blobs, "p").freeze(one) == one


@virtual
async def test_a_manifest_that_was_not_written_is_no_damage() -> None:
    blobs = FakeBlobStore(virtual_clock)
    blobs.faults.append(Fault("put"))
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW)
    with pytest.raises(Unavailable):
        await BatchLog(blobs, "p").freeze(one)
    assert await BatchLog(blobs, "p").freeze(one) == one


@virtual
async def test_a_manifest_beyond_the_memory_is_not_read() -> None:
    blobs = FakeBlobStore(virtual_clock)
    memory = 128 * MIB
    await blobs.put("p/_batches/0000000001.json", b" " * (2 * MIB))
    with pytest.raises(Damaged, match=r"0000000001\.json has 2097152 bytes, and this host has memory for 19\d{5}: "):
        await BatchLog(blobs, "p", memory).restore()


@virtual
async def test_wrong_items_of_a_manifest_cost_no_memory() -> None:
    blobs = FakeBlobStore(virtual_clock)
    await blobs.put("p/_batches/0000000001.json", b'{"files":[' + b"1," * 200_000 + b"1]}")
    tracemalloc.start()
    try:
        with pytest.raises(Damaged):
            await BatchLog(blobs, "p").restore()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * MIB  # an error for each item takes 180 MiB


@pytest.mark.parametrize("files", [100, 10_000, 100_000])
def test_the_largest_manifest_fits_into_the_memory_of_the_probe(files: int) -> None:
    """The operator gives a probe 256 MiB, and 4 KiB for each file of a batch (spec.spark.batch.maxFiles)."""
    largest = BatchFile(
        path="x" * 120,
        etag='"0x8DC0000000000000"',
        size=10**10,
        partition="1023",
        first=10**15,
        last=10**15,
        count=10**6,
    )
    size = len(largest.model_dump_json(by_alias=True)) * files
    assert size <= manifest_limit(256 * MIB + files * 4096)


@virtual
async def test_a_damaged_manifest_is_named() -> None:
    blobs = FakeBlobStore(virtual_clock)
    await blobs.put("p/_batches/0000000001.json", b"{")
    with pytest.raises(Damaged, match=r"_batches/0000000001\.json cannot be read"):
        await BatchLog(blobs, "p").restore()


@virtual
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{}", "number: Field required"),
        (b"{", "Invalid JSON"),
        (record(2), "it is of batch 2"),
        (b" " * (COMMIT_LIMIT + 1), "at most are read"),
        (record(1).replace(b"2026-01-01T00:00:00Z", b"2026-01-01T00:00:00"), "committedAt: Input should have timezone"),
    ],
)
async def test_a_commit_record_that_cannot_be_read_counts_and_is_named_until_it_can(data: bytes, why: str) -> None:
    blobs = FakeBlobStore(virtual_clock)
    log = BatchLog(blobs, "p")
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW)
    await log.freeze(one)
    await blobs.put(commit_name("p", 1), data)
    for state in (await log.poll(BatchState().then(one)), await log.restore()):
        assert (opened(state), state.committed_number, state.commit) == ([], 1, None)
        assert state.damage is not None and why in str(state.damage)
        assert "_commits/0000000001.json" in str(state.damage)
    two = freeze(one, {"0": [slot(5, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW)
    await log.freeze(two)
    state = await log.restore()
    assert (opened(state), state.committed_number) == ([2], 1)
    assert state.damage is not None
    await blobs.put(commit_name("p", 1), record(1))
    state = await log.poll(state)
    assert (opened(state), state.damage) == ([2], None)
    assert state.commit is not None and state.commit.number == 1


@virtual
@pytest.mark.parametrize(("written", "reported"), [(-1, 0), (2**70, 2**63 - 1)])
async def test_counts_of_a_user_s_program_are_reported_within_the_range_of_a_report(
    written: int, reported: int
) -> None:
    blobs = FakeBlobStore(virtual_clock)
    log = BatchLog(blobs, "p")
    file = BatchFile(path="p/0", etag="e", size=-10, partition="0", first=0, last=4, count=written)
    await log.freeze(freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW))
    await blobs.put(commit_name("p", 1), record(1, rows_written=written, rows_read=-2, seconds=-1))
    state = await log.restore()
    assert state.damage is None and state.commit is not None and state.last is not None
    assert (state.commit.rows_written, state.commit.rows_read, state.commit.seconds) == (reported, 0, 0)
    damaged = batch_report(state.last.model_copy(update={"files": [file]}))
    assert (damaged.events, damaged.bytes) == (reported, 0)


@virtual
async def test_files_left_out_are_described() -> None:
    files = [BatchFile(path=f"p/{n}", etag="e", size=1, partition="3", first=n, last=n + 9, count=10) for n in range(5)]
    left = Quarantine(number=1, files=files, rows=7, rows_path="out/_rows", message="Not a Parquet file")
    blobs = FakeBlobStore(virtual_clock)
    log = BatchLog(blobs, "p")
    one = freeze(None, {"0": [slot(0, 5)]}, {"0": 0}, **OF, segment_id="e", reason="Age", now=NOW)
    await log.freeze(one)
    totals = CommitTotals(rows_read=5, rows_written=4, quarantined_files=9, quarantined_rows=8)
    await blobs.put(commit_name("p", 1), record(1, quarantine=left, totals=totals, output_version=3))
    commit = (await log.restore()).commit
    assert commit is not None
    assert (commit.rows_read, commit.rows_written, commit.seconds, commit.output_version) == (5, 4, 1.5, 3)
    assert (commit.quarantined_files, commit.quarantined_rows) == (9, 8)
    assert commit.quarantine == (
        "batch 1 left out 5 files: partition 3 0-9 (p/0), partition 3 1-10 (p/1), partition 3 2-11 (p/2), and 2 more; "
        "7 events of other files, in out/_rows: Not a Parquet file"
    )


@virtual
async def test_a_ledger_follows_only_new_files() -> None:
    blobs = FakeBlobStore(virtual_clock)
    chain = Chain(blobs, "p", "era", "0")
    for start in (0, 5):
        await chain.put(Draft(start, start, start + 4, 5, 1, "w", "n", "o", NOW), b"data")
    ledger = Ledger(Follower(chain, lambda: NOW), 0, 0)
    await ledger.count()
    assert (ledger.next, ledger.files, ledger.events, ledger.bytes) == (10, 2, 10, 8)
    asked = len(blobs.calls)
    await ledger.count()
    assert len(blobs.calls) == asked
    await ledger.count(look=True)
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
    blobs = FakeBlobStore(lambda: 0.0)
    chain = Chain(blobs, "p", "era", "0")
    for start in (0, 5, 10):
        await chain.put(Draft(start, start, start + 4, 5, 1, "w", f"n{start}", "x", NOW), b"data")
    for slot in (await chain.listed())[:2]:
        assert await tombstone(blobs, chain, slot)
    follower = Follower(chain, lambda: NOW)
    batches, counts = Ledger(follower, 0, 0), Ledger(follower, 0, 0, keep=False)
    for ledger in (batches, counts):
        await ledger.count()
    assert (batches.start, batches.next, [slot.start for slot in batches.pending]) == (10, 15, [10])
    assert (batches.files, batches.events) == (1, 5)
    assert (counts.next, counts.files, counts.events) == (15, 3, 15)


@virtual
async def test_files_that_another_leader_put_into_a_batch_are_in_no_second_one() -> None:
    """A leader that saw less than the one whose manifest won must not take the rest of it again."""
    blobs = FakeBlobStore(virtual_clock)
    chain = Chain(blobs, "p", "era", "0")
    for start in (0, 5, 10, 15):
        await chain.put(Draft(start, start, start + 4, 5, 1, "w", f"n{start}", "x", NOW), b"data")
    slots = await chain.listed()
    ledger = Ledger(Follower(chain, lambda: NOW), 0, 0)
    ledger.add(slots[0])
    ledger.batched(15)
    await ledger.count(look=True)
    assert (ledger.next, ledger.files, [slot.start for slot in ledger.pending]) == (20, 1, [15])
