"""Prune removes files from the Delta table before it replaces them, and can be killed between any two requests."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from eventconsumer_audit.container import StoreContainer
from eventconsumer_audit.owners import LeaseSubject
from eventconsumer_audit.read import Subject
from eventconsumer_audit.tablelog import TableLog
from eventconsumer_host.errors import CommandError
from eventconsumer_host.prune.tableprune import ATTEMPTS, remove_files
from eventconsumer_host.table import delta
from eventconsumer_storage.errors import StorageError
from eventconsumer_tools.prune import Pruned, PrunePlan, carry_out, plan
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import ERA, World, clock, fake, sample, table
from tests.unit.audit.deltatables import NEWER, Action, Table, info, metadata, part, registered, txn, vector

NOW = datetime(2100, 1, 1, tzinfo=UTC)
LAST = "the last file of its chain"


class Killed(Exception):  # noqa: N818 - an event
    """The program ended."""


class Mortal(FakeBlobStore):
    """A container whose client is killed at one of its puts: before it is applied, or after."""

    kill_at = 0  # number of the put; 0: never
    applied = False
    puts = 0
    dead = False

    def _begin(self, operation: str, name: str) -> StorageError | None:
        if self.dead:
            raise Killed
        lost = super()._begin(operation, name)
        self.puts += operation == "put"
        if operation == "put" and self.puts == self.kill_at:
            self.dead = True
            if not self.applied:
                raise Killed
            return Killed()  # type: ignore[return-value]
        return lost


def subject(world: World) -> Subject:
    """The consumer to prune."""
    leases = LeaseSubject(StoreContainer(world.leases, "leases"), "", "$Default")
    return Subject(StoreContainer(world.files), "p", leases)


async def planned(made: Table) -> PrunePlan:
    """What prune would do."""
    return await plan(subject(made.world), NOW, batches=False)


async def pruned(made: Table) -> Pruned:
    """Prune."""
    return await carry_out(await planned(made), made.world.files, NOW)


async def commit_of(made: Table, version: int) -> list[Action]:
    """The actions of a commit."""
    blob = await made.world.files.read(f"p/{made.commit_name(version)}", 10**6)
    assert blob is not None
    return [json.loads(line) for line in blob.data.splitlines()]


async def committed(world: World) -> None:
    """Commit the second batch of the sample too, so that all its files may be pruned."""
    blob = await world.files.read(f"p/_batches/{2:010d}.json", 10**6)
    assert blob is not None
    await world.commit(json.loads(blob.data))


async def half() -> Table:
    """The first files are in the table; OPTIMIZE rewrote one, and a file has a deletion vector."""
    made = Table(await sample())
    await committed(made.world)
    await made.begin(NEWER)
    await made.register(0, 10, 20, position=29)
    await made.register(100, 110, position=119, partition="1")
    await made.commit(made.remove(0, dataChange=False), part("1", 10), operation="OPTIMIZE")
    gone = [made.remove(10), await made.add(10, deletionVector=vector(2))]
    await made.commit(*gone, operation="DELETE")
    return made


@virtual
async def test_files_are_removed_from_the_table_and_then_replaced() -> None:
    made = await half()
    found = await planned(made)
    assert (len(found.files), found.in_table) == (5, 4)
    assert found.kept == {"not in the Delta table yet": 1, LAST: 2}
    blobs = fake(made.world.files)
    blobs.calls.clear()
    assert (await carry_out(found, blobs, NOW)).files == 5
    puts = [name for operation, name in blobs.calls if operation == "put"]
    assert puts[0] == f"p/{made.commit_name(5)}"
    assert sorted(puts[1:]) == sorted(file.name for file in found.files)
    first, *removes = await commit_of(made, 5)
    assert first["commitInfo"]["operation"] == "DELETE"
    moment = int(NOW.timestamp() * 1000)
    expected: dict[str, Any] = {
        "path": f"inc={ERA}/partition=0/from={20:020d}.parquet",
        "deletionTimestamp": moment,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": next(file.size for file in found.files if file.start == 20),
    }
    assert removes[1] == {"remove": expected}
    assert removes[0]["remove"]["deletionVector"] == vector(2)
    report = await made.world.audit(deep=True)
    assert report.exit_code == 0, report.findings
    assert report.counts == {"Tombstones": 5, "TableBehind": 3}
    assert report.table is not None and (report.table.files, report.table.rows, report.table.removed) == (1, 10, 5)
    assert (await planned(made)).files == []


@virtual
async def test_without_a_table_nothing_is_committed() -> None:
    made = Table(await sample())
    assert (await pruned(made)).files == 4
    assert not [name for name in fake(made.world.files).blobs if "_delta_log" in name]


async def until_killed(put: int, *, applied: bool) -> tuple[Table, bool]:
    """Prune until the program is killed at a put; whether it was."""
    made = await half()
    blobs = Mortal(clock)
    blobs.blobs, blobs._version = fake(made.world.files).blobs, 10**6  # noqa: SLF001 - the same blobs
    made.world.files = blobs
    found = await planned(made)
    blobs.kill_at, blobs.applied, blobs.puts = put, applied, 0
    try:
        await carry_out(found, blobs, NOW)
    except Killed:
        await asyncio.sleep(60)  # no other request of the dead program is applied
        blobs.kill_at, blobs.dead = 0, False
        return made, True
    return made, False


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("put", range(1, 7))
@virtual
async def test_a_prune_that_is_killed_at_a_request_is_completed_by_the_next(put: int, applied: bool) -> None:
    made, killed = await until_killed(put, applied=applied)
    assert killed
    report = await made.world.audit(deep=True)
    assert report.exit_code == 0, report.findings
    await pruned(made)
    report = await made.world.audit(deep=True)
    assert (report.exit_code, report.counts) == (0, {"Tombstones": 5, "TableBehind": 3}), report.findings
    versions = [name for name in fake(made.world.files).blobs if "_delta_log" in name]
    assert len(versions) == 6, "the files are removed by one commit"


@virtual
async def test_a_prune_has_as_many_puts_as_the_test_kills() -> None:
    _, killed = await until_killed(7, applied=False)
    assert not killed


@pytest.mark.parametrize("applied", [False, True])
@virtual
async def test_a_commit_whose_reply_is_lost_is_decided_from_the_log(applied: bool) -> None:
    made = await half()
    found = await planned(made)
    fake(made.world.files).faults.append(Fault("put", applied=applied))
    assert (await carry_out(found, made.world.files, NOW)).files == 5
    assert len(await commit_of(made, 5)) == 5
    assert await made.world.files.head(f"p/{made.commit_name(6)}") is None
    assert (await made.world.audit()).exit_code == 0


class Rival(FakeBlobStore):
    """Another program that commits just before prune does."""

    made: Table
    commits: list[list[Action]]

    async def put(self, name: str, data: bytes, **options: Any) -> str:
        """See `BlobStore`."""
        if "_delta_log" in name and options.get("if_absent") and self.commits:
            await self.made.commit(*self.commits.pop(0))
        return await super().put(name, data, **options)


def rival(made: Table, *commits: list[Action], kind: type[Rival] = Rival) -> Rival:
    """Let another program commit."""
    blobs = kind(clock)
    blobs.blobs, blobs._version = fake(made.world.files).blobs, 10**6  # noqa: SLF001 - the same blobs
    blobs.made, blobs.commits = made, list(commits)
    made.world.files = blobs
    return blobs


@virtual
async def test_a_commit_of_another_program_is_read_before_the_next_attempt() -> None:
    made = await half()
    found = await planned(made)
    again = vector(5, offset=99)
    changed = [made.remove(10, deletionVector=vector(2)), await made.add(10, deletionVector=again)]
    optimized = [made.remove(20, dataChange=False), part("2", 10)]
    rival(made, changed, optimized)
    assert (await carry_out(found, made.world.files, NOW)).files == 5
    removes = {action["remove"]["path"][-28:]: action["remove"] for action in (await commit_of(made, 7))[1:]}
    assert removes[f"{10:020d}.parquet"]["deletionVector"] == again
    assert f"{20:020d}.parquet" not in removes
    assert len(removes) == 3
    report = await made.world.audit()
    assert report.exit_code == 0, report.findings
    assert report.table is not None and report.table.rows == 20


@virtual
async def test_a_table_that_changes_its_protocol_is_not_written() -> None:
    made = await half()
    found = await planned(made)
    rival(made, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 5}}])
    with pytest.raises(CommandError, match="the Delta table has writer version 5, which prune does not support"):
        await carry_out(found, made.world.files, NOW)
    report = await made.world.audit()
    assert (report.exit_code, report.counts.get("Tombstones")) == (0, None), report.findings


@virtual
async def test_a_version_that_is_free_again_below_a_checkpoint_removes_nothing() -> None:
    """Hosts wrote a checkpoint and deleted old commits, while prune was paused after it read the log."""
    made = await half()
    found = await planned(made)

    class Paused(Rival):
        async def put(self, name: str, data: bytes, **options: Any) -> str:
            if "_delta_log" in name and options.get("if_absent") and self.commits:
                self.commits.clear()
                for _ in range(2):
                    await made.commit(txn(29))
                await made.checkpoint()
                for version in range(made.version):
                    self.delete(f"p/{made.commit_name(version)}")
            return await super().put(name, data, **options)

    blobs = rival(made, [], kind=Paused)
    keys = [(file.place, file.start) for file in found.files]
    log = TableLog(StoreContainer(blobs), "p/")
    await remove_files(log, blobs, keys, NOW)
    state = await log.read()
    assert state is not None and state.version == 7
    assert not any(state.is_active(*key) for key in keys)
    assert await commit_of(made, 5)  # the put that had no effect


REFUSED: list[tuple[str, list[Action], str]] = [
    ("an old protocol", [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 6}}], "has writer version 6"),
    (
        "a feature",
        [{"protocol": NEWER["protocol"] | {"writerFeatures": ["appendOnly", "rowTracking"]}}],
        "has the table feature rowTracking, which prune does not support",
    ),
    ("append only", [metadata(**{"delta.appendOnly": "true"})], "property delta.appendOnly of the Delta table is true"),
]


@pytest.mark.parametrize(("actions", "text"), table(REFUSED))
@virtual
async def test_a_table_that_must_not_be_written_is_refused_with_the_remedy(actions: list[Action], text: str) -> None:
    made = await half()
    await made.commit(*actions, operation="SET TBLPROPERTIES")
    found = await planned(made)
    assert found.files == []
    assert text in found.refusal
    assert not found.refused


PROTOCOLS: list[tuple[str, Action, bool]] = [
    *(
        (f"writer version {version}", {"minReaderVersion": 1, "minWriterVersion": version}, version <= 4)
        for version in range(1, 7)
    ),
    *(
        (feature, NEWER["protocol"] | {"writerFeatures": ["deletionVectors", feature]}, accepted)
        for feature, accepted in (("changeDataFeed", True), ("checkConstraints", True), ("identityColumns", False))
    ),
]


@pytest.mark.parametrize(("protocol", "accepted"), table(PROTOCOLS))
@virtual
async def test_prune_removes_files_from_each_table_that_hosts_write(protocol: Action, accepted: bool) -> None:
    made = Table(await sample())
    await committed(made.world)
    await made.begin()
    await made.register(0, 10, position=19)
    await made.commit({"protocol": protocol}, operation="UPGRADE PROTOCOL")
    found = await planned(made)
    assert bool(found.refusal) is not accepted, found.refusal
    if accepted:
        assert (await pruned(made)).files == found.in_table == 2
        assert (await made.world.audit()).exit_code == 0
    hosts = delta.TableState(0, {}, protocol, metadata()["metaData"])
    assert bool(hosts.unsupported) is not accepted, hosts.unsupported


@virtual
async def test_a_table_that_has_none_of_the_files_may_have_any_protocol() -> None:
    made = Table(await sample())
    await made.begin()
    gone = [made.remove(start) for start in (0, 10)]
    await made.register(0, 10, position=19)
    await made.commit(*gone, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 5}}, operation="DELETE")
    assert (await pruned(made)).files == 2
    assert (await made.world.audit()).exit_code == 0


@virtual
async def test_a_table_that_always_changes_is_given_up() -> None:
    made = await half()
    found = await planned(made)
    rival(made, *[[info("WRITE")] for _ in range(ATTEMPTS)])
    with pytest.raises(CommandError, match=r"5 files could not be removed .* in 20 attempts; .* Run prune again"):
        await carry_out(found, made.world.files, NOW)
    assert (await made.world.audit()).counts.get("Tombstones") is None


@virtual
async def test_a_log_that_cannot_be_read_refuses_the_prune() -> None:
    made = await registered()
    await made.world.put(made.commit_name(2), b"{")
    found = await planned(made)
    assert found.refused
    assert found.files == []
