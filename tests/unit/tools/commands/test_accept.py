"""`hub accept`: files and hub part at some event, and the chain continues behind it in a new segment.

`hub reposition`: a chain without a file begins at another position, in a new segment.
"""

import asyncio
import io
from dataclasses import replace
from datetime import UTC, datetime

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import SegmentRecord
from eventconsumer_host.identity.segments import current, list_segments
from eventconsumer_host.lease.layouts import lease_store
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.partition.dependencies import WriteCheckpoint
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_storage.errors import Conflict, Damaged
from eventconsumer_tools.commands.accept import Accepting, Ends
from tests.support.clocks import virtual_clock
from tests.support.fakes.virtual import virtual
from tests.unit.host.stage import CONFIG, PumpWorld, Running, eventually

NOW = datetime(2026, 11, 23, tzinfo=UTC)
PARQUET = {"format": "Parquet", "layout": "SequenceNumber"}
FORMATS = [PARQUET, {"format": "Avro", "layout": "SequenceNumber"}, {"format": "Avro", "layout": "Capture"}]


def bodies(first: int, last: int, era: str = "old") -> list[bytes]:
    return [b"%s %d" % (era.encode(), number) for number in range(first, last + 1)]


class SegmentWorld(PumpWorld):
    """A stage with segments, and a person who may accept."""

    async def register(self) -> SegmentRecord:
        self.segments = await current(self.sink, "p", await self.hub.describe(), NOW)
        return self.segments[-1]

    async def person(self, *, reposition: bool = False) -> Accepting:
        config, info = HostConfig.model_validate(CONFIG | self.overrides), await self.hub.describe()
        leases = (await lease_store(config, info, self.leases, virtual_clock).list(["0"])).leases
        return Accepting(config, self.hub, info, self.sink, self.leases, self.segments, leases, reposition=reposition)

    async def drained(self, count: int) -> Running:
        await self.register()
        running = await self.pump()
        self.partition.add(*bodies(0, count - 1))
        await eventually(lambda: running.pump.report().next_sequence_number == count)
        return running

    def contents(self, segment: SegmentRecord) -> list[bytes]:
        """Bodies in the files of a segment, in chain order."""
        found: list[bytes] = []
        for name, blob in sorted(self.sink.blobs.items()):
            if f"/segment={segment.segment_id}/" in name and "/from=" in name and "sealed" not in blob.metadata:
                found += bodies_of(self.sink.blobs[blob.metadata.get("path", name)].data)
        return found


def bodies_of(data: bytes) -> list[bytes]:
    if data.startswith(b"Obj"):
        return [row["Body"] for row in fastavro.reader(io.BytesIO(data))]
    return pq.read_table(pa.BufferReader(data))["body"].to_pylist()


def world(files: dict[str, str] | None = None, **overrides: object) -> SegmentWorld:
    return SegmentWorld(overrides={"files": files or PARQUET, **overrides})


async def accepted(stage: SegmentWorld, *, reposition: bool = False) -> Ends:
    """Accept, and continue in the new segment."""
    before = stage.segments[-1].number
    segment, ends = await (await stage.person(reposition=reposition)).accept(NOW)
    assert segment.number == before + 1
    assert await stage.register() == segment
    return ends[0]


@pytest.mark.parametrize("files", FORMATS, ids=["Parquet", "Avro", "Capture"])
@pytest.mark.parametrize(
    ("lost", "new", "early"),
    [(1, 0, 0), (1, 9, 0), (5, 2, 0), (5, 40, 0), (17, 30, 0), (10, 30, 0), (5, 40, 4)],
)
@virtual
async def test_the_new_segment_starts_behind_the_last_common_event(
    files: dict[str, str], lost: int, new: int, early: int
) -> None:
    stage = world(files)
    stage.partition.early = early  # links may start before their position
    await (await stage.drained(25)).stop()
    stage.partition.forget_last(lost)
    stage.partition.add(*bodies(25 - lost, 24 - lost + new, "new"))
    plan = (await (await stage.person()).examine())[0]
    assert plan.diverged and plan.files_end.sequence_number == 24
    assert (plan.common, plan.start, plan.gone, plan.ahead) == (24 - lost, 25 - lost, lost, new)
    blobs = dict(stage.sink.blobs)
    assert await (await stage.person()).examine() == [plan] and stage.sink.blobs == blobs  # it only reads
    end = await accepted(stage)
    assert (end.common, end.start, end.files_end, end.slot) == (plan.common, plan.start, plan.files_end, 25)

    running = await stage.pump("host-b")
    stage.partition.add(*bodies(25 - lost + new, 60, "new"))
    await eventually(lambda: running.pump.report().next_sequence_number == 61)
    await running.stop()
    assert stage.contents(stage.segments[0]) == bodies(0, 24)
    assert stage.contents(stage.segments[1]) == bodies(25 - lost, 60, "new")
    assert not running.pump.problems()


@pytest.mark.parametrize("files", FORMATS, ids=["Parquet", "Avro", "Capture"])
@pytest.mark.parametrize("read", [0, 5], ids=["before the first file", "after a file that the hub lost too"])
@virtual
async def test_a_second_failover_behind_the_start_of_the_segment_loses_no_event_and_reads_none_twice(
    files: dict[str, str], read: int
) -> None:
    """The event before the start is in a file of the first segment, so the second one has no event of its own."""
    stage = world(files)
    await (await stage.drained(25)).stop()
    stage.partition.forget_last(5)
    end = await accepted(stage)
    assert (end.files_end.sequence_number, end.start) == (24, 20)
    if read:
        running = await stage.pump("host-b")
        stage.partition.add(*bodies(20, 19 + read, "second"))
        await eventually(lambda: running.pump.report().next_sequence_number == 20 + read)
        await running.stop()
    stage.partition.forget_last(read + 5)
    stage.partition.add(*bodies(15, 29, "third"))
    running = await stage.pump("host-c")
    await eventually(lambda: Reason.HUB_DIVERGED in running.reasons())
    await running.stop()
    end = await accepted(stage)
    assert (end.diverged, end.common, end.start) == (True, 14, 15)
    running = await stage.pump("host-d")
    await eventually(lambda: running.pump.report().next_sequence_number == 30)
    await running.stop()
    written = [stage.contents(segment) for segment in stage.segments]
    assert written == [bodies(0, 24), bodies(20, 19 + read, "second"), bodies(15, 29, "third")]


class Dropping:
    """A handler that drops events, as `Handling`."""

    def __init__(self, unwanted: set[int]) -> None:
        self._unwanted = unwanted

    def problems(self) -> list[Problem]:
        return []

    async def open(self, epoch: int, position: int, checkpoint: WriteCheckpoint | None) -> None:
        pass

    async def process(self, batch: EventBatch, stop: asyncio.Event) -> tuple[int, EventBatch | None]:
        numbers = batch.numbers.tolist()
        return len(batch), batch.take([at for at, number in enumerate(numbers) if number not in self._unwanted])

    async def redrive(self, stop: asyncio.Event, most: int) -> None:
        """See `Handling`."""

    async def close(self, *, lost: bool) -> None:
        pass


@pytest.mark.parametrize("files", FORMATS, ids=["Parquet", "Avro", "Capture"])
@pytest.mark.parametrize(("dropped", "common"), [({3, 17, 22}, 19), ({18, 19, 20}, 17), ({24}, 19), ({*range(25)}, -1)])
@virtual
async def test_events_that_the_handler_dropped_are_not_compared(
    files: dict[str, str], dropped: set[int], common: int
) -> None:
    """Whether a dropped event in front of the first different one is still the same, nobody knows: it is read again."""
    stage = world(files)
    stage.handler = lambda _: Dropping(dropped)
    await (await stage.drained(25)).stop()
    stage.partition.forget_last(5)
    stage.partition.add(*bodies(20, 29, "new"))
    end = await accepted(stage)
    assert (end.diverged, end.common, end.start) == (True, common, common + 1)
    running = await stage.pump("host-b")
    await eventually(lambda: running.pump.report().next_sequence_number == 30)
    await running.stop()
    assert stage.contents(stage.segments[0]) == [f"old {n}".encode() for n in range(25) if n not in dropped]
    new = [*bodies(0, 19), *bodies(20, 29, "new")]
    assert stage.contents(stage.segments[1]) == [new[n] for n in range(common + 1, 30) if n not in dropped]


@pytest.mark.parametrize("count", [0, 5, 40])
@virtual
async def test_a_hub_that_was_created_again_is_read_from_its_first_event(count: int) -> None:
    stage = world()
    await (await stage.drained(20)).stop()
    stage.hub.recreate()
    stage.partition.add(*bodies(0, count - 1, "new"))
    end = await accepted(stage)
    assert end.diverged
    assert (end.common, end.start) == (-1, 0)
    running = await stage.pump("host-b")
    stage.partition.add(*bodies(count, 49, "new"))
    await eventually(lambda: running.pump.report().next_sequence_number == 50)
    await running.stop()
    assert stage.contents(stage.segments[1]) == bodies(0, 49, "new")
    assert stage.segments[1].hub.created_at == stage.hub.created_at


@virtual
async def test_new_events_below_the_first_file_are_read() -> None:
    stage = world(startingPosition={"type": "Latest"})
    stage.partition.add(*bodies(0, 9))
    await stage.register()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 10)
    stage.partition.add(*bodies(10, 14))
    await eventually(lambda: running.pump.report().next_sequence_number == 15)
    await running.stop()
    stage.partition.forget_last(9)  # the hub ends at 5, before the first file
    stage.partition.add(*bodies(6, 19, "new"))
    end = await accepted(stage)
    assert (end.diverged, end.common, end.start) == (True, -1, 0)
    running = await stage.pump("host-b")
    await eventually(lambda: running.pump.report().next_sequence_number == 20)
    await running.stop()
    assert stage.contents(stage.segments[0]) == bodies(10, 14)
    assert stage.contents(stage.segments[1]) == bodies(0, 5) + bodies(6, 19, "new")


@virtual
async def test_where_nothing_can_be_compared_numbers_that_are_gone_are_a_gap() -> None:
    stage = world()
    await (await stage.drained(20)).stop()
    stage.hub.recreate()
    stage.partition.add(*bodies(0, 59, "new"))
    stage.partition.retain_from(30)
    end = await accepted(stage)
    assert (end.diverged, end.start, end.earliest) == (True, 20, 30)
    running = await stage.pump("host-b")
    await eventually(lambda: running.pump.report().next_sequence_number == 60)
    await running.stop()
    assert stage.contents(stage.segments[1]) == bodies(30, 59, "new")
    assert stage.metrics.registry.get_sample_value("eventconsumer_gap_events_total", {"partition": "0"}) == 10


@virtual
async def test_partitions_that_did_not_diverge_continue_where_they_are() -> None:
    stage = world()
    await (await stage.drained(20)).stop()
    stage.hub.promote()
    stage.partition.add(*bodies(20, 29))
    plan = (await (await stage.person()).examine())[0]
    assert (plan.diverged, plan.sealed, plan.common, plan.start) == (False, False, 19, 20)
    stage.partition.compact([19])  # the creation time is another one, and now nothing else tells
    assert (await (await stage.person()).examine())[0].diverged


@virtual
async def test_a_host_of_the_segment_before_cannot_commit_any_more() -> None:
    stage = world(roll={"maxBytes": 1_000_000, "maxSeconds": 50, "maxEvents": 20})
    running = await stage.drained(20)
    stage.partition.add(*bodies(20, 29))
    await eventually(lambda: running.pump.report().sequence_number == 29)  # in memory, in no file
    old, stage.partition.reader = stage.segments[0], None  # the hub lost the link, which the host does not know yet
    await accepted(stage)
    again = await (await stage.person()).examine()
    assert not again[0].begun  # in the new segment
    await eventually(lambda: Reason.HUB_DIVERGED in running.reasons())
    assert "were ended by kubectl eventconsumer hub accept" in running.problem(Reason.HUB_DIVERGED).message
    await running.stop()
    assert stage.contents(old) == bodies(0, 19)
    later = await stage.pump("host-b")
    await eventually(lambda: later.pump.report().sequence_number == 29)
    await later.stop()
    assert stage.contents(stage.segments[1]) == bodies(20, 29)


@virtual
async def test_a_run_that_was_interrupted_is_run_again_and_two_at_once_write_one_record() -> None:
    stage = world()
    await (await stage.drained(20)).stop()
    stage.partition.forget_last(5)
    stage.partition.add(*bodies(15, 30, "new"))
    person, other = await stage.person(), await stage.person()
    segment, _ = await person.accept(NOW)
    with pytest.raises(Conflict):
        await other.accept(NOW)
    stage.sink.blobs.pop(f"p/_segments/{2:010d}.json")  # as if it had been interrupted between the two
    plan = (await (await stage.person()).examine())[0]
    assert plan.sealed and plan.start == 15
    assert (await (await stage.person()).accept(NOW))[0] == segment
    assert await list_segments(stage.sink, "p") == [stage.segments[0], segment]


@virtual
async def test_a_file_that_cannot_be_read_is_named() -> None:
    stage = world()
    await (await stage.drained(20)).stop()
    stage.partition.forget_last(5)
    stage.partition.add(*bodies(15, 30, "new"))
    for name, blob in stage.sink.blobs.items():
        if "/from=" in name:
            stage.sink.blobs[name] = replace(blob, data=b"PAR1")
    with pytest.raises(Damaged, match=r"from=00000000000000000010\.parquet cannot be read: restore it"):
        await (await stage.person()).examine()


@virtual
async def test_a_partition_that_no_host_has_begun_starts_where_it_would_have() -> None:
    stage = world()
    await stage.register()
    stage.partition.add(*bodies(0, 9))
    stage.partition.retain_from(4)
    assert not (await (await stage.person()).examine())[0].begun
    end = await accepted(stage)
    assert (end.start, end.diverged) == (4, False)
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 10)
    await running.stop()
    assert stage.contents(stage.segments[1]) == bodies(4, 9)


LATEST, EARLIEST = {"type": "Latest"}, {"type": "Earliest"}


async def opened(position: object, count: int = 10) -> SegmentWorld:
    """A hub with events, and a partition that a host opened and left without a file."""
    stage = world(startingPosition=position)
    stage.partition.add(*bodies(0, count - 1))
    await stage.register()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number is not None)
    await running.stop()
    return stage


@virtual
async def test_a_partition_without_a_file_begins_at_an_earlier_position() -> None:
    stage = await opened(LATEST)
    assert not (await (await stage.person(reposition=True)).examine())[0].repositioned
    stage.overrides["startingPosition"] = {"type": "SequenceNumber", "sequenceNumber": 4}
    blobs = dict(stage.sink.blobs)
    plan = (await (await stage.person(reposition=True)).examine())[0]
    assert (plan.repositioned, plan.start, plan.gone, plan.ahead, plan.diverged) == (True, 4, 0, 6, False)
    assert stage.sink.blobs == blobs  # it only reads
    assert not (await (await stage.person()).examine())[0].repositioned
    assert (await accepted(stage, reposition=True)).start == 4
    # Again, before a host has opened the partition in the new segment.
    stage.overrides["startingPosition"] = EARLIEST
    end = await accepted(stage, reposition=True)
    assert (end.repositioned, end.files_end.sequence_number, end.start) == (True, 3, 0)
    running = await stage.pump("host-b")
    stage.partition.add(*bodies(10, 14))
    await eventually(lambda: running.pump.report().next_sequence_number == 15)
    await running.stop()
    assert [stage.contents(segment) for segment in stage.segments] == [[], [], bodies(0, 14)]
    assert not running.pump.problems()
    stage.overrides["startingPosition"] = LATEST  # too late: it has files
    plan = (await (await stage.person(reposition=True)).examine())[0]
    assert (plan.repositioned, plan.start) == (False, 15)


@virtual
async def test_a_partition_without_a_file_begins_at_a_later_position_and_the_hub_is_recognised_by_it() -> None:
    stage = await opened({"type": "SequenceNumber", "sequenceNumber": 10})
    stage.overrides["startingPosition"] = LATEST
    stage.partition.add(*bodies(10, 19))
    end = await accepted(stage, reposition=True)
    assert (end.repositioned, end.start, end.common) == (True, 20, 19)
    stage.partition.forget_last(1)
    stage.partition.add(*bodies(19, 29, "new"))
    running = await stage.pump("host-b")
    await eventually(lambda: Reason.HUB_DIVERGED in running.reasons())
    await running.stop()
    assert stage.contents(stage.segments[-1]) == []


@virtual
async def test_a_host_that_knows_the_old_start_writes_no_file_there() -> None:
    stage = world(startingPosition=LATEST, roll={"maxBytes": 1_000_000, "maxSeconds": 50, "maxEvents": 20})
    stage.partition.add(*bodies(0, 9))
    await stage.register()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 10)
    stage.partition.add(*bodies(10, 14))
    await eventually(lambda: running.pump.report().sequence_number == 14)  # in memory, in no file
    stage.overrides["startingPosition"], stage.partition.reader = (
        EARLIEST,
        None,
    )  # the link is lost, unknown to the host
    assert (await accepted(stage, reposition=True)).start == 0
    await eventually(lambda: Reason.HUB_DIVERGED in running.reasons())
    await running.stop()
    later = await stage.pump("host-b")
    await eventually(lambda: later.pump.report().sequence_number == 14)
    await later.stop()
    assert [stage.contents(segment) for segment in stage.segments] == [[], bodies(0, 14)]


@virtual
async def test_a_repositioning_that_was_interrupted_is_run_again() -> None:
    stage = await opened(LATEST)
    stage.overrides["startingPosition"] = EARLIEST
    segment, _ = await (await stage.person(reposition=True)).accept(NOW)
    stage.sink.blobs.pop(f"p/_segments/{2:010d}.json")  # as if it had been interrupted between the two
    plan = (await (await stage.person(reposition=True)).examine())[0]
    assert plan.sealed and plan.repositioned and plan.start == 0
    assert (await (await stage.person(reposition=True)).accept(NOW))[0] == segment


@virtual
async def test_a_partition_that_began_at_a_checkpoint_is_not_repositioned() -> None:
    """Another program has processed the events before it."""
    stage = await opened(LATEST)
    stage.overrides["startingPosition"] = EARLIEST
    person = await stage.person(reposition=True)
    lease = replace(person.leases["0"], checkpoint=Checkpoint("9", 9))
    end = (await replace(person, leases={"0": lease}).examine())[0]
    assert (end.repositioned, end.start) == (False, 10)
