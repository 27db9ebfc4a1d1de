"""A host removes files from the Delta table, beside programs that commit, and on storage that loses responses."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from eventconsumer_api.errors import Blocked
from eventconsumer_host.table.log import REMOVALS, TableLog
from tests.support.clocks import virtual_clock
from tests.support.confined import Here
from tests.support.fakes.blobs import FakeBlobStore, Fault
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import ERA, fake, sample, table
from tests.unit.audit.deltatables import NEWER, Action, Table, info, metadata, part, registered, txn, vector

NOW = datetime(2100, 1, 1, tzinfo=UTC)
KEYS = (("0", 0), ("0", 10), ("0", 20), ("1", 100), ("1", 110))
"""The files to remove: partition and start. One is not in the table any more."""


async def half() -> Table:
    """The first files are in the table; OPTIMIZE rewrote one, and a file has a deletion vector."""
    made = Table(await sample())
    await made.begin(NEWER)
    await made.register(0, 10, 20, position=29)
    await made.register(100, 110, position=119, partition="1")
    await made.commit(made.remove(0, dataChange=False), part("1", 10), operation="OPTIMIZE")
    gone = [made.remove(10), await made.add(10, deletionVector=vector(2))]
    await made.commit(*gone, operation="DELETE")
    return made


async def remove(made: Table) -> None:
    """Remove the files."""
    log = TableLog(made.world.files, "p", Here())
    await log.remove([made.path(start, partition) for partition, start in KEYS], NOW, lambda: None)


async def commit_of(made: Table, version: int) -> list[Action]:
    """The actions of a commit."""
    blob = await made.world.files.read(f"p/{made.commit_name(version)}", 10**6)
    assert blob is not None
    return [json.loads(line) for line in blob.data.splitlines()]


@pytest.mark.parametrize("checkpoint", ["", "classic", "multipart", "v2"])
@virtual
async def test_the_files_that_the_table_has_are_removed_in_one_version(checkpoint: str) -> None:
    made = await half()
    if checkpoint:
        await made.checkpoint(checkpoint)
    await remove(made)
    first, *removes = await commit_of(made, 5)
    assert first["commitInfo"]["operation"] == "DELETE"
    by_path = {action["remove"]["path"]: action["remove"] for action in removes}
    assert by_path.keys() == {made.path(start, partition) for partition, start in KEYS if start}
    kept = await made.world.files.head(f"p/{made.path(20)}")
    assert kept is not None
    assert by_path[made.path(20)] == {
        "path": f"segment={ERA}/partition=0/from={20:020d}.parquet",
        "deletionTimestamp": int(NOW.timestamp() * 1000),
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": kept.size,
    }
    assert by_path[made.path(10)]["deletionVector"] == vector(2)
    report = await made.world.audit()
    assert report.table is not None and (report.table.files, report.table.rows) == (1, 10), report.findings
    await remove(made)
    assert await made.world.files.head(f"p/{made.commit_name(6)}") is None, "nothing is left to remove"


@virtual
async def test_without_a_table_nothing_is_committed() -> None:
    made = Table(await sample())
    await remove(made)
    assert not [name for name in fake(made.world.files).blobs if "_delta_log" in name]


@pytest.mark.parametrize("applied", [False, True])
@virtual
async def test_a_commit_whose_reply_is_lost_is_decided_from_the_log(applied: bool) -> None:
    made = await half()
    fake(made.world.files).faults.append(Fault("put", applied=applied))
    await remove(made)
    assert len(await commit_of(made, 5)) == 5
    assert await made.world.files.head(f"p/{made.commit_name(6)}") is None


class Rival(FakeBlobStore):
    """Another program that commits just before a host does."""

    made: Table
    commits: list[list[Action]]

    async def put(self, name: str, data: bytes, **options: Any) -> str:
        """See `BlobStore`."""
        if "_delta_log" in name and options.get("if_absent") and self.commits:
            await self.made.commit(*self.commits.pop(0))
        return await super().put(name, data, **options)


def rival(made: Table, *commits: list[Action], kind: type[Rival] = Rival) -> Rival:
    """Let another program commit."""
    blobs = kind(virtual_clock)
    blobs.blobs, blobs._version = fake(made.world.files).blobs, 10**6  # noqa: SLF001 - the same blobs
    blobs.made, blobs.commits = made, list(commits)
    made.world.files = blobs
    return blobs


@virtual
async def test_a_commit_of_another_program_is_read_before_the_next_attempt() -> None:
    made = await half()
    again = vector(5, offset=99)
    changed = [made.remove(10, deletionVector=vector(2)), await made.add(10, deletionVector=again)]
    optimized = [made.remove(20, dataChange=False), part("2", 10)]
    rival(made, changed, optimized)
    await remove(made)
    removes = {action["remove"]["path"][-28:]: action["remove"] for action in (await commit_of(made, 7))[1:]}
    assert removes[f"{10:020d}.parquet"]["deletionVector"] == again
    assert f"{20:020d}.parquet" not in removes
    assert len(removes) == 3
    report = await made.world.audit()
    assert report.table is not None and report.table.rows == 20, report.findings


@virtual
async def test_a_table_that_changes_its_protocol_is_not_written() -> None:
    made = await half()
    rival(made, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 5}}])
    with pytest.raises(Blocked, match="the Delta table has writer version 5, which hosts do not support"):
        await remove(made)
    assert await made.world.files.head(f"p/{made.commit_name(6)}") is None


@virtual
async def test_a_version_that_is_free_again_below_a_checkpoint_removes_nothing() -> None:
    """Hosts wrote a checkpoint and deleted old commits, while this one was paused after it read the log."""
    made = await half()

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

    rival(made, [], kind=Paused)
    await remove(made)
    watched = frozenset(made.path(start, partition) for partition, start in KEYS)
    state, _ = await TableLog(made.world.files, "p", Here()).read(watched)
    assert (state.version, dict(state.files)) == (7, {})
    assert await commit_of(made, 5)  # the put that had no effect


REFUSED: list[tuple[str, list[Action], str]] = [
    ("an old protocol", [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 6}}], "has writer version 6"),
    (
        "a feature",
        [{"protocol": NEWER["protocol"] | {"writerFeatures": ["appendOnly", "rowTracking"]}}],
        "has the table feature rowTracking, which hosts do not support",
    ),
    ("append only", [metadata(**{"delta.appendOnly": "true"})], "property delta.appendOnly of the Delta table is true"),
]


@pytest.mark.parametrize(("actions", "text"), table(REFUSED))
@virtual
async def test_a_table_that_must_not_be_written_is_refused_with_the_remedy(actions: list[Action], text: str) -> None:
    made = await half()
    await made.commit(*actions, operation="SET TBLPROPERTIES")
    with pytest.raises(Blocked, match=text):
        await remove(made)


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
async def test_files_are_removed_from_each_table_that_hosts_write(protocol: Action, accepted: bool) -> None:
    made = Table(await sample())
    await made.begin()
    await made.register(0, 10, position=19)
    await made.commit({"protocol": protocol}, operation="UPGRADE PROTOCOL")
    if accepted:
        await remove(made)
        assert len(await commit_of(made, 3)) == 3
    else:
        with pytest.raises(Blocked):
            await remove(made)
    state, _ = await TableLog(made.world.files, "p", Here()).read()
    assert bool(state.unsupported) is bool(state.keeps_files) is not accepted, state.unsupported


@virtual
async def test_a_table_that_has_none_of_the_files_may_have_any_protocol() -> None:
    made = Table(await sample())
    await made.begin()
    gone = [made.remove(start) for start in (0, 10)]
    await made.register(0, 10, position=19)
    await made.commit(*gone, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 5}}, operation="DELETE")
    await remove(made)


@virtual
async def test_a_table_that_always_changes_is_given_up() -> None:
    made = await half()
    rival(made, *[[info("WRITE")] for _ in range(REMOVALS)])
    with pytest.raises(Blocked, match=r"4 files could not be removed .* in 20 attempts"):
        await remove(made)


@virtual
async def test_a_log_that_cannot_be_read_is_not_written() -> None:
    made = await registered()
    await made.world.put(made.commit_name(2), b"{")
    with pytest.raises(Blocked, match="cannot be read"):
        await remove(made)


@pytest.mark.parametrize("checkpoint", [False, True])
@virtual
async def test_a_path_that_another_writer_escaped_is_the_same_file(checkpoint: bool) -> None:
    made = await half()
    escaped = made.path(20).replace("=", "%3D")
    await made.commit(made.remove(20, dataChange=False), operation="OPTIMIZE")
    add = {"path": escaped, "partitionValues": {}, "size": 1, "dataChange": False}
    await made.commit({"add": add}, operation="OPTIMIZE")
    if checkpoint:
        await made.checkpoint()
    await remove(made)
    assert escaped in {action["remove"]["path"] for action in (await commit_of(made, 7))[1:]}
