"""Any chain that hosts may write is clean; any file that is removed or changed is found."""

import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventconsumer_audit.capture import digest
from eventconsumer_audit.codes import MEANINGS, Code
from eventconsumer_audit.frozen import FrozenFile, FrozenFiles
from eventconsumer_audit.model import BatchesAudit
from eventconsumer_audit.names import gaps
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import AuditedWorld, fake, metadata
from tests.unit.audit.deltatables import NEWER, Table, part, vector


@dataclass
class Written:
    """A consumer that hosts may have written."""

    world: AuditedWorld = field(default_factory=AuditedWorld)
    names: dict[str, list[str]] = field(default_factory=dict)  # partition -> its files
    gaps: int = 0
    events: int = 0
    dropped: int = 0
    files: int = 0


class Chains:
    """Draws a consumer: partitions, files with gaps and dropped events, epochs that rise, checkpoints, batches."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw

    async def write(self) -> Written:
        written = Written()
        world = written.world
        starts = {str(p): self._draw(st.integers(0, 2**40)) for p in range(self._draw(st.integers(1, 3)))}
        await world.begin(**{f"p{partition}": start for partition, start in starts.items()})
        position, epoch, ends = dict(starts), dict.fromkeys(starts, 1), {p: [s - 1] for p, s in starts.items()}
        for number in range(1, self._draw(st.integers(1, 3)) + 1):
            for partition in starts:
                for _ in range(self._draw(st.integers(0, 3))):
                    await self._file(written, partition, position, epoch)
                    ends[partition].append(position[partition] - 1)
            if world.batch_files:
                await world.batch(number, commit=True)
            else:
                break
        for partition in starts:
            checkpoint = self._draw(st.sampled_from([None, *ends[partition]]))
            owner = self._draw(st.sampled_from(["", "host-a"]))
            await world.lease(partition, checkpoint, epoch=epoch[partition], owner=owner)
        return written

    async def _file(self, written: Written, partition: str, position: dict[str, int], epoch: dict[str, int]) -> None:
        start = position[partition]
        steps = self._draw(st.lists(st.sampled_from([1, 1, 1, 2, 5]), min_size=1, max_size=6))
        rows, dropped, missing, number = [], [], [], start - 1
        for step in steps:
            if step > 1:
                missing.append(f"{number + 1}-{number + step - 1}")
            number += step
            (dropped if self._draw(st.sampled_from([False, False, True])) else rows).append(number)
        epoch[partition] += self._draw(st.sampled_from([0, 0, 1, 3]))
        facts = {"gap": "retention:" + ",".join(missing)} if missing else {}
        name = await written.world.file(
            partition, start, rows, epoch=epoch[partition], batched=True, dropped=dropped, changes=facts
        )
        written.names.setdefault(partition, []).append(name)
        written.gaps += number - start + 1 - len(steps)
        written.events += len(rows)
        written.dropped += len(dropped)
        written.files += 1
        position[partition] = number + 1


@pytest.mark.slow
@given(st.data())
@virtual
async def test_a_chain_of_hosts_is_clean_and_one_file_taken_away_or_changed_is_missed(data: st.DataObject) -> None:
    written = await Chains(data).write()
    report = await written.world.audit(deep=True)
    assert report.exit_code == (1 if written.gaps else 0), report.findings
    assert set(report.counts) <= {"Gap"}
    assert sum(partition.gap_events for partition in report.partitions) == written.gaps
    assert sum(partition.events for partition in report.partitions) == written.events
    assert sum(partition.dropped_events for partition in report.partitions) == written.dropped
    assert report.batches.files == written.files
    names = [name for files in written.names.values() for name in files]
    if not names:
        return
    name = f"p/{data.draw(st.sampled_from(names))}"
    facts = ["first", "last", "count", "dropped", "epoch"]
    kind = data.draw(st.sampled_from(["delete", "empty", "bytes", "rename", *facts]))
    blobs = fake(written.world.files)
    blob = blobs.blobs[name]
    match kind:
        case "delete":
            blobs.delete(name)
        case "empty":
            await blobs.put(name, b"", metadata=blob.metadata)
        case "bytes":
            at = data.draw(st.integers(0, len(blob.data) - 1))
            changed = blob.data[:at] + bytes([blob.data[at] ^ 1]) + blob.data[at + 1 :]
            await blobs.put(name, changed, metadata=blob.metadata)
        case "rename":
            folder, start = name.removesuffix(".parquet").split("from=")
            blobs.blobs[f"{folder}from={int(start) + 1:020d}.parquet"] = blobs.blobs.pop(name)
        case _:
            blob.metadata[kind] = str(int(blob.metadata.get(kind, 0)) + (10**6 if kind == "epoch" else 1))
    report = await written.world.audit(deep=True)
    assert report.exit_code == 2, (kind, report.counts)


@pytest.mark.parametrize("deep", [False, True])
@virtual
async def test_a_file_that_ends_before_it_starts_does_not_keep_the_audit_from_its_end(deep: bool) -> None:
    world = AuditedWorld()
    await world.begin(p0=10)
    await world.file("0", 11, [10])
    await world.file("0", 12, [9])
    await world.file("0", 20, [20, 21])
    report = await world.audit(deep=deep)
    assert report.exit_code == 2
    assert report.counts["SlotMissing"] == 3, report.findings  # before each of them


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 1000)), min_size=1, max_size=5), st.text(max_size=30))
def test_gap_records_are_read_whatever_they_hold(ranges: list[tuple[int, int]], text: str) -> None:
    record = ",".join(f"{first}-{first + length}" for first, length in ranges)
    assert sum(gap.events for gap in gaps(f"retention:{record}")) == sum(length + 1 for _, length in ranges)
    try:
        found = gaps(text)
    except ValueError:
        return
    assert all(gap.events for gap in found) or "-" in text


@given(st.lists(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_frozen_files_are_taken_by_start_whatever_order_they_came_in(starts: list[int], taken: set[int]) -> None:
    files = FrozenFiles()
    for batch, start in enumerate(starts):
        files.add(FrozenFile(start, start, 1, 2**40, batch, 2**64 - 1, 0))
    for start in taken:
        found = files.take(start)
        assert [file.batch for file in found] == [batch for batch, known in enumerate(starts) if known == start]
        assert all((file.size, file.path) == (2**40, 2**64 - 1) for file in found)
    assert sorted(file.start for file in files.left()) == sorted(start for start in starts if start not in taken)


def test_every_code_has_a_meaning_and_a_remedy_where_something_is_to_be_done() -> None:
    assert set(MEANINGS) == set(Code)
    assert all(meaning.remedy for meaning in MEANINGS.values() if meaning.level in {"Violation", "Explained"})
    assert digest("a") != digest("b")
    assert BatchesAudit().open is None


async def cost(files: int) -> tuple[int, int]:
    """Requests to storage and calls of functions in an audit of one partition."""
    world = AuditedWorld()
    await world.begin(p0=0)
    blobs = fake(world.files)
    facts = metadata(range(10), b"x", 1)
    for start in range(0, 10 * files, 10):
        own = facts | {"first": str(start), "last": str(start + 9), "last_offset": f"o{start + 9}"}
        await blobs.put(f"p/{world.slot('0', start)}", b"x", metadata=own)
    await world.lease("0", 10 * files - 1)
    blobs.calls.clear()
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        report = await world.audit()
    finally:
        sys.setprofile(None)
    assert (report.exit_code, report.partitions[0].files) == (0, files)
    return len(blobs.calls), calls


@virtual
async def test_the_work_grows_with_the_files_and_not_faster_and_the_requests_stay_the_same() -> None:
    (requests, few), (same, more), (again, most) = [await cost(files) for files in (100, 200, 400)]
    assert requests == same == again
    assert most - more < 2.1 * (more - few)


class Tables:
    """Draws a table: hosts register files, and other programs optimize, delete and write checkpoints in any order."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        self.rows: dict[int, int] = {}  # of each file of the consumer that the table has
        self.others: dict[str, int] = {}
        self.removed = 0
        self.waiting: list[int] = []

    async def write(self) -> Table:
        made = Table(AuditedWorld())
        await made.world.begin(p0=0)
        self.waiting = list(range(0, 10 * self._draw(st.integers(1, 6)), 10))
        for start in self.waiting:
            await made.world.file("0", start, range(start, start + 10))
        await made.world.lease("0", None)
        await made.begin(NEWER)
        steps = {"register": self._register, "optimize": self._optimize, "delete": self._delete, "vector": self._vector}
        for step in self._draw(st.lists(st.sampled_from([*steps, "checkpoint"]), max_size=12)):
            if step == "checkpoint":
                await made.checkpoint(self._draw(st.sampled_from(["classic", "multipart", "v2"])))
            else:
                await steps[step](made)
        return made

    async def _register(self, made: Table) -> None:
        count = self._draw(st.integers(0, len(self.waiting)))
        starts, self.waiting = self.waiting[:count], self.waiting[count:]
        if starts:
            await made.register(*starts, position=starts[-1] + 9)
            self.rows |= dict.fromkeys(starts, 10)

    def _some(self) -> list[int]:
        return self._draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True)) if self.rows else []

    async def _optimize(self, made: Table) -> None:
        starts = self._some()
        rows = sum(self.rows[start] for start in starts)
        removes = [made.remove(start, dataChange=False, **self._old(made, start)) for start in starts]
        name = f"{made.version}"
        await made.commit(*removes, part(name, rows), operation="OPTIMIZE")
        self._remove(starts)
        self.others[name] = rows

    async def _delete(self, made: Table) -> None:
        starts = self._some()
        removes = [made.remove(start, **self._old(made, start)) for start in starts]
        await made.commit(*removes, operation="DELETE")
        self._remove(starts)

    async def _vector(self, made: Table) -> None:
        for start in self._some()[:1]:
            rows = self._draw(st.integers(1, 9))
            new = vector(10 - rows, offset=made.version)
            gone = made.remove(start, **self._old(made, start))
            await made.commit(gone, await made.add(start, deletionVector=new), operation="DELETE")
            self.rows[start] = rows

    def _old(self, made: Table, start: int) -> dict[str, Any]:
        path = made.path(start)
        adds = [action["add"] for action in made.actions if action.get("add", {}).get("path") == path]
        found = adds[-1].get("deletionVector")
        return {"deletionVector": found} if found else {}

    def _remove(self, starts: list[int]) -> None:
        self.removed += len(starts)
        for start in starts:
            del self.rows[start]


@given(st.data())
@virtual
async def test_any_table_is_clean_and_counted_and_a_lost_or_doubled_file_is_found(data: st.DataObject) -> None:
    tables = Tables(data)
    made = await tables.write()
    report = await made.world.audit()
    assert report.exit_code == 0, report.findings
    found = report.table
    assert found is not None
    assert (found.version, found.files) == (made.version, len(tables.rows) + len(tables.others))
    assert found.rows == sum(tables.rows.values()) + sum(tables.others.values())
    assert (found.removed, found.lag_files) == (tables.removed, len(tables.waiting))
    blobs = fake(made.world.files)
    if any("checkpoint" in name for name in blobs.blobs) or not tables.rows:
        return
    path = made.path(data.draw(st.sampled_from(sorted(tables.rows))))
    name, at = next(  # the first commit that adds the file
        (f"p/{made.commit_name(version)}", at)
        for version in range(made.version + 1)
        for at, line in enumerate(blobs.blobs[f"p/{made.commit_name(version)}"].data.split(b"\n"))
        if line.startswith(f'{{"add": {{"path": "{path}"'.encode())
    )
    lines = blobs.blobs[name].data.split(b"\n")
    vectors = any(f'"path": "{path}"'.encode() in blobs.blobs[other].data for other in blobs.blobs if other > name)
    lines[at : at + 1] = [lines[at]] * 2 if vectors or data.draw(st.booleans()) else []
    blobs.blobs[name].data = b"\n".join(lines)
    assert (await made.world.audit()).exit_code == 2
