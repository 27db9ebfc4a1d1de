"""The auditor finds every kind of damage by its name, and none in a correct consumer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from io import StringIO

import pytest

from eventconsumer_api.shared.console import Console
from eventconsumer_api.v1alpha1 import LeaseLayout
from eventconsumer_audit.codes import MEANINGS, Code, Level
from eventconsumer_audit.container import StoreContainer
from eventconsumer_audit.owners import LeaseSubject
from eventconsumer_audit.read import Subject, audit
from eventconsumer_audit.show import show
from eventconsumer_audit.verdict import summary
from eventconsumer_host.errors import HubUnreachable
from eventconsumer_host.source.hub import HubInfo, PartitionInfo
from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.errors import Unavailable
from tests.support.fakes.blobs import Fault
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import (
    CREATED,
    ERA,
    LATER,
    LEASE_RECORD,
    OWNER,
    TOTALS,
    WHEN,
    AuditedWorld,
    Change,
    body_of,
    broken,
    commit,
    delete,
    fake,
    file,
    lease,
    manifest,
    metadata,
    parquet,
    put,
    sample,
    segment,
    table,
)


@virtual
async def test_a_sound_consumer_is_clean() -> None:
    report = await (await sample()).audit(deep=True)
    assert (report.exit_code, report.verdict, report.findings, report.counts) == (0, Level.NOTE, [], {})
    one, two = report.partitions
    assert (one.partition, one.start, one.next, one.checkpoint, one.files, one.events) == ("0", 0, 40, 39, 4, 40)
    assert (two.highest_epoch, two.epoch, two.owner, two.current) == (2, 3, OWNER, True)
    assert (report.hub, report.segment_id) == ("shop.example/Orders", ERA)
    assert (report.batches.manifests, report.batches.committed, report.batches.open) == (2, 1, 2)
    assert report.summary.startswith("Clean: each event is in exactly one file (2 partitions, 8 files, 80 events")


def slot(start: int, extension: str = "parquet") -> str:
    """A slot of partition 0."""
    return AuditedWorld().slot("0", start, extension)


async def name_twice(world: AuditedWorld) -> None:
    """Let the second manifest name a file of the first one too."""
    first, second = [await body_of(world, f"_batches/{number:010d}.json") for number in (1, 2)]
    await manifest(2, files=[*second["files"], first["files"][0]])(world)


async def rewrite(world: AuditedWorld) -> None:
    """Put other content under the same metadata."""
    info = await world.files.head(f"p/{slot(30)}")
    assert info is not None
    await world.files.put(info.name, parquet("0", [*range(30, 39), 39], epoch=9), metadata=info.metadata)


INFINITE = b'{"number":Infinity}'


def leave_out(
    number: int = 2, *, twice: bool = False, changes: dict[str, object] | None = None, **facts: object
) -> Change:
    """Commit the second batch without its first file, or with another file named as left out."""

    async def damage(world: AuditedWorld) -> None:
        second = await body_of(world, f"_batches/{2:010d}.json")
        left = (await body_of(world, f"_batches/{number:010d}.json"))["files"][0] | facts
        await world.commit(second, [left] * (2 if twice else 1), **(changes or {}))

    return damage


def forget(changes: dict[str, object]) -> Change:
    """Leave a file and rows out of the second batch, and change the record of the third, which leaves nothing out."""

    async def damage(world: AuditedWorld) -> None:
        second = await body_of(world, f"_batches/{2:010d}.json")
        await world.commit(second, second["files"][:1], rows=3)
        await world.file("0", 40, range(40, 50), epoch=2, batched=True)
        await world.commit(await world.batch(3, commit=False), **changes)

    return damage


def parallel(number: int, *, commit: int | None = None) -> Change:
    """Make the second batch a parallel one of this number, and move the commit of the first batch, or delete it."""

    async def change(world: AuditedWorld) -> None:
        second, record = "_batches/0000000002.json", "_commits/0000000001.json"
        frozen, committed = await body_of(world, second), await body_of(world, record)
        await delete(second)(world)
        await delete(record)(world)
        await world.put(f"_batches/{number:010d}.json", frozen | {"number": number, "parallel": True})
        if commit is not None:
            await world.put(f"_commits/{commit:010d}.json", committed | {"number": commit})

    return change


def content(data: bytes) -> Change:
    """A file whose hash and metadata fit each other, and whose content does not fit them."""
    return put(slot(40), data, **metadata(range(40, 50), data, 2))


def rows(numbers: list[int], partition: str = "0", epoch: int = 2) -> Change:
    """The same with these rows."""
    return content(parquet(partition, numbers, epoch=epoch))


def of_lease(body: bytes) -> Change:
    """Other content in the lease of partition 0."""
    return lambda world: world.leases.put("$Default/0", body)


DAMAGES: list[tuple[str, Change, Code]] = [
    ("a file in the middle is deleted", delete(slot(20)), Code.SLOT_MISSING),
    ("the first file is deleted", delete(slot(0)), Code.SLOT_MISSING),
    ("the last file is deleted", delete(AuditedWorld().slot("1", 130)), Code.CHECKPOINT_ABOVE_END),
    ("a file of a batch is deleted", delete(slot(10)), Code.BATCH_FILE_MISSING),
    ("a file is overwritten without metadata", put(slot(10), b"x"), Code.SLOT_CHANGED),
    ("a file is emptied", put(slot(40), b"", **metadata(range(40, 50), b"x", 2)), Code.SLOT_CHANGED),
    ("a file of a batch is overwritten", rewrite, Code.BATCH_FILE_CHANGED),
    ("a file's hash is no hash", file(40, range(40, 50), sha256="00"), Code.SLOT_CHANGED),
    ("a file's gap cannot be read", file(40, range(40, 50), gap="some"), Code.SLOT_CHANGED),
    ("a file's count is too high", file(40, range(40, 50), count="11"), Code.FACTS_WRONG),
    ("a file's last is below its first", file(40, range(40, 50), last="39"), Code.FACTS_WRONG),
    ("a gap covers rows", file(40, range(40, 50), gap="retention:40-41"), Code.FACTS_WRONG),
    ("a tombstone has content", file(40, range(40, 50), tombstone=WHEN), Code.FACTS_WRONG),
    ("rows before the first are missing", file(40, range(42, 50)), Code.GAP_UNRECORDED),
    ("rows inside are missing", file(40, [40, 41, 44]), Code.GAP_UNRECORDED),
    ("a gap is too short", file(40, range(44, 50), gap="retention:40-42"), Code.GAP_UNRECORDED),
    ("a gap is elsewhere", file(40, [40, 43, 44], gap="retention:41-41"), Code.GAP_UNRECORDED),
    ("too few are counted", file(40, [40, 43, 47], gap="compaction:41-46/4"), Code.GAP_UNRECORDED),
    ("too many are counted", file(40, [40, 43, 47], gap="compaction:41-46/6"), Code.FACTS_WRONG),
    ("a count is above its range", file(40, [40, 43, 47], gap="compaction:41-42/5"), Code.FACTS_WRONG),
    ("two files overlap", file(35, range(35, 38)), Code.SLOTS_OVERLAP),
    ("a file starts below the chain", file(90, range(90, 95), partition="1", epoch=1), Code.SLOT_BELOW_START),
    ("a slot is there twice", put(slot(20, "avro"), b"x", **metadata(range(20, 30), b"x", 2)), Code.SLOT_TWICE),
    ("a zombie's file", file(40, range(40, 50), epoch=1), Code.EPOCH_FELL),
    ("the genesis is deleted", delete(f"_genesis/{ERA}/0.json"), Code.GENESIS_MISSING),
    ("the genesis is damaged", put(f"_genesis/{ERA}/0.json", b"{"), Code.GENESIS_DAMAGED),
    ("the genesis is negative", put(f"_genesis/{ERA}/0.json", {"start": -1}), Code.GENESIS_DAMAGED),
    ("the genesis is later", put(f"_genesis/{ERA}/0.json", {"start": 20}), Code.SLOT_BELOW_START),
    ("the genesis is earlier", put(f"_genesis/{ERA}/1.json", {"start": 90}), Code.SLOT_MISSING),
    ("the checkpoint is above the end", lease(40, epoch=2), Code.CHECKPOINT_ABOVE_END),
    ("the checkpoint is inside a file", lease(35, epoch=2), Code.CHECKPOINT_OFF_FILES),
    ("the checkpoint is below the start", lambda world: world.lease("1", 98, epoch=3), Code.CHECKPOINT_BELOW_START),
    ("somebody holds a lease with an old epoch", lease(39, epoch=1, held=True), Code.EPOCH_BEHIND),
    ("the lease is no JSON", of_lease(b"{"), Code.LEASE_DAMAGED),
    ("the lease is empty", of_lease(b""), Code.LEASE_DAMAGED),
    ("the lease is nested", of_lease(b"[" * 99_999), Code.LEASE_DAMAGED),
    ("the lease is another's", of_lease(b'{"PartitionId": "7"}'), Code.LEASE_DAMAGED),
    ("the first manifest is deleted", delete("_batches/0000000001.json"), Code.MANIFEST_MISSING),
    ("a committed manifest is deleted", delete("_batches/0000000001.json"), Code.COMMIT_WITHOUT_MANIFEST),
    ("the last manifest is deleted", put("_commits/0000000003.json", {}), Code.COMMIT_WITHOUT_MANIFEST),
    ("a manifest is damaged", put("_batches/0000000002.json", b"{"), Code.MANIFEST_DAMAGED),
    ("a manifest has an infinite number", put("_batches/0000000002.json", INFINITE), Code.MANIFEST_DAMAGED),
    ("a manifest has another number", manifest(2, number=7), Code.MANIFEST_DAMAGED),
    ("a manifest leaves files out", manifest(2, files=[]), Code.FILE_IN_NO_BATCH),
    ("a manifest's totals are wrong", manifest(2, totals={"files": 9, "events": 9, "bytes": 9}), Code.BATCH_WRONG),
    ("a manifest's next is wrong", manifest(2, next={"0": 39, "1": 140}), Code.BATCH_WRONG),
    ("a file is in two batches", name_twice, Code.BATCHES_OVERLAP),
    (
        "two batches overlap",
        manifest(2, ranges={"0": {"first": 10, "last": 39}, "1": {"first": 120, "last": 139}}),
        Code.BATCHES_OVERLAP,
    ),
    (
        "events are in no batch",
        manifest(2, ranges={"0": {"first": 25, "last": 39}, "1": {"first": 120, "last": 139}}),
        Code.BATCH_HOLE,
    ),
    ("the first batch begins too late", put(f"_genesis/{ERA}/1.json", {"start": 90}), Code.BATCH_HOLE),
    ("a batch was frozen too early", delete("_commits/0000000001.json"), Code.BATCH_TOO_EARLY),
    ("a parallel batch was committed too early", parallel(2, commit=2), Code.BATCH_TOO_EARLY),
    ("a parallel batch was frozen too early", parallel(17), Code.BATCH_TOO_EARLY),
    ("a commit has an infinite number", put("_commits/0000000001.json", INFINITE), Code.COMMIT_DAMAGED),
    ("a commit is damaged", put("_commits/0000000001.json", b"{"), Code.COMMIT_DAMAGED),
    (
        "a commit is of another batch",
        put("_commits/0000000001.json", {"number": 2, "files": 4, "rowsRead": 40}),
        Code.COMMIT_DAMAGED,
    ),
    ("a commit has other events", commit(1, rowsRead=39), Code.COMMIT_WRONG),
    ("a commit has other files", commit(1, files=3), Code.COMMIT_WRONG),
    ("a commit has other bytes", commit(1, bytes=1), Code.COMMIT_WRONG),
    ("a commit has other ranges", commit(1, ranges={"0": {"first": 0, "last": 19}}), Code.COMMIT_WRONG),
    ("a commit says nothing of a file that was left out", leave_out(changes={"quarantine": None}), Code.COMMIT_WRONG),
    ("a file that was left out was read too", leave_out(changes={"rowsRead": 40}), Code.COMMIT_WRONG),
    ("a file of another batch was left out", leave_out(number=1), Code.QUARANTINE_WRONG),
    ("a file was left out that never was", leave_out(path="p/other"), Code.QUARANTINE_WRONG),
    ("a file was left out that is another now", leave_out(etag="other"), Code.QUARANTINE_WRONG),
    ("a file was left out twice", leave_out(twice=True), Code.QUARANTINE_WRONG),
    ("what was left out is forgotten", forget({"quarantine": None}), Code.QUARANTINE_WRONG),
    ("the first totals do not add up", commit(1, totals=dict.fromkeys(TOTALS, 1)), Code.COMMIT_TOTALS_WRONG),
    ("later totals do not add up", forget({"totals": dict.fromkeys(TOTALS, 0)}), Code.COMMIT_TOTALS_WRONG),
    ("totals are no totals", commit(1, totals=[40]), Code.COMMIT_DAMAGED),
    ("what was left out is no list", commit(1, quarantine={"number": 1, "files": [1]}), Code.COMMIT_DAMAGED),
]


DEEP: list[tuple[str, Change, Code]] = [
    ("content is not what was hashed", put(slot(40), b"x", **metadata(range(40, 50), b"y", 2)), Code.CONTENT_CHANGED),
    ("a file is no Parquet", content(b"no parquet at all"), Code.FILE_DAMAGED),
    ("a row is missing", rows([*range(40, 45), *range(46, 50)]), Code.ROWS_WRONG),
    ("a row is there twice", rows([*range(40, 45), 44, *range(45, 49), 49]), Code.ROWS_WRONG),
    ("rows fall", rows([*range(40, 44), 45, 44, *range(46, 50)]), Code.ROWS_WRONG),
    ("rows are below the slot", rows([39, *range(40, 49)]), Code.ROWS_WRONG),
    ("rows are of another partition", rows([*range(40, 50)], partition="1"), Code.ROWS_WRONG),
    ("the file says another epoch", rows([*range(40, 50)], epoch=1), Code.FACTS_WRONG),
    ("the gap is not where rows are missing", file(40, [40, 42, 43], gap="retention:42-42"), Code.GAP_UNRECORDED),
]


@pytest.mark.parametrize(
    ("damage", "code", "deep"), [*table([(*row, False) for row in DAMAGES]), *table([(*row, True) for row in DEEP])]
)
@virtual
async def test_damage_is_a_violation_with_its_name(damage: Change, code: Code, deep: bool) -> None:
    world = await sample()
    await damage(world)
    report = await world.audit(deep=deep)
    assert (report.exit_code, report.deep) == (2, deep)
    assert report.summary.startswith("VIOLATION: ")
    found = next((finding for finding in report.findings if finding.code == code), None)
    assert found is not None, report.findings
    assert (found.level, found.invariant) == (Level.VIOLATION, MEANINGS[code].invariant)
    assert code in report.counts


@virtual
async def test_rewritten_content_outside_batches_needs_deep() -> None:
    world = await sample()
    await world.file("0", 40, range(40, 50), epoch=2)
    await world.files.put(f"p/{slot(40)}", b"other", metadata=metadata(range(40, 50), b"x", 2))
    assert (await world.audit()).exit_code == 0
    assert (await world.audit(deep=True)).exit_code == 2


HARMLESS: list[tuple[str, Change, Code | None, int]] = [
    ("a recorded gap", file(40, range(43, 50), gap="retention:40-42"), Code.GAP, 1),
    ("gaps inside", file(40, [40, 43, 44, 47], gap="retention:41-42,45-46"), Code.GAP, 1),
    ("a gap without a reason", file(40, [40, 43], gap="41-42"), Code.GAP, 1),
    ("log compaction", file(40, [40, 43, 47], gap="compaction:41-46/5"), None, 0),
    ("compaction from the start", file(40, [43, 47], gap="compaction:40-46/6"), None, 0),
    ("compaction and retention", file(40, [43, 47], gap="retention:40-41;compaction:42-46/4"), Code.GAP, 1),
    ("retention with a count", file(40, [40, 43, 47], gap="retention:41-46/5"), Code.GAP, 1),
    ("several reasons", file(40, [41, 43], gap="retention:40-40;foreign:42-42"), Code.FOREIGN_GAP, 1),
    ("a strange blob among files", put(f"segment={ERA}/partition=0/notes.txt", b"x"), Code.ORPHAN, 1),
    ("a strange blob among manifests", put("_batches/copy.json", b"x"), Code.ORPHAN, 1),
    ("a strange blob beside", put("notes.txt", b"x"), Code.FOREIGN_NAMES, 0),
    ("a folder of a hierarchical namespace", put(f"segment={ERA}/partition=0", b"", hdi_isfolder="true"), None, 0),
    ("the lead", put("_leader", b""), None, 0),
    ("the cursor of notices", put("_notices.json", b"{}"), None, 0),
    ("a dead letter", put(f"_deadletters/segment={ERA}/partition=0/seq={7:020d}.json", {}), Code.DEAD_LETTERS, 0),
    ("a request", put(f"_deadletters/segment={ERA}/redrive/partition=0/seq={7:020d}.json", b""), None, 0),
    ("dropped letters", put(f"_deadletters/segment={ERA}/dropped/20260101T000000Z-0123abcd.json", {}), None, 0),
    ("a strange blob among dead letters", put(f"_deadletters/segment={ERA}/dropped/notes.json", b"x"), Code.ORPHAN, 1),
    ("a replay's file", put(f"_replays/one/segment={ERA}/partition=0/from={7:020d}.parquet", b"x"), None, 0),
    ("a strange blob of a replay", put("_replays/one/notes.txt", b"x"), Code.ORPHAN, 1),
    ("another file", file(40, [40]), None, 0),
    ("the claim of an attempt", put("_attempts/0000000002.json", {}), None, 0),
    ("a strange blob among claims", put("_attempts/2.json", {}), Code.ORPHAN, 1),
    ("a commit of reprocessing of batches", put("_reprocess/again-1/_commits/0000000001.json", {}), None, 0),
    ("a claim of reprocessing of batches", put("_reprocess/again-1/_attempts/0000000001.json", {}), None, 0),
    ("a strange blob of reprocessing of batches", put("_reprocess/again-1/notes.txt", b"x"), Code.ORPHAN, 1),
    ("a file that was left out", leave_out(), Code.QUARANTINED, 1),
    ("what an earlier batch left out", forget({}), Code.QUARANTINED, 1),
    (
        "a record that says only what it must",
        put("_commits/0000000001.json", {"number": 1, "files": 4, "rowsRead": 40}),
        None,
        0,
    ),
    ("parallel batches", parallel(2), None, 0),
    ("a checkpoint that is behind", lease(9, epoch=2), None, 0),
    ("a checkpoint at the start", lease(99, "1", epoch=3), None, 0),
    ("no checkpoint", lease(None, epoch=2), None, 0),
    ("a lease that nobody took again", lease(None, epoch=0, owner=""), Code.EPOCH_UNRAISED, 0),
    ("a dead owner's lease", lease(None, epoch=0, owner="host-z"), Code.EPOCH_UNRAISED, 0),
    ("no lease", delete("$Default/0", "leases"), Code.LEASE_MISSING, 0),
    ("no record of a segment", delete("_segments/0000000001.json"), Code.SEGMENT_MISSING, 0),
    ("Java's lease", of_lease(b'{"partitionId":"0","epoch":-1,"owner":""}'), Code.EPOCH_UNRAISED, 0),
]


@pytest.mark.parametrize(("change", "code", "exit_code"), table(HARMLESS))
@virtual
async def test_explained_findings_are_no_violation(change: Change, code: Code | None, exit_code: int) -> None:
    world = await sample()
    await change(world)
    report = await world.audit(deep=True)
    assert report.exit_code == exit_code, report.findings
    assert code is None or code in report.counts


@virtual
async def test_gaps_are_listed_and_counted() -> None:
    world = await sample()
    await world.file("0", 40, [42, 43, 46], epoch=2, changes={"gap": "retention:40-41,44-45"})
    report = await world.audit()
    partition = report.partitions[0]
    assert partition.gap_events == 4
    assert [(gap.first, gap.last, gap.reason) for gap in partition.gaps] == [
        (40, 41, "retention"),
        (44, 45, "retention"),
    ]
    assert "4 events in recorded gaps" in report.summary


@virtual
async def test_files_and_events_that_batches_left_out_are_counted_and_named() -> None:
    world = await sample()
    await forget({})(world)
    report = await world.audit()
    assert (report.batches.committed, report.batches.quarantined_files, report.batches.quarantined_rows) == (3, 1, 3)
    (finding,) = [finding for finding in report.findings if finding.code == Code.QUARANTINED]
    assert finding.message == "batch 2 excluded 1 files with 10 events, and 3 events of other files: not Parquet"
    assert finding.blob == "p/_commits/0000000002.json"
    printed = StringIO()
    show(report, Console(file=printed, width=150))
    assert "3 of 3 batches committed, 9 files in them; 1 files excluded; 3 events of others excluded" in (
        printed.getvalue()
    )


@virtual
async def test_tombstones_keep_the_chain_and_their_batches() -> None:
    world = await sample()
    for start in (0, 10):
        info = await world.files.head(f"p/{slot(start)}")
        assert info is not None
        await world.files.put(info.name, b"", metadata={**info.metadata, "tombstone": WHEN})
    report = await world.audit(deep=True)
    assert report.exit_code == 0, report.findings
    assert (report.partitions[0].tombstones, report.partitions[0].files, report.partitions[0].next) == (2, 4, 40)
    assert report.counts == {"Tombstones": 2}


@virtual
async def test_many_findings_are_counted_and_few_kept() -> None:
    world = await sample()
    for start in range(40, 140):
        await world.put(slot(start), b"x")
    report = await world.audit()
    assert report.counts["SlotChanged"] == 100
    assert len(report.findings) == 20


# --- the Capture layout ---


async def captured(namespace: str = "shop") -> AuditedWorld:
    """A partition in the Capture layout."""
    world = AuditedWorld(namespace=namespace)
    await world.begin(p0=0)
    for number in range(3):
        await world.captured("0", 10 * number, range(10 * number, 10 * number + 10), number)
    await world.lease("0", 29)
    return world


@virtual
async def test_capture_records_and_their_data_files() -> None:
    world = await captured()
    await world.put("shop/orders/0/2026/01/01/00/05/00.avro", b"header", empty="true")
    report = await world.audit(deep=True)
    assert (report.exit_code, report.findings) == (0, [])
    assert report.partitions[0].events == 30


@pytest.mark.parametrize("namespace", ["shop", "Shop"])  # data files are listed behind the records, or before them
@virtual
async def test_capture_damage(namespace: str) -> None:
    folder = f"{namespace}/orders/0/2026/01/01/00"
    for damage, code, exit_code in (
        (put(f"{folder}/05/00.avro", b"x"), Code.ORPHAN_DATA_FILE, 1),
        (delete(f"{folder}/00/01.avro"), Code.DATA_FILE_MISSING, 2),
        (put(f"{folder}/00/01.avro", b"x"), Code.DATA_FILE_CHANGED, 2),
        (delete(slot(10, "json")), Code.SLOT_MISSING, 2),
    ):
        world = await captured(namespace)
        await damage(world)
        report = await world.audit(deep=True)
        assert (report.exit_code, code in report.counts) == (exit_code, True), report.findings


@virtual
async def test_a_record_whose_body_differs_from_its_metadata_is_found() -> None:
    world = await captured()
    info = await world.files.head(f"p/{slot(20, 'json')}")
    assert info is not None
    await world.files.put(info.name, json.dumps({**info.metadata, "last": "28"}).encode(), metadata=info.metadata)
    assert (await world.audit()).exit_code == 0
    report = await world.audit(deep=True)
    assert report.counts == {"ContentChanged": 1}


# --- leases of the current SDKs, and leases shared with other programs ---


async def sdk_leases(world: AuditedWorld, folder: str, checkpoint: str, **ownership: str) -> None:
    for partition in ("0", "1"):
        await world.leases.put(f"{folder}/ownership/{partition}", b"", metadata={"ownerid": "host-a"} | ownership)
    facts = {"sequencenumber": checkpoint, "offset": "no offset"}
    await world.leases.put(f"{folder}/checkpoint/0", b"", metadata=facts)
    record = LEASE_RECORD | ({} if folder == folder.lower() else {"spelling": folder})
    await world.leases.put(f"{folder.lower()}~identity.json", json.dumps(record).encode())


@pytest.mark.parametrize("folder", ["shop.example/orders/$default", "shop.example:5671/Orders/$Default"])
@virtual
async def test_checkpoints_of_the_sdk_layout_are_checked(folder: str) -> None:
    for checkpoint, exit_code in (("39", 0), ("", 0), ("35", 2), ("40", 2), ("x", 2)):
        world = await sample()
        await sdk_leases(world, folder, checkpoint, epoch="3")
        report = await world.audit(layout=LeaseLayout.AZURE_SDK)
        assert report.exit_code == exit_code, (checkpoint, report.findings)
        assert report.partitions[0].owner == "host-a"


@virtual
async def test_under_another_spelling_an_owner_counts_and_a_checkpoint_does_not() -> None:
    world = await sample()
    await sdk_leases(world, "shop.example/orders/$default", "39", epoch="3")
    await asyncio.sleep(1)
    await world.leases.put("SHOP.example/orders/$Default/ownership/0", b"", metadata={"ownerid": "go-1"})
    await world.leases.put("SHOP.example/orders/$Default/ownership/1", b"", metadata={"ownerid": ""})
    await world.leases.put("SHOP.example/orders/$Default/checkpoint/0", b"", metadata={"sequencenumber": "99"})
    report = await world.audit(layout=LeaseLayout.AZURE_SDK)
    assert report.exit_code == 0, report.findings
    assert [part.owner for part in report.partitions[:2]] == ["go-1", "host-a"]


@virtual
async def test_a_foreign_owner_has_no_epoch_and_a_silent_one_is_not_held() -> None:
    world = await sample()
    await sdk_leases(world, "shop.example/orders/$default", "39")
    assert (await world.audit(layout=LeaseLayout.AZURE_SDK)).counts == {}
    await sdk_leases(world, "shop.example/orders/$default", "39", epoch="1")
    report = await world.audit(layout=LeaseLayout.AZURE_SDK)
    assert report.counts == {"EpochUnraised": 2}


@virtual
async def test_a_checkpoint_that_another_program_moved_is_explained_where_leases_are_shared() -> None:
    world = await sample()
    await world.lease("0", 60, epoch=2)
    assert (await world.audit()).exit_code == 2
    report = await world.audit(shared=True)
    assert (report.exit_code, report.counts) == (1, {"CheckpointForeign": 1})


# --- the hub ---


@dataclass
class AskedHub:
    """A hub that answers questions and gives no reader."""

    first: int = 0
    last: int = 39
    created: datetime = CREATED
    fails: bool = False
    partitions: tuple[str, ...] = ("0",)

    async def describe(self) -> HubInfo:
        if self.fails:
            raise HubUnreachable("no answer")
        return HubInfo("shop.example", "Orders", self.created, self.partitions)

    async def partition(self, partition: str) -> PartitionInfo:
        assert partition in self.partitions
        return PartitionInfo(self.first, self.last, CREATED, is_empty=False)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("hub", "code", "exit_code", "lag"),
    [
        (AskedHub(), None, 0, 0),
        (AskedHub(last=139), None, 0, 100),
        (AskedHub(last=38), Code.END_ABOVE_HEAD, 2, 0),
        (AskedHub(first=50, last=60), Code.RETENTION_PASSED, 1, 21),
        (AskedHub(created=CREATED + timedelta(days=1)), Code.HUB_RENEWED, 0, 0),
        (AskedHub(fails=True), Code.HUB_UNKNOWN, 0, None),
    ],
)
@virtual
async def test_the_hub_is_compared(hub: AskedHub, code: Code | None, exit_code: int, lag: int | None) -> None:
    report = await (await sample()).audit(hub=hub)
    assert (report.exit_code, report.partitions[0].lag) == (exit_code, lag)
    assert list(report.counts) == ([code] if code else [])
    if code is Code.END_ABOVE_HEAD:
        assert "kubectl eventconsumer hub accept orders -n shop" in report.summary
        assert "kubectl eventconsumer hub accept <name> -n <namespace>" in summary(report, None)


@virtual
async def test_a_partition_that_no_host_has_opened_is_shown_where_the_hub_is_asked() -> None:
    report = await (await sample()).audit(hub=AskedHub(partitions=("0", "7")))
    new = report.partitions[-1]
    assert (report.exit_code, new.partition, new.start, new.next, new.head, new.lag) == (0, "7", None, None, 39, None)


# --- what cannot be read ---


@virtual
async def test_storage_that_fails_is_unreadable_but_a_violation_outweighs_it() -> None:
    world = await sample()
    fake(world.files).faults.append(Fault("list", error=lambda: Unavailable("storage is down")))
    report = await world.audit()
    assert (report.exit_code, report.verdict) == (3, Level.UNREADABLE)
    assert report.summary == "Unreadable: the audit is not complete. storage is down"
    await world.put(f"_genesis/{ERA}/0.json", b"{")
    fake(world.leases).faults.append(Fault("list", error=lambda: Unavailable("storage is down")))
    report = await world.audit()
    assert (report.exit_code, report.counts["Unreadable"]) == (2, 1)


@virtual
async def test_an_empty_prefix_is_not_clean() -> None:
    report = await AuditedWorld().audit()
    assert report.exit_code == 3
    assert "no blobs below p/ in container drained" in report.summary


class Late(StoreContainer):
    """A listing that misses a file that is there: it was written just behind the place that was listed."""

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        async for info in super().walk(prefix):
            if info.name != f"p/{slot(20)}":
                yield info


@virtual
async def test_a_file_that_a_listing_missed_is_asked_for() -> None:
    world = await sample()
    report = await audit(Subject(Late(world.files), "p", LeaseSubject(StoreContainer(world.leases), "", "$Default")))
    assert (report.exit_code, report.partitions[0].files) == (0, 4), report.findings


class Pruned(StoreContainer):
    """Files that were listed, and became tombstones before they were read."""

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        infos = [info async for info in super().walk(prefix)]
        for info in infos:
            if prefix == "p/" and ("from=" in info.name or info.name.endswith(".avro")):
                blobs = fake(self.store)
                if info.name.endswith(".avro"):
                    blobs.delete(info.name)
                else:
                    await blobs.put(info.name, b"", metadata={**info.metadata, "tombstone": WHEN})
        for info in infos:
            if not info.name.endswith(".avro"):  # so that each record's file is asked for
                yield info


@pytest.mark.parametrize("make", [sample, captured])
@virtual
async def test_files_that_are_pruned_while_the_audit_runs_are_no_damage(
    make: Callable[[], Awaitable[AuditedWorld]],
) -> None:
    world = await make()
    report = await audit(Subject(Pruned(world.files), "p"), deep=True)
    assert (report.exit_code, report.counts) == (0, {"LeasesUnread": 1}), report.findings


# --- segments ---


async def two_segments() -> AuditedWorld:
    """The hub lost the events 30 to 39 of partition 0, and gave their numbers to others."""
    world = await sample()
    for partition, end in (("0", 40), ("1", 140)):
        await world.seal(partition, end)
    record = segment(2, LATER, p0=broken(start=30, files_end=39), p1=broken(140, 139))
    record["hub"]["name"] = "orders"  # created again in lower case: Event Hubs does not distinguish case
    await world.put(f"_segments/{2:010d}.json", record)
    later = replace(world, era=LATER)
    for partition, start in (("0", 30), ("1", 140)):
        await later.put(f"_genesis/{LATER}/{partition}.json", {"start": start})
    await later.file("0", 30, range(30, 45), epoch=3)
    await world.lease("0", 44, epoch=3)
    return world


@virtual
async def test_an_accepted_segment_is_clean_and_its_break_is_reported() -> None:
    world = await two_segments()
    report = await world.audit(deep=True)
    assert report.exit_code == 0, report.findings
    assert [(each.segment, each.partition, each.start, each.files_end, each.gone) for each in report.breaks] == [
        (2, "0", 30, 39, 10),
        (2, "1", 140, 139, 0),
    ]
    assert {(part.partition, part.current, part.next) for part in report.partitions if part.partition == "0"} == {
        ("0", False, 40),
        ("0", True, 45),
    }
    console = Console(record=True, width=200)
    show(report, console)
    assert "segment 2 since 2026-01-01 00:00:00: partition 0 continues at 30; 10 numbers" in console.export_text()


SEGMENTS: list[tuple[str, Change, Code, int]] = [
    ("a segment was not ended", delete(slot(40)), Code.SEGMENT_WRONG, 2),
    ("a late file", file(41, range(41, 50)), Code.SEGMENT_WRONG, 2),
    ("a segment's record is missing", delete(f"_segments/{1:010d}.json"), Code.SEGMENT_WRONG, 2),
    ("a segment's record is damaged", put(f"_segments/{2:010d}.json", b"{"), Code.GENESIS_DAMAGED, 2),
    (
        "files end elsewhere",
        put(f"_segments/{2:010d}.json", segment(2, LATER, p0=broken(30, 38), p1=broken(140, 139))),
        Code.SEGMENT_WRONG,
        2,
    ),
    ("a segment starts elsewhere", put(f"_genesis/{LATER}/1.json", {"start": 99}), Code.SEGMENT_WRONG, 2),
    ("two segments in one folder", put(f"_segments/{3:010d}.json", segment(3, ERA)), Code.SEGMENT_WRONG, 2),
    ("an interrupted accept", put(slot(45).replace(ERA, LATER), b"x", sealed=WHEN), Code.SEGMENT_UNFINISHED, 1),
]


@pytest.mark.parametrize(("change", "code", "exit_code"), table(SEGMENTS))
@virtual
async def test_damage_to_segments_is_found(change: Change, code: Code, exit_code: int) -> None:
    world = await two_segments()
    await change(world)
    report = await world.audit()
    assert (report.exit_code, code in report.counts) == (exit_code, True), report.findings
