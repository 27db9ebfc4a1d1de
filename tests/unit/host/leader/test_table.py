"""The committer of the table on storage that fails, beside other committers and beside a program that optimizes."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from eventconsumer_api.errors import Blocked
from eventconsumer_api.spec.body_columns import BodyColumn, schema_columns
from eventconsumer_host.body.parser import body_parser
from eventconsumer_host.body.record import enter
from eventconsumer_host.body.typed import TypedBodies
from eventconsumer_host.leader.table import Committer
from eventconsumer_host.leader.tail import LookPace, Segment, Tail
from eventconsumer_host.leader.task import View
from eventconsumer_host.sink.parquet import SCHEMA, encode
from eventconsumer_host.sink.slots import Chain, EnqueuedRange, utc_now
from eventconsumer_host.table import checkpoint
from eventconsumer_host.table.log import TableLog
from eventconsumer_storage.errors import StorageError, Unavailable
from tests.support.confined import Here
from tests.support.fakes.blobs import EPOCH, FakeBlobStore, Fault
from tests.support.fakes.hub import batch_of
from tests.unit.host.chains import NOON, draft, tombstone

PARTITIONS = ("0", "1")
COLUMNS = schema_columns("a BIGINT, b STRING, c DOUBLE")
LOG = "p/_delta_log/"


class Killed(Exception):
    """The process of a committer ended."""


class KilledStore(FakeBlobStore):
    """Ends the process at one of its requests."""

    left = 1_000_000

    def _begin(self, operation: str, name: str) -> StorageError | None:
        self.left -= 1
        if self.left < 0:
            raise Killed
        return super()._begin(operation, name)


class Looking(Committer):
    """A committer whose step looks for files, as `TableTask` does; the hub does not answer."""

    async def advance(self, partitions: Sequence[str]) -> None:
        await self._tail.follow(View(partitions), LookPace(0.0))
        await super().advance(partitions)


class Table:
    """A container with the chains of two partitions, and who registers their files."""

    def __init__(self, store: FakeBlobStore | None = None) -> None:
        self.seconds = 0.0
        self.store = store or FakeBlobStore(lambda: self.seconds)
        self.ends = dict.fromkeys(PARTITIONS, 0)

    def chain(self, partition: str) -> Chain:
        return Chain(self.store, "p", "era", partition)

    async def write(self, partition: str, events: int, dropped: Container[int] = ()) -> None:
        """Write the next file of a partition, without some events."""
        start = self.ends[partition]
        if start == 0:
            await self.chain(partition).begin(0)
        rows = [number for number in range(start, start + events) if number not in dropped]
        times = (
            EnqueuedRange(NOON + timedelta(seconds=rows[0]), NOON + timedelta(seconds=rows[-1] + 1)) if rows else None
        )
        file = replace(draft(start, start + events - 1, f"{partition}-{start}"), enqueued=times)
        file = replace(file, count=len(rows), dropped=events - len(rows))
        await self.chain(partition).put(file, _rows(partition, rows))
        self.ends[partition] = start + events

    async def write_typed(self, partition: str, columns: Sequence[BodyColumn], bodies: Sequence[bytes]) -> None:
        """Write the next file of a partition as a host with these columns does; one without columns has none."""
        start = self.ends[partition]
        if start == 0:
            await self.chain(partition).begin(0)
        batch = batch_of(enumerate(bodies, start))
        file = draft(start, start + len(bodies) - 1, f"{partition}-{start}")
        entered = await enter(self.store, "p", columns)
        if entered.columns:
            typed = TypedBodies(entered, body_parser(entered.columns).parse, utc_now)
            batch = typed.typed(batch)
            file = replace(file, columns=typed.of_file, statistics=typed.statistics([batch]))
        await self.chain(partition).put(file, b"".join(encode([batch], partition, {}, entered.columns)))
        self.ends[partition] = start + len(bodies)

    def committer(self, versions: int = 1000, **options: Any) -> Committer:
        now = lambda: EPOCH + timedelta(seconds=self.seconds)  # noqa: E731
        tail = Tail([Segment("era", self.chain, now)], now)
        return Looking(self.store, "p", "c1", tail, now=now, confined=Here(), checkpoint_versions=versions, **options)

    def versions(self) -> list[list[dict[str, Any]]]:
        """The actions of each version in storage."""
        names = sorted(name for name in self.store.blobs if re.fullmatch(LOG + r"\d{20}\.json", name))
        return [[json.loads(line) for line in self.store.blobs[name].data.splitlines()] for name in names]

    def added(self) -> Counter[str]:
        """How often hosts have registered each path."""
        actions = (action for version in self.versions() for action in version)
        return Counter(action["add"]["path"] for action in actions if action.get("add", {}).get("dataChange"))

    def files(self) -> Counter[str]:
        """The files that must be registered."""
        return Counter(name.removeprefix("p/") for name in self.store.blobs if name.startswith("p/segment="))

    def optimize(self, rng: Random) -> None:
        """Replace registered files as another program does, in the next version."""
        state: dict[str, dict[str, Any]] = {}
        for version in self.versions():
            for action in version:
                if "add" in action:
                    state[action["add"]["path"]] = action["add"]
                if "remove" in action:
                    state.pop(action["remove"]["path"], None)
        chosen = [path for path in state if rng.random() < 0.5]
        actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "OPTIMIZE"}}]
        actions += [{"remove": {"path": path, "deletionTimestamp": 1, "dataChange": False}} for path in chosen]
        size = sum(state[path]["size"] for path in chosen)
        merged = f"part-{len(self.versions())}.parquet"
        add = {"path": merged, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": False}
        lines = [*actions, {"add": add}] if chosen else actions
        name = f"{LOG}{len(self.versions()):020d}.json"
        assert name not in self.store.blobs
        self.store._write(name, b"\n".join(json.dumps(line).encode() for line in lines), None)


def _rows(partition: str, numbers: Sequence[int]) -> bytes:
    columns: dict[str, Any] = {
        "sequence_number": list(numbers),
        "enqueued_time": [NOON + timedelta(seconds=number) for number in numbers],
        "partition_id": [partition] * len(numbers),
        "body": [b"x"] * len(numbers),
    }
    arrays = [pa.array(columns.get(field.name, [None] * len(numbers)), field.type) for field in SCHEMA]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), sink)
    return bytes(sink.getvalue())


def dumped(store: FakeBlobStore, folder: Path) -> Path:
    """The container as files, for programs that read a table."""
    for name, blob in store.blobs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(blob.data)
    return folder / "p"


def _read(root: Path) -> pa.Table:
    return DeltaTable(str(root)).to_pyarrow_table(columns=["partition_id", "sequence_number"])


async def test_delta_rs_reads_each_event_once_and_skips_files_by_their_statistics(tmp_path: Path) -> None:
    table = Table()
    for count in (3, 4):
        for partition in PARTITIONS:
            await table.write(partition, count)
    committer = table.committer()
    await committer.advance(PARTITIONS)
    report = committer.report
    assert report is not None
    assert (report.version, report.files, report.events, report.pending_files) == (1, 4, 14, 0)
    assert report.oldest_pending_time is None
    root = dumped(table.store, tmp_path)
    rows = _read(root).sort_by([("partition_id", "ascending"), ("sequence_number", "ascending")]).to_pylist()
    assert [(row["partition_id"], row["sequence_number"]) for row in rows] == [
        (partition, number) for partition in PARTITIONS for number in range(7)
    ]
    facts = pa.table(DeltaTable(str(root)).get_add_actions(flatten=True)).to_pylist()
    assert {(fact["min.sequence_number"], fact["max.sequence_number"], fact["num_records"]) for fact in facts} == {
        (0, 2, 3),
        (3, 6, 4),
    }
    assert {fact["max.enqueued_time"] for fact in facts} == {NOON + timedelta(seconds=second) for second in (3, 7)}


async def test_bounds_are_never_wider_than_the_rows_and_a_file_without_rows_is_passed_over(tmp_path: Path) -> None:
    """Some readers take the least and the greatest value of a column from the statistics."""
    table = Table()
    await table.write("0", 3, dropped={0, 2})
    await table.write("0", 2, dropped={3, 4})
    await table.write("0", 2)
    committer = table.committer()
    await committer.advance(PARTITIONS)
    report = committer.report
    assert report is not None
    assert (report.files, report.events, report.pending_files) == (3, 3, 0)
    root = dumped(table.store, tmp_path)
    assert sorted(_read(root)["sequence_number"].to_pylist()) == [1, 5, 6]
    facts = pa.table(DeltaTable(str(root)).get_add_actions(flatten=True)).to_pylist()
    assert {(fact["min.sequence_number"], fact["max.sequence_number"], fact["num_records"]) for fact in facts} == {
        (None, None, 1),
        (5, 6, 2),
    }
    assert {fact["min.enqueued_time"] for fact in facts} == {NOON + timedelta(seconds=second) for second in (1, 5)}


async def test_a_pruned_file_is_passed_over() -> None:
    table = Table()
    for _ in range(3):
        await table.write("0", 2)
    first = await table.chain("0").at(0)
    assert first is not None
    assert await tombstone(table.store, table.chain("0"), first)
    committer = table.committer()
    await committer.advance(PARTITIONS)
    assert set(table.added()) == {path for path in table.files() if not path.endswith(f"{0:020d}.parquet")}
    assert committer.report is not None
    assert committer.report.pending_files == 0


async def test_many_files_are_registered_in_order_from_a_listing() -> None:
    table = Table()
    for _ in range(60):
        await table.write("0", 1)
    await table.committer().advance(PARTITIONS)
    assert table.added() == table.files()
    assert len(table.versions()) == 2


async def _killed_at(request: int) -> bool:
    """Kill a committer at a request, and let another one continue; returns whether it was killed."""
    store = KilledStore(lambda: 0.0)
    table = Table(store)
    for partition in PARTITIONS:
        await table.write(partition, 2)
    await table.committer(versions=1).advance(PARTITIONS)
    for partition in PARTITIONS:
        await table.write(partition, 3)
    store.left = request
    try:
        await table.committer(versions=1).advance(PARTITIONS)
        killed = False
    except Killed:
        killed = True
    store.left = 1_000_000
    await table.committer(versions=1).advance(PARTITIONS)
    assert table.added() == table.files()
    return killed


@pytest.mark.slow
async def test_a_committer_may_be_killed_at_each_of_its_requests() -> None:
    request = 0
    while await _killed_at(request):
        request += 1
    assert request > 10


@pytest.mark.parametrize("seed", range(150))
async def test_files_are_registered_once_by_any_number_of_committers(seed: int) -> None:
    rng = Random(seed)
    table = Table()

    async def pause() -> None:
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)

    for operation in ("head", "read", "put", "list"):
        original = getattr(table.store, operation)

        async def slow(*arguments: Any, _original: Any = original, **options: Any) -> Any:
            await pause()
            return await _original(*arguments, **options)

        setattr(table.store, operation, slow)
    versions = rng.choice([2, 3, 1000])
    committers = [table.committer(versions) for _ in range(3)]

    async def run(number: int) -> None:
        for _ in range(rng.randrange(1, 6)):
            await pause()
            if rng.random() < 0.2:
                committers[number] = table.committer(versions)  # another process
            try:
                await committers[number].advance(PARTITIONS)
            except StorageError:
                continue

    async def happen() -> None:
        for _ in range(12):
            await pause()
            chance = rng.random()
            if chance < 0.5:
                partition = rng.choice(PARTITIONS)
                columns = rng.sample(COLUMNS, rng.randrange(len(COLUMNS)))
                try:
                    await table.write_typed(partition, columns, [b'{"a": 1, "b": "x"}'] * rng.randrange(1, 4))
                except StorageError:  # written or not: as the next file of its partition
                    table.store.faults.clear()
                    while (slot := await table.chain(partition).at(table.ends[partition])) is not None:
                        table.ends[partition] = slot.last + 1
            elif chance < 0.8:
                operation = rng.choice(["put", "put", "read", "head", "list"])
                table.store.faults.append(Fault(operation, applied=operation == "put" and rng.random() < 0.6))
            elif table.versions():
                table.optimize(rng)

    await asyncio.gather(*(run(number) for number in range(3)), happen())
    table.store.faults.clear()
    last = table.committer(versions)
    await last.advance(PARTITIONS)
    assert table.added() == table.files()
    _check_columns(table)
    numbers = _numbers(table)
    assert numbers == sorted(numbers)
    assert last.report is not None
    assert last.report.events == sum(table.ends.values())


def _check_columns(table: Table) -> None:
    """A version has all columns of its files, and of the versions before; a version adds columns only for its files."""
    names: list[str] = []
    for version in table.versions():
        files = [action["add"]["path"] for action in version if action.get("add", {}).get("dataChange")]
        of_files = {name for path in files for name in _schema(table.store, path)}
        for metadata in (action["metaData"] for action in version if "metaData" in action):
            now = [field["name"] for field in json.loads(metadata["schemaString"])["fields"]]
            assert now[: len(names)] == names
            assert len({name.lower() for name in now}) == len(now)
            assert not names or set(now[len(names) :]) <= of_files
            names = now
        assert of_files <= set(names)


def _schema(store: FakeBlobStore, path: str) -> list[str]:
    names: list[str] = pq.read_schema(pa.BufferReader(store.blobs[f"p/{path}"].data)).names
    return names


def _numbers(table: Table) -> list[int]:
    """Totals of events, version after version: they must never fall."""
    found = []
    for version in table.versions():
        found += [a["txn"]["version"] for a in version if a.get("txn", {}).get("appId") == "eventconsumer/c1/events"]
    return found


async def test_a_checkpoint_replaces_the_versions_before_it(tmp_path: Path) -> None:
    table = Table()
    committer = table.committer(versions=4)
    for round_ in range(14):
        table.seconds += 86_400 if round_ == 8 else 3600
        await table.write(PARTITIONS[round_ % 2], 2)
        await committer.advance(PARTITIONS)
    table.seconds += 86_400 * 8
    for _ in range(6):
        await table.write("0", 2)
        await committer.advance(PARTITIONS)
    names = {name.removeprefix(LOG) for name in table.store.blobs if name.startswith(LOG)}
    assert f"{0:020d}.json" not in names, "old versions are removed"
    assert sum("checkpoint.parquet" in name for name in names) >= 2
    root = dumped(table.store, tmp_path)
    assert sorted(_read(root)["sequence_number"].to_pylist()) == sorted(
        number for end in table.ends.values() for number in range(end)
    )
    await table.write("1", 1)
    another = table.committer()
    await another.advance(PARTITIONS)
    assert another.report is not None
    assert another.report.events == sum(table.ends.values())


async def test_a_checkpoint_keeps_what_other_programs_removed(tmp_path: Path) -> None:
    table = Table()
    for _ in range(4):
        await table.write("0", 2)
        await table.committer().advance(PARTITIONS)
    removed = sorted(table.files())[0]
    remove = {"path": removed, "deletionTimestamp": 1, "dataChange": True, "partitionValues": {}, "size": 1}
    table.store._write(f"{LOG}{len(table.versions()):020d}.json", json.dumps({"remove": remove}).encode(), None)
    committer = table.committer(versions=1)
    await table.write("0", 2)
    await committer.advance(PARTITIONS)
    await table.write("0", 2)
    await committer.advance(PARTITIONS)  # from the first checkpoint
    for name in [name for name in table.store.blobs if name.startswith(LOG) and name.endswith(".json")]:
        del table.store.blobs[name]  # only the last checkpoint is left
    newest = max(name for name in table.store.blobs if name.endswith(".checkpoint.parquet"))
    for name in [name for name in table.store.blobs if name.startswith(LOG) and name != newest]:
        del table.store.blobs[name]
    assert sorted(_read(dumped(table.store, tmp_path))["sequence_number"].to_pylist()) == [*range(2, 12)]


def _log_of(table: Table, *actions: dict[str, Any]) -> None:
    name = f"{LOG}{len(table.versions()):020d}.json"
    table.store._write(name, b"\n".join(json.dumps(action).encode() for action in actions), None)


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, "writer version 5"),
    (
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}},
        "feature rowTracking",
    ),
    ({"metaData": {"partitionColumns": ["date"], "schemaString": "{}"}}, "partition columns"),
    (
        {"metaData": {"configuration": {"delta.constraints.positive": "x > 0"}, "schemaString": "{}"}},
        "constraint positive",
    ),
]


@pytest.mark.parametrize(("action", "named"), UNSUPPORTED)
async def test_a_table_that_needs_another_writer_is_not_written(action: dict[str, Any], named: str) -> None:
    table = Table()
    await table.committer().advance(PARTITIONS)
    _log_of(table, action)
    await table.write("0", 2)
    committer = table.committer()
    with pytest.raises(Blocked) as caught:
        await committer.advance(PARTITIONS)
    assert named in caught.value.problem.message
    assert caught.value.problem.reason == "TableInvalid"
    assert not table.added()
    report, slot = committer.report, await table.chain("0").at(0)
    assert report is not None
    assert slot is not None
    assert (report.pending_files, report.pending_events, report.oldest_pending_time) == (1, 2, slot.committed_at)


async def test_a_log_with_a_hole_is_damaged_and_not_continued() -> None:
    table = Table()
    for _ in range(3):
        await table.write("0", 2)
        await table.committer().advance(PARTITIONS)
    del table.store.blobs[f"{LOG}{1:020d}.json"]
    with pytest.raises(Blocked, match="version 1 is missing"):
        await table.committer().advance(PARTITIONS)


async def test_a_lost_answer_is_found_in_the_log() -> None:
    table = Table()
    committer = table.committer()
    await committer.advance(PARTITIONS)
    await table.write("0", 2)
    table.store.faults.append(Fault("put", applied=True, error=lambda: Unavailable("no answer")))
    await committer.advance(PARTITIONS)
    assert table.added() == table.files()
    assert len(table.versions()) == 2


async def _tidied(table: Table) -> None:
    """Another program writes versions and a checkpoint, and removes the versions before it."""
    for _ in range(3):
        _log_of(table, {"commitInfo": {"operation": "SET TBLPROPERTIES"}})
    log = TableLog(table.store, "p", Here())
    last = len(table.versions()) - 1
    assert await checkpoint.write(log, last)
    for version in range(last):
        table.store.delete(f"{LOG}{version:020d}.json")


@pytest.mark.parametrize("lost", [False, True])
async def test_a_version_that_is_free_again_below_a_checkpoint_registers_nothing(lost: bool, tmp_path: Path) -> None:
    """A leading host without events does not read the log, and another program may remove versions after its view."""
    table = Table()
    await table.write("0", 2)
    idle = table.committer()
    await idle.advance(PARTITIONS)
    await _tidied(table)
    await table.write("0", 3)
    if lost:
        table.store.faults.append(Fault("put", applied=True))
    await idle.advance(PARTITIONS)
    await table.write("0", 1)
    await idle.advance(PARTITIONS)
    assert sorted(_read(dumped(table.store, tmp_path))["sequence_number"].to_pylist()) == [*range(6)]


async def test_versions_are_removed_only_if_the_last_checkpoint_is_named(tmp_path: Path) -> None:
    """Its writer may be killed in between: readers that begin at the one before need the versions after that one."""
    table = Table()
    for _ in range(3):
        await table.write("0", 2)
        await table.committer().advance(PARTITIONS)
    log = TableLog(table.store, "p", Here())
    assert await checkpoint.write(log, 1)
    named = table.store.blobs[f"{LOG}_last_checkpoint"].data
    assert await checkpoint.write(log, 3)
    table.store.blobs[f"{LOG}_last_checkpoint"].data = named
    await checkpoint.remove_old_versions(log, EPOCH + timedelta(days=9), -1)
    assert {f"{LOG}{version:020d}.json" for version in (1, 2, 3)} <= set(table.store.blobs)
    assert f"{LOG}{0:020d}.json" not in table.store.blobs


async def test_versions_are_removed_by_age_or_by_number_whichever_is_first() -> None:
    table = Table()
    for _ in range(4):
        await table.write("0", 2)
        await table.committer().advance(PARTITIONS)
    log = TableLog(table.store, "p", Here())
    for version in (1, 3):
        assert await checkpoint.write(log, version)
    assert await checkpoint.remove_old_versions(log, EPOCH, 0) == 0, "none is older"
    assert await checkpoint.remove_old_versions(log, EPOCH, 2) == 1
    assert f"{LOG}{0:020d}.json" not in table.store.blobs and f"{LOG}{1:020d}.json" in table.store.blobs


async def test_an_older_checkpoint_does_not_replace_the_last_one() -> None:
    """Its writer was paused, and another leading host went on."""
    table = Table()
    for _ in range(3):
        await table.write("0", 2)
        await table.committer().advance(PARTITIONS)
    log = TableLog(table.store, "p", Here())
    put = table.store.put

    async def paused(name: str, data: bytes, **options: Any) -> str:
        if "checkpoint" in name:
            table.store.put = put  # type: ignore[method-assign]
            assert await checkpoint.write(log, 3)
        return await put(name, data, **options)

    table.store.put = paused  # type: ignore[method-assign]
    assert await checkpoint.write(log, 1)
    assert json.loads(table.store.blobs[f"{LOG}_last_checkpoint"].data)["version"] == 3


@pytest.mark.parametrize(
    "action",
    [
        {"protocol": 5},
        {"protocol": {"minWriterVersion": 7, "writerFeatures": 5}},
        {"protocol": {"minWriterVersion": 7, "writerFeatures": [{}]}},
        {"metaData": ["x"]},
        {"metaData": {"configuration": ["x"]}},
        {"txn": {"appId": "x", "version": float("inf")}},
        {"txn": {"appId": "x"}},
    ],
)
async def test_a_damaged_action_is_a_problem_and_ends_no_host(action: dict[str, Any]) -> None:
    table = Table()
    await table.committer().advance(PARTITIONS)
    _log_of(table, action)
    await table.write("0", 2)
    with pytest.raises(Blocked, match="cannot be read"):
        await table.committer().advance(PARTITIONS)


async def test_a_version_with_a_huge_number_is_a_hole() -> None:
    table = Table()
    await table.committer().advance(PARTITIONS)
    table.store._write(f"{LOG}{'9' * 20}.json", b"{}", None)
    with pytest.raises(Blocked, match="version 1 is missing"):
        await table.committer().advance(PARTITIONS)


async def test_a_log_that_vanishes_under_a_leader_ends_no_host() -> None:
    table = Table()
    committer = table.committer(versions=2)
    for _ in range(3):
        await table.write("0", 2)
        for name in [name for name in table.store.blobs if name.startswith(LOG)]:
            del table.store.blobs[name]
        await committer.advance(PARTITIONS)
    assert not any("checkpoint" in name for name in table.store.blobs)
