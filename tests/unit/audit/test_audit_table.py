"""The Delta table over the drained files: each file is in it once, or was removed from it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from io import StringIO
from typing import Any

import pytest

from eventconsumer_api.shared.console import Console
from eventconsumer_audit.codes import Code
from eventconsumer_audit.container import RECORD_MAX_BYTES, StoreContainer
from eventconsumer_audit.model import AuditReport
from eventconsumer_audit.owners import LeaseSubject
from eventconsumer_audit.read import Subject, audit
from eventconsumer_audit.show import show
from eventconsumer_storage.blobs import BlobInfo
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import ERA, WHEN, AuditedWorld, fake, sample, table
from tests.unit.audit.deltatables import NEWER, Table, metadata, parquet, part, registered, txn, vector

Damage = Callable[[Table], Awaitable[object]]
KINDS = ["none", "classic", "multipart", "v2"]


async def tombstone(world: AuditedWorld, start: int, partition: str = "0") -> None:
    """Replace a file by a tombstone."""
    name = f"p/{world.slot(partition, start)}"
    found = await world.files.head(name)
    assert found is not None
    await world.files.put(name, b"", metadata={**found.metadata, "tombstone": WHEN})


def messages(report: AuditReport, code: Code) -> list[str]:
    """The messages of one code."""
    return [finding.message for finding in report.findings if finding.code is code]


@pytest.mark.parametrize("kind", KINDS)
@virtual
async def test_a_table_is_clean_and_shown_with_every_kind_of_checkpoint(kind: str) -> None:
    made = await registered()
    await made.checkpoint(kind)
    report = await made.world.audit()
    assert (report.exit_code, report.counts) == (0, {"TableBehind": 2}), report.findings
    found = report.table
    assert found is not None
    assert (found.version, found.files, found.rows, found.removed, found.lag_files) == (3, 6, 60, 0, 2)
    console = Console(record=True, width=200)
    show(report, console)
    assert "Delta table: version 3, 6 files, 60 rows; 2 files not in it yet" in console.export_text()
    assert "80 events, version 3 of the Delta table;" in report.summary


@virtual
async def test_without_a_log_there_is_no_table() -> None:
    world = await sample()
    assert (await world.audit()).table is None
    await world.put("part-0000.parquet", b"x")
    assert (await world.audit()).counts == {"ForeignNames": 1}


@virtual
async def test_files_of_other_programs_are_no_strays_if_there_is_a_table() -> None:
    made = await registered()
    for name in (
        "part-1.c000.snappy.parquet",
        "aZ/part-2.parquet",
        "deletion_vector_1.bin",
        "_change_data/cdc-1.parquet",
    ):
        await made.world.put(name, b"x")
    assert (await made.world.audit()).counts == {"TableBehind": 2}
    await made.world.put("other.parquet", b"x")
    assert (await made.world.audit()).counts == {"TableBehind": 2, "ForeignNames": 1}


async def optimized(made: Table) -> None:
    """OPTIMIZE: two files of the consumer become one."""
    removes = [made.remove(start, dataChange=False) for start in (0, 10)]
    await made.commit(*removes, part("1", 20), operation="OPTIMIZE")


@pytest.mark.parametrize("kind", KINDS)
@virtual
async def test_what_other_programs_do_with_the_table_is_no_damage(kind: str) -> None:
    made = await registered()
    await optimized(made)
    await made.commit(NEWER, metadata(), operation="SET TBLPROPERTIES")
    gone = [made.remove(100, "1"), await made.add(100, "1", deletionVector=vector(3))]
    await made.commit(*gone, operation="DELETE")
    await made.checkpoint(kind)
    more = [
        made.remove(100, "1", deletionVector=vector(3)),
        await made.add(100, "1", deletionVector=vector(4, offset=60)),
    ]
    await made.commit(*more, operation="DELETE")
    await made.commit(made.remove(110, "1"), operation="DELETE")
    await made.commit(await made.add(20, dataChange=False), operation="COMPUTE STATS")
    report = await made.world.audit()
    assert (report.exit_code, report.counts) == (0, {"TableBehind": 2, "TableFilesRemoved": 3}), report.findings
    assert report.table is not None
    assert (report.table.files, report.table.rows, report.table.removed) == (4, 46, 3)
    restored = [await made.add(start) for start in (0, 10)]
    await made.commit(*restored, {"remove": {"path": "part-1.parquet", "dataChange": True}}, operation="RESTORE")
    report = await made.world.audit()
    assert (report.exit_code, report.counts["TableFilesRemoved"]) == (0, 1), report.findings
    assert report.table is not None and (report.table.files, report.table.rows) == (5, 46)


@virtual
async def test_files_whose_events_the_handler_dropped_need_no_bounds_or_are_not_in_the_table() -> None:
    made = Table(AuditedWorld())
    await made.world.begin(p0=0)
    await made.world.file("0", 0, [2, 3], dropped=[0, 1, 4])
    await made.world.file("0", 5, [], dropped=range(5, 9))
    await made.world.file("0", 9, [], dropped=[9])
    await made.world.lease("0", 9)
    await made.begin()
    tight = {"numRecords": 2, "minValues": {"sequence_number": 2}, "maxValues": {"sequence_number": 3}}
    await made.commit(txn(8), await made.add(0, stats=json.dumps({"numRecords": 2})))
    report = await made.world.audit(deep=True)
    assert (report.exit_code, report.counts) == (0, {}), report.findings
    for stats, counts in ((tight, {}), ({"numRecords": 5}, {"TableFileWrong": 1})):
        await made.commit(await made.add(0, stats=json.dumps(stats), dataChange=False), operation="COMPUTE STATS")
        assert (await made.world.audit()).counts == counts


@virtual
async def test_pruned_files_are_passed_over_or_removed_from_the_table_before() -> None:
    made = Table(await sample())
    await tombstone(made.world, 0)
    await made.begin()
    await made.register(10, position=19)
    await made.commit(made.remove(10), operation="DELETE")
    await tombstone(made.world, 10)
    report = await made.world.audit()
    assert (report.exit_code, report.counts) == (0, {"TableBehind": 6, "Tombstones": 2}), report.findings


class Pruning(StoreContainer):
    """A step of retention that removes a file from the table and replaces it after the audit read the table."""

    made: Table
    done = False

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        if prefix == "p/" and not self.done:
            self.done = True
            await self.made.commit(self.made.remove(0), operation="DELETE")
            await tombstone(self.made.world, 0)
        async for info in super().walk(prefix):
            yield info


@virtual
async def test_a_file_that_is_pruned_during_the_audit_is_no_damage() -> None:
    made = await registered()
    container = Pruning(made.world.files)
    container.made = made
    leases = LeaseSubject(StoreContainer(made.world.leases, "leases"), "", "$Default")
    report = await audit(Subject(container, "p", leases))
    assert (report.exit_code, report.counts) == (0, {"TableBehind": 2, "Tombstones": 1}), report.findings


def adds(start: int, partition: str = "0", **changes: Any) -> Damage:
    """One more commit that adds a file."""

    async def damage(made: Table) -> None:
        await made.commit(await made.add(start, partition, **changes))

    return damage


def moves(position: int, partition: str = "0", **owner: str) -> Damage:
    """One more commit that sets a position."""
    return lambda made: made.commit(txn(position, partition, **owner))


def resized(**changes: Any) -> Damage:
    """The next file is added with other facts."""

    async def damage(made: Table) -> None:
        await made.commit(txn(39), await made.add(30, **changes))

    return damage


async def added_after_its_removal(made: Table) -> None:
    await optimized(made)
    await made.commit(await made.add(0))


async def twice_in_a_commit(made: Table) -> None:
    await made.commit(txn(39), await made.add(30), await made.add(30))


async def twice_in_a_checkpoint(made: Table) -> None:
    action = await made.add(0)
    await made.world.put(f"_delta_log/{made.version:020d}.checkpoint.parquet", parquet([*made.snapshot(), action]))


async def removed_without_its_vector(made: Table) -> None:
    """The file stays, because its `remove` names another logical file; then it becomes a tombstone."""
    await made.commit(made.remove(0), await made.add(0, deletionVector=vector(1)), operation="DELETE")
    await made.commit(made.remove(0), operation="DELETE")
    await tombstone(made.world, 0)


async def not_in_the_chain(made: Table) -> None:
    action = await made.add(0)
    action["add"]["path"] = made.path(5)
    await made.commit(action)


async def of_another_segment_id(made: Table) -> None:
    action = await made.add(0)
    action["add"]["path"] = made.path(0).replace(ERA, "0" * 16)
    await made.commit(action)


def deleted(version: int) -> Damage:
    """A commit is deleted."""

    async def damage(made: Table) -> None:
        fake(made.world.files).delete(f"p/{made.commit_name(version)}")

    return damage


async def end_deleted(made: Table) -> None:
    await made.checkpoint()
    fake(made.world.files).delete(f"p/_delta_log/{made.version:020d}.checkpoint.parquet")
    await deleted(made.version)(made)


DAMAGES: list[tuple[str, Damage, Code, str]] = [
    ("a file is left out", moves(39), Code.TABLE_FILE_MISSING, "does not have the file, but its position is 39"),
    ("a file is added again", adds(0), Code.TABLE_FILE_TWICE, "file from 0: version 4 of the table adds it, but the"),
    ("a file is added after its removal", added_after_its_removal, Code.TABLE_FILE_TWICE, "it was removed before"),
    ("a file is added twice in a commit", twice_in_a_commit, Code.TABLE_FILE_TWICE, "adds it twice"),
    ("a file is twice in a checkpoint", twice_in_a_checkpoint, Code.TABLE_FILE_TWICE, "version 3 has it twice"),
    ("a file is added without a position", adds(30), Code.TABLE_FILE_WRONG, "position is 29: hosts would add"),
    ("a path is no file", not_in_the_chain, Code.TABLE_FILE_WRONG, "no file of the chain"),
    ("a path is of another segment", of_another_segment_id, Code.TABLE_FILE_WRONG, "no file of the chain"),
    ("a file is a tombstone", lambda made: tombstone(made.world, 0), Code.TABLE_FILE_WRONG, "it is a tombstone"),
    ("another vector is removed", removed_without_its_vector, Code.TABLE_FILE_WRONG, "it is a tombstone"),
    ("another size", resized(size=1), Code.TABLE_FILE_WRONG, "a file of 1 bytes, but the file has"),
    ("another count", resized(stats='{"numRecords":9}'), Code.TABLE_FILE_WRONG, "9 rows, but the file has 10"),
    (
        "bounds that hide rows",
        resized(stats='{"numRecords":10,"minValues":{"sequence_number":31},"maxValues":{"sequence_number":39}}'),
        Code.TABLE_FILE_WRONG,
        "sequence numbers 31 to 39 in its statistics, but the file has 30 to 39",
    ),
    ("a position beyond the end", moves(49), Code.TABLE_POSITION_WRONG, "is 49, but the files end at 39"),
    ("a position of no partition", moves(9, "7"), Code.TABLE_POSITION_WRONG, "the partition has no files"),
    (
        "a position inside a file",
        moves(35),
        Code.TABLE_POSITION_WRONG,
        "35 of the Delta table is inside the file of 30",
    ),
    ("a position before the chain", moves(9, "1"), Code.TABLE_POSITION_WRONG, "is 9, but the chain starts at 100"),
    ("a position goes back", moves(9), Code.TABLE_POSITION_WRONG, "sets its position from 29 back to 9"),
    ("another chain", moves(39, chain="feedc0defeedc0de"), Code.CHAIN_DIFFERS, "names chain feedc0defeedc0de"),
    ("the first commit is deleted", deleted(0), Code.TABLE_LOG_MISSING, "has no version 0 before version 3"),
    ("a commit is deleted", deleted(2), Code.TABLE_LOG_MISSING, "has no version 2 before version 3"),
    ("the end is deleted", end_deleted, Code.TABLE_LOG_MISSING, "ends at version 2, but _last_checkpoint names"),
]


@pytest.mark.parametrize(("damage", "code", "text"), table(DAMAGES))
@virtual
async def test_damage_to_the_table_is_a_violation_with_its_name(damage: Damage, code: Code, text: str) -> None:
    made = await registered()
    await damage(made)
    report = await made.world.audit()
    assert report.exit_code == 2, report.findings
    assert any(text in message for message in messages(report, code)), report.findings


UNREADABLE: list[tuple[str, Damage, str]] = [
    ("no JSON", lambda made: made.world.put(made.commit_name(2), b"{"), "00002.json of the Delta table cannot be read"),
    ("no object", lambda made: made.world.put(made.commit_name(2), b"[]"), "a line is no action"),
    ("an add without a path", lambda made: made.commit({"add": {"size": 1}}), "cannot be read: KeyError: 'path'"),
    ("a size that is no number", lambda made: made.commit({"add": {"path": "a", "size": "1"}}), "'1' is not a 64-bit"),
    ("a position that is no number", lambda made: made.commit(txn(2**63)), "is not a 64-bit number"),
    (
        "no Parquet",
        lambda made: made.world.put(f"_delta_log/{3:020d}.checkpoint.parquet", b"x"),
        "3.checkpoint.parquet of the Delta table cannot be read: ArrowInvalid",
    ),
    (
        "commits in a catalog",
        lambda made: made.commit(
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["catalogManaged"]}}
        ),
        "its commits are in a catalog",
    ),
    (
        "a newer protocol",
        lambda made: made.commit({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}),
        "4 of the",
    ),
]


@pytest.mark.parametrize(("damage", "text"), table(UNREADABLE))
@virtual
async def test_a_log_that_cannot_be_read_is_named_and_the_rest_is_audited(damage: Damage, text: str) -> None:
    made = await registered()
    await damage(made)
    report = await made.world.audit()
    assert (report.exit_code, len(report.partitions), report.counts) == (3, 2, {"Unreadable": 1}), report.findings
    assert text in report.summary
    assert report.table is not None and report.table.version is None
    printed = StringIO()
    show(report, Console(file=printed))
    assert "Delta table: the log cannot be read" in printed.getvalue()


class Large(StoreContainer):
    """A commit that is listed with more bytes than the audit reads."""

    async def walk(self, prefix: str) -> AsyncIterator[BlobInfo]:
        async for info in super().walk(prefix):
            large = info.name.endswith("2.json") and "_delta_log" in prefix
            yield BlobInfo(info.name, "", RECORD_MAX_BYTES + 1, info.last_modified) if large else info

    async def read(self, name: str, limit: int = RECORD_MAX_BYTES) -> bytes | None:
        assert not name.endswith(f"_delta_log/{2:020d}.json")
        return await super().read(name, limit)


@virtual
async def test_a_commit_that_is_too_large_is_named_and_not_read() -> None:
    made = await registered()
    report = await audit(Subject(Large(made.world.files), "p"))
    assert report.exit_code == 3
    assert "00002.json has 67108865 bytes, and the audit reads 67108864 at most" in report.summary


class Cleaned(StoreContainer):
    """A host that writes a checkpoint and deletes the commits before it, while the audit reads them."""

    made: Table
    reads = 0

    async def read(self, name: str, limit: int = RECORD_MAX_BYTES) -> bytes | None:
        if name.endswith(f"{1:020d}.json"):
            self.reads += 1
            await self.made.checkpoint()
            for version in range(self.made.version):
                fake(self.store).delete(f"p/{self.made.commit_name(version)}")
        return await super().read(name, limit)


@virtual
async def test_commits_that_a_host_deletes_during_the_read_are_read_from_the_checkpoint() -> None:
    made = await registered()
    container = Cleaned(made.world.files)
    container.made = made
    leases = LeaseSubject(StoreContainer(made.world.leases, "leases"), "", "$Default")
    report = await audit(Subject(container, "p", leases))
    assert (report.exit_code, container.reads) == (0, 1), report.findings
    assert report.table is not None and (report.table.version, report.table.files) == (3, 6)


@virtual
async def test_a_multi_part_checkpoint_with_a_missing_part_is_ignored() -> None:
    made = await registered()
    await made.checkpoint("multipart")
    fake(made.world.files).delete(f"p/_delta_log/{3:020d}.checkpoint.{2:010d}.{2:010d}.parquet")
    assert (await made.world.audit()).exit_code == 0
