"""Retention removes what is due and what no reader needs, in steps that a kill at any request leaves in order."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventconsumer_api.errors import Blocked
from eventconsumer_api.v1alpha1 import Retention as Limits
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.leader.retention import FILES_IN_STEP, PAUSE_SECONDS, FileRetention
from eventconsumer_host.leader.tail import LookPace, Segment, Tail
from eventconsumer_host.leader.task import View
from eventconsumer_host.lease.model import Checkpoint, Lease
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.prune.rules import OldFile, Standing, Window, choose, reason_to_keep
from eventconsumer_host.sink.slots import Chain
from eventconsumer_storage.blobs import BlobStore
from eventconsumer_storage.errors import Conflict, Damaged, StorageError, Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import EPOCH, FakeBlobStore, Fault
from tests.support.fakes.hub import FakeHub
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import CHAIN, ERA, AuditedWorld, fake, sample, table
from tests.unit.audit.deltatables import Table, metadata
from tests.unit.host.fleets import Fleet, until
from tests.unit.host.stage import CONFIG

DAY = 86_400
RECORD = "p/_retention.json"
CURSOR = "_notices.json"


def now() -> datetime:
    """The wall virtual_clock, which follows virtual time."""
    return EPOCH + timedelta(seconds=virtual_clock())


@dataclass
class Keeper:
    """A consumer's files, and one leading host that enforces limits on them."""

    world: AuditedWorld
    limits: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=lambda: {"0": 39, "1": 139})
    store: BlobStore | None = None
    segments: Sequence[str] = (ERA,)
    retention: FileRetention | None = None

    def begin(self) -> FileRetention:
        """A new leader."""
        blobs = self.store or self.world.files
        config = HostConfig.model_validate(CONFIG | self.settings)
        self.tail = Tail([Segment(name, partial(Chain, blobs, "p", name), now) for name in self.segments], now)
        self.metrics = Metrics()
        self.retention = FileRetention(
            blobs,
            config,
            Limits.model_validate(self.limits),
            CHAIN,
            self.tail,
            batches=BatchLog(blobs, "p", 10**9),
            metrics=self.metrics,
            now=now,
        )
        return self.retention

    async def step(self) -> None:
        """One step."""
        retention = self.retention or self.begin()
        leases = {
            name: Lease(partition=name, etag="", checkpoint=Checkpoint(str(at), at))
            for name, at in self.checkpoints.items()
        }
        state = await BatchLog(self.store or self.world.files, "p", 10**9).restore()
        await self.tail.follow(View(list(self.checkpoints)), LookPace(0.0))
        await retention.step(list(self.checkpoints), leases, state)

    async def all(self) -> None:
        """Steps until nothing more is due."""
        await self.step()
        while self.retention and self.retention.more:
            await self.step()

    def removed(self) -> list[tuple[str, int]]:
        """Partitions and starts of tombstones."""
        found = (name for name, blob in fake(self.world.files).blobs.items() if "tombstone" in blob.metadata)
        return sorted((name.split("partition=")[1].split("/")[0], int(name[-28:-8])) for name in found)

    def record(self) -> dict[str, Any]:
        """The cursor."""
        found: dict[str, Any] = json.loads(fake(self.world.files).blobs[RECORD].data)
        return found

    async def clean(self) -> None:
        """The audit finds no violation, and no file is removed that is not before the cursor."""
        report = await self.world.audit(deep=True)
        assert report.exit_code == 0, report.findings
        for partition, start in self.removed():
            assert start < self.record()["partitions"][partition]["next"]


async def committed(world: AuditedWorld, number: int = 2, left: Sequence[dict[str, Any]] = ()) -> None:
    """Commit a batch of the sample."""
    blob = await world.files.read(f"p/_batches/{number:010d}.json", 10**6)
    assert blob is not None
    await world.commit(json.loads(blob.data), left)


async def old() -> AuditedWorld:
    """The sample, all batches committed, two days ago."""
    world = await sample()
    await committed(world)
    await asyncio.sleep(2 * DAY)
    return world


FIRST_BATCH = [("0", 0), ("0", 10), ("1", 100), ("1", 110)]
BUT_LAST = [("0", 0), ("0", 10), ("0", 20), ("1", 100), ("1", 110), ("1", 120)]


@virtual
async def test_files_that_are_old_enough_are_removed_but_not_the_last_of_a_chain() -> None:
    keeper = Keeper(await old(), {"days": 1})
    await keeper.step()
    assert keeper.removed() == BUT_LAST
    assert keeper.retention and not keeper.retention.more
    report = keeper.retention.report
    size = sum(int(blob.metadata.get("size", 0)) for blob in fake(keeper.world.files).blobs.values())
    assert report and (report.files, report.events, report.bytes, report.held) == (6, 60, size, "")
    assert report.oldest_file_time == EPOCH + timedelta(seconds=1000)
    assert keeper.record()["removed"] == {"files": 6, "events": 60, "bytes": size}
    assert keeper.record()["partitions"]["1"] == {"next": 130, "done": 130}
    samples = {each.name: each.value for family in keeper.metrics.retention_files.collect() for each in family.samples}
    assert samples["eventconsumer_retention_removed_files_total"] == 6
    await keeper.clean()
    puts = len(fake(keeper.world.files).calls)
    await keeper.step()
    assert not [call for call in fake(keeper.world.files).calls[puts:] if call[0] == "put"], "nothing changed"


@virtual
async def test_files_that_are_young_are_kept() -> None:
    keeper = Keeper(await old(), {"days": 3})
    await keeper.step()
    assert keeper.removed() == []


@virtual
async def test_the_oldest_files_of_all_partitions_are_removed_until_the_size_is_within_the_limit() -> None:
    world = AuditedWorld()
    await world.begin(p0=0, p1=100)
    for number in range(4):  # partition 1 writes its files first
        for partition, start in (("1", 100), ("0", 0)):
            await world.file(partition, start + 10 * number, range(start + 10 * number, start + 10 * number + 10))
            await asyncio.sleep(60)
    size = len(fake(world.files).blobs[f"p/{world.slot('0', 0)}"].data)
    await world.lease("0", 39)
    await world.lease("1", 139)
    keeper = Keeper(world, {"bytes": 5 * size + size // 2})
    await keeper.all()
    assert keeper.removed() == [("0", 0), ("1", 100), ("1", 110)]
    kept = keeper.record()["partitions"]
    assert (kept["0"]["counted"], kept["1"]["counted"]) == (40, 140)
    assert keeper.retention and keeper.retention.report and keeper.retention.report.excess_bytes == 0
    await keeper.clean()
    await world.file("0", 40, range(40, 50))
    keeper.checkpoints["0"] = 49
    keeper.begin()  # another leader continues from the cursor
    await keeper.all()
    assert keeper.removed() == [("0", 0), ("0", 10), ("1", 100), ("1", 110)]


@virtual
async def test_a_limit_that_cannot_be_kept_is_reported() -> None:
    world = await sample()
    keeper = Keeper(world, {"bytes": 1})
    await keeper.all()
    assert keeper.removed() == FIRST_BATCH
    assert keeper.retention and keeper.retention.report
    report = keeper.retention.report
    assert report.held == "in no committed batch"
    assert report.excess_bytes == sum(len(b.data) for n, b in fake(world.files).blobs.items() if "/from=" in n) - 1


@virtual
async def test_files_in_no_committed_batch_are_kept_and_removed_after_the_commit() -> None:
    world = await sample()
    await asyncio.sleep(2 * DAY)
    keeper = Keeper(world, {"days": 1})
    await keeper.step()
    assert keeper.removed() == FIRST_BATCH
    await keeper.clean()
    await committed(world)
    await keeper.step()
    assert keeper.removed() == BUT_LAST
    await keeper.clean()


@virtual
async def test_without_keep_uncommitted_files_of_an_open_batch_are_kept_and_those_in_no_batch_are_not() -> None:
    world = await sample()
    for start in (40, 50):
        await world.file("0", start, range(start, start + 10), epoch=2)
    await asyncio.sleep(2 * DAY)
    keeper = Keeper(world, {"days": 1, "keepUncommitted": False}, checkpoints={"0": 59, "1": 139})
    await keeper.step()
    assert keeper.removed() == FIRST_BATCH, "the open batch needs its files"
    await committed(world)
    await keeper.step()
    assert keeper.removed() == sorted([*BUT_LAST, ("0", 30), ("0", 40)])


@virtual
async def test_a_file_that_its_batch_excluded_stays_and_files_after_it_go() -> None:
    world = await sample()
    manifest = json.loads(fake(world.files).blobs[f"p/_batches/{2:010d}.json"].data)
    await world.commit(manifest, [file for file in manifest["files"] if file["first"] == 20])
    await asyncio.sleep(2 * DAY)
    for start in (40, 50):
        await world.file("0", start, range(start, start + 10), epoch=2, batched=True)
    await world.batch(3)
    keeper = Keeper(world, {"days": 1}, checkpoints={"0": 59, "1": 139})
    await keeper.step()
    assert keeper.removed() == sorted([*(set(BUT_LAST) - {("0", 20)}), ("0", 30)])
    assert keeper.record()["removed"]["files"] == 6
    keeper.begin()
    await keeper.step()
    assert ("0", 20) not in keeper.removed()
    report = await world.audit(deep=True)
    assert report.exit_code <= 1, report.findings


@virtual
async def test_files_after_the_checkpoint_are_kept() -> None:
    keeper = Keeper(await old(), {"days": 1}, checkpoints={"0": 15})
    await keeper.step()
    assert keeper.removed() == [("0", 0)]
    assert keeper.retention and keeper.retention.report and "checkpoint" in keeper.retention.report.held


def notices(**after: int) -> dict[str, Any]:
    """The cursor of notices."""
    acknowledged = {name.removeprefix("p"): start for name, start in after.items()}
    return {"chain": CHAIN, "writtenAt": EPOCH.isoformat(), "segmentId": ERA, "next": acknowledged}


@virtual
async def test_files_without_an_acknowledged_notice_are_kept() -> None:
    hooks = {"notices": {"url": "https://hooks.example/files"}}
    world = await old()
    keeper = Keeper(world, {"days": 1}, hooks)
    await keeper.step()
    assert keeper.removed() == [], "there is no cursor yet"
    await world.put(CURSOR, notices(p0=20))
    await keeper.step()
    assert keeper.removed() == [("0", 0), ("0", 10)]
    await world.put(CURSOR, b"{")
    with pytest.raises(Damaged, match=r"cursor of notices, blob p/_notices\.json: delete it"):
        await keeper.step()
    keeper.limits["keepUncommitted"] = False
    keeper.begin()
    await keeper.step()
    assert keeper.removed() == BUT_LAST


async def registered() -> Table:
    """A table that has the first three files of partition 0."""
    made = Table(await old())
    await made.begin()
    await made.register(0, 10, 20, position=29)
    return made


@virtual
async def test_files_are_removed_from_the_table_first_and_unregistered_files_are_kept() -> None:
    made = await registered()
    keeper = Keeper(made.world, {"days": 1, "keepUncommitted": False}, {"table": {}})
    fake(made.world.files).calls.clear()
    await keeper.step()
    assert keeper.removed() == [("0", 0), ("0", 10), ("0", 20)]
    puts = [name for operation, name in fake(made.world.files).calls if operation == "put"]
    assert puts[0] == puts[-1] == RECORD
    assert puts[1] == f"p/{made.commit_name(2)}"
    assert len(puts) == 6
    await keeper.clean()


@virtual
async def test_no_file_is_removed_before_hosts_created_the_table() -> None:
    keeper = Keeper(await old(), {"days": 1}, {"table": {}})
    await keeper.step()
    assert keeper.removed() == []
    assert keeper.retention and keeper.retention.report
    assert keeper.retention.report.held == "not in the Delta table yet"


@virtual
async def test_a_table_that_must_not_be_written_is_a_problem_with_the_remedy() -> None:
    made = await registered()
    await made.commit(metadata(**{"delta.appendOnly": "true"}))
    keeper = Keeper(made.world, {"days": 1})
    with pytest.raises(Blocked, match=r"old files are not removed: the property delta\.appendOnly") as caught:
        await keeper.step()
    assert (caught.value.problem.field, caught.value.problem.reason) == ("spec.sink.retention", "RetentionBlocked")
    assert keeper.removed() == []


@virtual
async def test_tombstones_of_the_command_are_skipped_and_counted_neither_as_kept_nor_as_removed() -> None:
    world = await old()
    for partition, start in (("0", 0), ("1", 100)):
        blob = fake(world.files).blobs[f"p/{world.slot(partition, start)}"]
        facts = blob.metadata | {"tombstone": "2026-01-01T00:00:00Z", "size": str(len(blob.data))}
        await world.put(world.slot(partition, start), b"", **facts)
    keeper = Keeper(world, {"days": 1, "bytes": 10**9})
    await keeper.all()
    assert keeper.removed() == BUT_LAST
    assert keeper.record()["removed"]["files"] == 4
    size = len(fake(world.files).blobs[f"p/{world.slot('0', 30)}"].data)
    assert keeper.record()["partitions"]["0"]["bytes"] == size


@virtual
async def test_a_long_backlog_is_removed_in_steps() -> None:
    world = AuditedWorld()
    await world.begin(p0=0)
    for number in range(FILES_IN_STEP + 20):
        await world.file("0", number, [number])
    await world.lease("0", FILES_IN_STEP + 19)
    await asyncio.sleep(2 * DAY)
    keeper = Keeper(world, {"days": 1}, checkpoints={"0": FILES_IN_STEP + 19})
    await keeper.step()
    assert len(keeper.removed()) == FILES_IN_STEP
    assert keeper.retention and keeper.retention.more
    await keeper.step()
    assert len(keeper.removed()) == FILES_IN_STEP + 19
    assert not keeper.retention.more


class Killed(Exception):  # noqa: N818 - an event
    """The host ended."""


class Mortal(FakeBlobStore):
    """A container whose client is killed at one of its changes: before it is applied, or after."""

    kill_at = 0  # number of the change; 0: never
    applied = False
    changes = 0
    dead = False

    def _begin(self, operation: str, name: str) -> StorageError | None:
        if self.dead:
            raise Killed
        lost = super()._begin(operation, name)
        self.changes += operation in {"put", "remove"}
        if operation in {"put", "remove"} and self.changes == self.kill_at:
            self.dead = True
            if not self.applied:
                raise Killed
            return Killed()  # type: ignore[return-value]
        return lost


async def until_killed(change: int, *, applied: bool) -> tuple[Keeper, bool]:
    """A step with a table until the host is killed at a change; and whether it was."""
    made = await registered()
    await made.register(100, 110, position=119, partition="1")
    blobs = Mortal(virtual_clock)
    blobs.blobs, blobs._version = fake(made.world.files).blobs, 10**6  # noqa: SLF001 - the same blobs
    keeper = Keeper(made.world, {"days": 1, "bytes": 10**9}, {"table": {}}, store=blobs)
    blobs.kill_at, blobs.applied = change, applied
    try:
        await keeper.step()
    except Killed:
        await asyncio.sleep(60)  # no other request of the dead host is applied
        keeper.store = None
        return keeper, True
    return keeper, False


CHANGES = 8  # the cursor, the table, five files, the cursor


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("change", range(1, CHANGES + 1))
@virtual
async def test_a_host_that_is_killed_at_a_change_leaves_clean_files_and_the_next_leader_completes(
    change: int, applied: bool
) -> None:
    keeper, killed = await until_killed(change, applied=applied)
    assert killed
    if keeper.removed():
        await keeper.clean()
    assert (await keeper.world.audit(deep=True)).exit_code == 0
    keeper.begin()
    await keeper.all()
    assert keeper.removed() == [("0", 0), ("0", 10), ("0", 20), ("1", 100), ("1", 110)]
    assert keeper.record()["removed"]["files"] == 5
    await keeper.clean()


@virtual
async def test_a_step_has_as_many_changes_as_the_test_kills() -> None:
    _, killed = await until_killed(CHANGES + 1, applied=False)
    assert not killed


@pytest.mark.parametrize("applied", [False, True])
@virtual
async def test_nothing_is_removed_while_it_is_unknown_whether_the_cursor_was_written(applied: bool) -> None:
    keeper = Keeper(await old(), {"days": 1})
    fake(keeper.world.files).faults.append(Fault("put", applied=applied))
    with pytest.raises(Unavailable):
        await keeper.step()
    assert keeper.removed() == []
    await keeper.step()
    assert keeper.removed() == BUT_LAST
    assert keeper.record()["removed"]["files"] == 6


@virtual
async def test_of_two_leaders_one_moves_the_cursor_and_files_are_counted_once() -> None:
    world = await old()
    one, other = Keeper(world, {"days": 1}), Keeper(world, {"days": 1})
    await asyncio.gather(one.step(), other.step())
    await asyncio.gather(one.step(), other.step())
    assert one.removed() == BUT_LAST
    assert one.record()["removed"]["files"] == 6
    await one.clean()


@virtual
async def test_a_leader_that_lost_the_lead_writes_nothing() -> None:
    keeper = Keeper(await old(), {"days": 1})
    retention = keeper.begin()

    def lost() -> None:
        raise Conflict("lost")

    retention._check = lost
    await keeper.step()
    assert keeper.removed() == []
    assert RECORD not in fake(keeper.world.files).blobs


@virtual
async def test_a_cursor_that_cannot_be_read_is_named_with_the_remedy() -> None:
    world = await old()
    await world.put("_retention.json", b"{")
    with pytest.raises(Damaged, match=r"cursor of retention, blob p/_retention\.json: delete it"):
        await Keeper(world, {"days": 1}).step()


@virtual
async def test_the_cursor_restarts_in_a_new_segment_and_the_totals_continue() -> None:
    world = await old()
    keeper = Keeper(world, {"days": 1})
    await keeper.step()
    later = Keeper(world, {"days": 1}, segments=(ERA, "later"))
    await world.put("_genesis/later/0.json", {"start": 7})
    await later.step()
    record = later.record()
    assert (record["segmentId"], record["removed"]["files"]) == ("later", 6)
    assert record["partitions"]["0"]["next"] == 7
    with pytest.raises(Damaged, match="names a segment that this host does not know"):
        await Keeper(world, {"days": 1}).step()


# --- the leading host ---


@pytest.mark.slow
@virtual
async def test_the_leading_host_removes_old_files_and_reports_it_and_so_does_the_next_leader() -> None:
    fleet = Fleet(FakeHub(1), leading=True, retention={"days": 1})  # by the clocks of the test, files are months old
    try:
        first = fleet.start("shop/orders/orders-host-0.a")
        await until(lambda: bool(first.owned()), 120)
        fleet.hub.partitions["0"].add(*[b"x"] * 30)
        await until(lambda: "0" in fleet.files() and fleet.drained(), 60)

        def kept() -> int:
            return sum("tombstone" not in blob.metadata for name, blob in fleet.sink.blobs.items() if "/from=" in name)

        assert kept() > 1
        await until(lambda: kept() == 1, PAUSE_SECONDS + 60)
        assert first.leader
        leader = first.leader
        await until(lambda: bool(leader.fleet and leader.fleet.retention and leader.fleet.retention.events == 20), 10)
        await first.kill()
        second = fleet.start("shop/orders/orders-host-1.b")
        fleet.hub.partitions["0"].add(b"y")
        await until(lambda: kept() == 2, 300)
        await until(lambda: kept() == 1, PAUSE_SECONDS + 60)
        assert second.leader and not second.leader.problems
    finally:
        await fleet.close()


@virtual
async def test_a_cursor_that_cannot_be_read_is_a_problem_of_the_leading_host_until_it_is_removed() -> None:
    fleet = Fleet(FakeHub(1), leading=True, retention={"days": 1})
    await fleet.sink.put(RECORD, b"{")
    try:
        host = fleet.start("shop/orders/orders-host-0.a")
        assert host.leader
        await until(lambda: bool(host.leader and host.leader.problems), 120)
        assert ["cursor of retention" in problem.message for problem in host.leader.problems] == [True]
        fleet.sink.delete(RECORD)
        await until(lambda: bool(host.leader and not host.leader.problems), PAUSE_SECONDS + 60)
    finally:
        await fleet.close()


# --- rules ---

STANDINGS: list[tuple[str, Standing, str]] = [
    ("free", Standing(), ""),
    ("checkpoint", Standing(passed=False), "not before the checkpoint"),
    ("batch", Standing(committed=False, noticed=False), "in no committed batch"),
    ("excluded", Standing(excluded=True), "excluded by its batch, so its events are in no output"),
    ("table", Standing(registered=False), "not in the Delta table yet"),
    ("notice", Standing(noticed=False), "without an acknowledged notice"),
]


@pytest.mark.parametrize(("standing", "reason"), table(STANDINGS))
def test_each_reader_that_needs_a_file_is_a_reason_to_keep_it(standing: Standing, reason: str) -> None:
    assert reason_to_keep(standing) == reason


def files(*rows: tuple[int, int]) -> Window:
    """A window of files by minute and size."""
    return Window([OldFile(n, EPOCH + timedelta(minutes=minute), size) for n, (minute, size) in enumerate(rows)])


def at(minute: int) -> datetime:
    return EPOCH + timedelta(minutes=minute)


def test_a_window_that_is_cut_ends_the_choice_because_an_older_file_may_follow() -> None:
    cut = Window(files((1, 1), (2, 1)).files, cut=True)
    assert choose({"0": cut, "1": files((3, 1), (4, 1))}, at(9), 0) == {"0": 2}
    assert choose({"0": files((1, 1), (2, 1)), "1": files((3, 1))}, at(9), 0) == {"0": 2, "1": 1}


def test_skipped_files_are_passed_without_being_due() -> None:
    skipped = OldFile(1, at(50), 5, skipped=True)
    assert choose({"0": Window([skipped, OldFile(2, at(60), 5)])}, at(10), 0) == {"0": 1}


windows = st.dictionaries(
    st.sampled_from("0123"),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 9)), max_size=8).map(lambda rows: files(*sorted(rows))),
)


@given(windows, st.none() | st.integers(0, 100), st.integers(0, 60))
@example({"0": files((0, 1), (0, 1), (0, 2))}, None, 3)
@example({"0": files((0, 1)), "1": files((0, 1)), "2": files((0, 2))}, None, 3)
def test_the_choice_is_the_shortest_start_of_all_files_by_time_that_keeps_both_limits(
    found: dict[str, Window], minute: int | None, excess: int
) -> None:
    before = None if minute is None else at(minute)
    chosen = choose(found, before, excess)
    gone = [file for name, each in found.items() for file in each.files[: chosen.get(name, 0)]]
    kept = [file for name, each in found.items() for file in each.files[chosen.get(name, 0) :]]
    if before is not None:
        assert all(file.time >= before for file in kept)
    if kept:
        assert sum(file.size for file in gone) >= excess
        assert max((file.time for file in gone), default=EPOCH) <= min(file.time for file in kept)
    # The last one was needed for the size, unless it is old. Of files with the same time, any may be the last.
    ends = [each.files[chosen[name] - 1] for name, each in found.items() if name in chosen]
    latest = [file for file in ends if file.time == max(each.time for each in ends)]
    if latest and (before is None or latest[0].time >= before):
        assert any(sum(file.size for file in gone) - file.size < excess for file in latest)
