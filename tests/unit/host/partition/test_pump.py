"""The pump against a behaving hub and container: every fault ends with each event in exactly one file."""

import asyncio
import gc
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.conditions import Reason
from eventconsumer_api.v1alpha1 import Position
from eventconsumer_host.errors import HubBusy, HubUnreachable, LeaseLost, PositionRefused
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.partition.pump import PumpEnd
from eventconsumer_host.source.hub import HubInfo
from eventconsumer_storage.errors import Unauthorized, Unavailable
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import Fault
from tests.support.fakes.hub import CREATED, FakeHub, FakeSource
from tests.support.fakes.virtual import virtual
from tests.unit.host.stage import CONFIG, PumpWorld, eventually

SLOT = "p/segment=era/partition=0/from={:020d}.parquet"


def bodies(count: int) -> list[bytes]:
    """Some event bodies."""
    return [b"event"] * count


@virtual
async def test_files_roll_by_count_and_by_age_and_move_the_checkpoint() -> None:
    stage = PumpWorld()
    stage.partition.add(*bodies(25))
    running = await stage.pump()
    await eventually(lambda: len(stage.files()) == 3)
    assert {start: len(numbers) for start, numbers in stage.files().items()} == {"0": 10, "10": 10, "20": 5}
    await eventually(lambda: running.held.lease.checkpoint == Checkpoint("240", 24))
    assert await running.stop() is PumpEnd.SHUTDOWN
    assert json.loads(stage.leases.blobs["$Default/0"].data)["sequenceNumber"] == 24
    report = running.pump.report()
    assert (report.epoch, report.next_sequence_number, report.events, report.files) == (1, 25, 25, 3)
    assert report.sequence_number == 24 and report.enqueued_time == datetime(2026, 1, 1, 0, 0, 0, 24_000, UTC)
    assert report.retrieved_time is not None and report.retrieved_time > report.enqueued_time


@virtual
async def test_a_committed_files_events_are_let_go_before_the_checkpoint_is_written() -> None:
    stage = PumpWorld(overrides={"processing": {"maxBatchSize": 1, "prefetchCount": 100, "maxWaitSeconds": 20}})
    stage.partition.add(*[bytes([65 + number]) * 100_000 for number in range(10)])
    running = await stage.pump()
    advance, before, during = running.held.advance, pa.total_allocated_bytes(), list[int]()

    async def slowly(checkpoint: Checkpoint) -> None:
        gc.collect()
        during.append(pa.total_allocated_bytes() - before)
        await advance(checkpoint)

    running.held.advance = slowly  # type: ignore[method-assign]
    await eventually(lambda: bool(during))
    assert max(during) < 200_000  # the last batch, which the pump has at hand
    await running.stop()


@virtual
async def test_bodies_are_parsed_once_and_their_columns_are_counted_and_written_with_the_events() -> None:
    columns = (
        BodyColumn("cents", "long", ("price", "cents"), statistics=True),
        BodyColumn("note", "string", ("note",)),
    )
    stage = PumpWorld(columns=columns)
    good = [b'{"price": {"cents": %d}, "note": "%s"}' % (number, b"n" * 1000) for number in range(9)]
    running = await stage.pump()
    parsed: list[int] = []
    bodies = running.pump._deps.bodies
    assert bodies is not None
    parse = bodies._parse
    bodies._parse = lambda array: (parsed.append(len(array)), parse(array))[1]
    kept: list[int] = []
    keep = running.pump._deps.memory.keep
    running.pump._deps.memory.keep = lambda partition, size: (kept.append(size), keep(partition, size))[1]  # type: ignore[method-assign]
    stage.partition.add(*good)
    await eventually(lambda: sum(parsed) == 9)
    stage.sink.faults += [Fault("put")] * 3  # of the file: it is encoded again
    stage.partition.add(b"bad")
    await eventually(lambda: bool(stage.files()))
    assert sum(parsed) == 10
    assert max(kept) > 9000 + sum(map(len, good))
    blob = stage.sink.blobs[SLOT.format(0)]
    assert blob.metadata["columns"].startswith("0-1/")
    assert json.loads(blob.metadata["statistics"]) == {"0": [1, 0, 8]}
    rows = pq.read_table(pa.BufferReader(blob.data)).to_pylist()
    assert [row["cents"] for row in rows] == [*range(9), None]
    assert [row["note"] for row in rows] == ["n" * 1000] * 9 + [None]
    assert [row["_error"] is None for row in rows] == [True] * 9 + [False]
    (told,) = bodies.errors.report()
    assert (told.error, told.events, told.file) == (rows[9]["_error"], 1, SLOT.format(0))
    assert stage.metrics.body_errors.labels("0")._value.get() == 1
    await running.stop()
    assert kept[-1] == 0


@virtual
async def test_errors_of_bodies_are_counted_once_by_the_host_whose_file_has_them() -> None:
    stage = PumpWorld(columns=(BodyColumn("cents", "long", ("cents",)),))
    running = await stage.pump()
    bodies = running.pump._deps.bodies
    assert bodies is not None
    stage.partition.add(b"bad", b"{}")
    stage.sink.faults.append(Fault("put", applied=True))  # the answer is lost: the file is found in its slot
    await eventually(lambda: bool(stage.files()))
    await running.stop()
    assert (
        stage.metrics.body_errors.labels("0")._value.get() == sum(each.events for each in bodies.errors.report()) == 1
    )


@virtual
async def test_metadata_of_a_slot() -> None:
    stage = PumpWorld()
    stage.partition.add(*bodies(10))
    running = await stage.pump()
    await eventually(lambda: bool(stage.files()))
    facts = stage.sink.blobs[SLOT.format(0)].metadata
    assert {key: facts[key] for key in ("first", "last", "count", "epoch", "writer", "last_offset")} == {
        "first": "0",
        "last": "9",
        "count": "10",
        "epoch": "1",
        "writer": "host-a",
        "last_offset": "90",
    }
    assert facts["last_enqueued_time"] == "2026-01-01T00:00:00.009000+00:00"
    assert len(facts["sha256"]) == 64 and "gap" not in facts
    assert json.loads(stage.sink.blobs["p/_genesis/era/0.json"].data) == {"start": 0}
    await running.stop()


@virtual
async def test_latest_is_resolved_once_and_holds_for_every_later_owner() -> None:
    stage = PumpWorld(overrides={"startingPosition": {"type": "Latest"}})
    stage.partition.add(*bodies(7))
    first = await stage.pump()
    await eventually(lambda: first.pump.report().next_sequence_number == 7)
    stage.partition.add(*bodies(3))  # nothing is committed yet when the host dies
    await first.kill()
    second = await stage.pump("host-b")
    await eventually(lambda: stage.rows() == [7, 8, 9])
    await second.stop()


class Dated(PumpWorld):
    """A consumer that starts `starts` seconds after noon, on a hub with a clock, which has five events of noon."""

    def __init__(self, starts: float) -> None:
        when = (CREATED + timedelta(seconds=starts)).isoformat()
        super().__init__(overrides={"startingPosition": {"type": "EnqueuedTime", "enqueuedTime": when}})
        self.noon = virtual_clock()
        self.hub.tells_time = True
        self.set_clock(0)
        self.partition.add(*bodies(5))

    def set_clock(self, ahead: float) -> None:
        """Another broker takes the partition over, whose clock is ahead by so many seconds."""
        self.partition.clock = lambda: int((CREATED.timestamp() + virtual_clock() - self.noon + ahead) * 1000)


@virtual
async def test_events_before_a_starting_time_in_the_future_are_skipped_by_every_owner() -> None:
    stage = Dated(200)
    first = await stage.pump()
    await eventually(lambda: first.pump.report().read)
    await asyncio.sleep(50)
    stage.partition.add(*bodies(5))
    await asyncio.sleep(50)
    assert first.pump.problems() == [] and stage.partition.opened == 0 and stage.sink.blobs == {}
    await first.kill()
    second = await stage.pump("host-b")
    await asyncio.sleep(stage.noon + 199.9 - virtual_clock())
    stage.partition.add(*bodies(5))  # just before
    await asyncio.sleep(0.2)
    stage.partition.add(*bodies(5))
    await eventually(lambda: stage.rows() == [15, 16, 17, 18, 19])
    await second.stop()
    assert json.loads(stage.sink.blobs["p/_genesis/era/0.json"].data)["start"] == 15


@virtual
async def test_an_idle_partition_begins_at_its_end_when_no_event_before_the_starting_time_can_follow() -> None:
    """Clocks of brokers differ by up to a minute."""
    stage = Dated(100)
    running = await stage.pump()
    await asyncio.sleep(150)
    assert stage.partition.opened == 0
    stage.set_clock(-51)
    stage.partition.add(*bodies(1))  # before the time, by the clock of another broker
    await eventually(lambda: running.pump.report().next_sequence_number == 6, 120)
    stage.partition.add(*bodies(1))
    await eventually(lambda: stage.rows() == [6])
    await running.stop()


@virtual
async def test_a_stop_ends_the_wait_for_a_starting_time_at_once() -> None:
    stage = Dated(1e6)
    running = await stage.pump()
    await asyncio.sleep(10)
    before = virtual_clock()
    assert await running.stop() is PumpEnd.SHUTDOWN and virtual_clock() - before < 1


class Refusing(FakeHub):
    """Its service knows no such offset."""

    async def locate(self, partition: str, position: Position, epoch: int) -> int:
        """See `Hub`."""
        raise PositionRefused(f"The supplied offset '{position.offset}' is invalid.")


@virtual
async def test_a_starting_offset_beyond_the_end_is_the_problem_of_its_field() -> None:
    stage = PumpWorld(hub=Refusing(), overrides={"startingPosition": {"type": "Offset", "offset": "99"}})
    running = await stage.pump()
    await eventually(lambda: bool(running.pump.problems()))
    problem = running.problem("PositionInvalid")
    assert problem.field == "spec.startingPosition.offset" and "supplied offset '99'" in problem.message
    await running.stop()


class Hanging(FakeHub):
    """Its second link is attached after a minute."""

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> FakeSource:
        """See `Hub`."""
        source = await super().open(partition, after, epoch, prefetch)
        if self.partitions[partition].opened == 2:
            await asyncio.sleep(60)
        return source


@virtual
async def test_a_stop_does_not_wait_for_an_attach() -> None:
    stage = PumpWorld(hub=Hanging(), overrides={"roll": {"maxBytes": 1_000_000, "maxSeconds": 300, "maxEvents": 1000}})
    running = await stage.pump()
    stage.partition.add(*bodies(7))
    await eventually(lambda: running.pump.report().sequence_number == 6)
    assert stage.partition.reader is not None
    stage.partition.reader.broken = True
    await eventually(lambda: stage.partition.opened == 2)
    began = virtual_clock()
    assert await running.stop() is PumpEnd.SHUTDOWN
    assert virtual_clock() - began < 5
    assert stage.rows() == list(range(7))


class Late(FakeHub):
    """A hub that attaches a link at a given time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = asyncio.Event()

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> FakeSource:
        """See `Hub`."""
        await self.now.wait()
        return await super().open(partition, after, epoch, prefetch)


@virtual
async def test_a_link_that_is_attached_in_the_moment_of_a_cancellation_is_closed() -> None:
    hub = Late()
    running = await PumpWorld(hub=hub).pump()
    await asyncio.sleep(1)
    hub.now.set()
    asyncio.get_running_loop().call_soon(running.task.cancel)  # behind the attach, before the pump learns of it
    await asyncio.wait([running.task])
    reader = hub.partitions["0"].reader
    assert reader is not None and reader.closed


@pytest.mark.parametrize("operation", ["put", "head"])
@pytest.mark.parametrize("applied", [False, True])
@virtual
async def test_a_commit_whose_outcome_is_unknown_happens_once(operation: str, applied: bool) -> None:
    stage = PumpWorld()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    stage.sink.faults += [Fault("put", applied), Fault("put", False)] + ([Fault("head")] if operation == "head" else [])
    stage.partition.add(*bodies(30))
    await eventually(lambda: len(stage.rows()) == 30)
    assert stage.rows() == list(range(30))
    await running.stop()


@pytest.mark.slow
@virtual
async def test_sink_that_is_down_stops_receiving_and_drains_after() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    stage.sink.faults += [Fault("put", error=lambda: Unavailable("down")) for _ in range(50)]
    stage.partition.add(*bodies(1000))
    await eventually(lambda: bool(running.pump.problems()), 60)
    assert stage.partition.reader is not None
    position = stage.partition.reader.position
    assert position < 30
    await asyncio.sleep(60)
    assert stage.partition.reader.position == position
    assert running.reasons() == ["StorageUnreachable"]
    await eventually(lambda: len(stage.rows()) == 1000, 600)
    assert running.pump.problems() == []
    await running.stop()


@virtual
async def test_a_refused_credential_of_the_sink_is_a_problem_and_heals() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    stage.sink.faults += [
        Fault("put", error=lambda: Unauthorized("403", 403, "AuthorizationFailure")) for _ in range(3)
    ]
    stage.partition.add(*bodies(10))
    await eventually(lambda: bool(running.pump.problems()))
    assert running.reasons() == ["StorageUnauthorized"]
    await eventually(lambda: len(stage.rows()) == 10)
    await running.stop()


@virtual
async def test_another_writers_file_is_adopted() -> None:
    stage = PumpWorld(overrides={"roll": {"maxBytes": 1_000_000, "maxSeconds": 5, "maxEvents": 6}})
    stage.partition.add(*bodies(6))
    first = await stage.pump()
    await eventually(lambda: len(stage.rows()) == 6)
    # A file of the same epoch, as a delayed put of this owner's would be.
    winner = stage.sink.blobs[SLOT.format(0)]
    await stage.sink.put(
        SLOT.format(6), winner.data, metadata=winner.metadata | {"first": "6", "last": "8", "count": "3"}
    )
    stage.partition.add(*bodies(10))
    await eventually(lambda: first.pump.report().next_sequence_number == 16)
    assert first.held.lease.checkpoint == Checkpoint("150", 15)
    assert SLOT.format(9) in stage.sink.blobs
    assert stage.metrics.adopted.labels("0")._value.get() == 1
    await first.stop()


@virtual
async def test_a_successor_takes_the_link_and_the_former_owner_commits_nothing_more() -> None:
    stage = PumpWorld()
    former = await stage.pump("host-a")
    await eventually(lambda: former.pump.report().next_sequence_number == 0)
    stage.partition.add(*bodies(4))
    await asyncio.sleep(1)  # in the former owner's buffer, not yet a file
    successor = await stage.pump("host-b")
    stage.partition.add(*bodies(6))
    assert await former.task is PumpEnd.STOLEN
    await eventually(lambda: len(stage.rows()) == 10)
    assert stage.rows() == list(range(10))
    assert {blob.metadata["writer"] for name, blob in stage.sink.blobs.items() if "from=" in name} == {"host-b"}
    await successor.stop()


@virtual
async def test_a_zombie_halts_at_a_file_of_a_higher_epoch() -> None:
    stage = PumpWorld()
    zombie = await stage.pump("host-a")
    await eventually(lambda: zombie.pump.report().next_sequence_number == 0)
    facts = {"first": "0", "last": "3", "count": "4", "epoch": "9", "nonce": "n", "last_offset": "30"}
    facts["last_enqueued_time"] = "2026-01-01T00:00:00+00:00"
    await stage.sink.put(SLOT.format(0), b"", metadata=facts)
    stage.partition.add(*bodies(10))
    assert await zombie.task is PumpEnd.FENCED
    assert [name for name in stage.sink.blobs if "from=" in name] == [SLOT.format(0)]
    assert zombie.held.lease.checkpoint is None


@virtual
async def test_a_lost_lease_ends_the_pump_without_a_commit() -> None:
    stage = PumpWorld(overrides={"roll": {"maxBytes": 1_000_000, "maxSeconds": 600, "maxEvents": 1000}})
    stage.partition.add(*bodies(4))
    running = await stage.pump()
    await eventually(lambda: stage.partition.reader is not None and stage.partition.reader.position == 3)
    stage.leases.faults += [Fault("renew_lease") for _ in range(100)]
    with pytest.raises(LeaseLost):
        await running.task
    assert stage.rows() == []


@virtual
async def test_checkpoint_that_fails_is_covered_by_the_next_owner() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    stage.leases.faults += [Fault("put")]
    stage.partition.add(*bodies(10))
    await eventually(lambda: len(stage.rows()) == 10)
    await running.kill()
    assert "offset" not in json.loads(stage.leases.blobs["$Default/0"].data)
    stage.partition.add(*bodies(10))
    successor = await stage.pump("host-b")
    await eventually(lambda: len(stage.rows()) == 20)
    await successor.stop()
    assert stage.rows() == list(range(20))


@virtual
async def test_a_checkpoint_written_without_an_answer_is_not_a_lost_lease() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 0)
    stage.leases.faults += [Fault("put", applied=True)]
    stage.partition.add(*bodies(10))
    await eventually(lambda: len(stage.rows()) == 10)
    stage.partition.add(*bodies(10))
    await eventually(lambda: running.held.lease.checkpoint == Checkpoint("190", 19))
    assert await running.stop() is PumpEnd.SHUTDOWN


@virtual
async def test_redelivered_events_are_dropped_and_counted() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    stage.partition.add(*bodies(10))
    await eventually(lambda: len(stage.rows()) == 10)
    assert stage.partition.reader is not None
    stage.partition.reader.position = 4
    stage.partition.add(*bodies(10))
    await eventually(lambda: len(stage.rows()) == 20)
    assert stage.rows() == list(range(20))
    assert stage.metrics.duplicates.labels("0")._value.get() == 5
    await running.stop()


@virtual
async def test_a_lost_link_is_opened_again_with_the_buffer_kept() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    stage.partition.add(*bodies(4))
    await eventually(lambda: stage.partition.reader is not None and stage.partition.reader.position == 3)
    assert stage.partition.reader is not None
    stage.partition.reader.broken = True
    stage.partition.add(*bodies(6))
    await eventually(lambda: len(stage.rows()) == 10)
    assert stage.rows() == list(range(10))
    assert not running.pump.problems()
    await running.stop()


@virtual
async def test_a_frozen_link_is_noticed() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    await eventually(lambda: stage.partition.reader is not None)
    assert stage.partition.reader is not None
    stage.partition.reader.frozen = True
    stage.partition.add(*bodies(10))
    await eventually(lambda: len(stage.rows()) == 10, 60)
    await running.stop()


@virtual
async def test_retention_that_passes_the_reader_is_recorded_and_said() -> None:
    stage = PumpWorld()
    stage.partition.add(*bodies(5))
    running = await stage.pump()
    await eventually(lambda: stage.rows() == list(range(5)))
    await running.kill()
    stage.partition.add(*bodies(20))
    stage.partition.retain_from(12)
    successor = await stage.pump("host-b")
    await eventually(lambda: stage.rows() == [*range(5), *range(12, 25)])
    gap = stage.sink.blobs[SLOT.format(5)].metadata
    assert (gap["gap"], gap["first"]) == ("retention:5-11", "12")
    assert not successor.pump.problems()  # it needs nobody: the record is in the file
    assert stage.metrics.registry.get_sample_value("eventconsumer_gap_events_total", {"partition": "0"}) == 7
    await successor.stop()


@virtual
async def test_undecoded_events_are_in_the_files_and_said() -> None:
    stage = PumpWorld()
    stage.partition.add(*bodies(25))
    stage.partition.undecoded = {3, 12, 24}
    running = await stage.pump()
    await eventually(lambda: stage.rows() == list(range(25)))
    assert "3 events of partition 0 could not be decoded" in running.problem("DeadLetters").message
    assert "the newest is 24" in running.problem("DeadLetters").message
    assert stage.metrics.registry.get_sample_value("eventconsumer_undecoded_events_total", {"partition": "0"}) == 3
    assert not any("gap" in blob.metadata for blob in stage.sink.blobs.values())
    await running.stop()


@virtual
async def test_events_that_a_link_skipped_are_read_again() -> None:
    stage = PumpWorld()
    running = await stage.pump()
    await eventually(lambda: stage.partition.reader is not None)
    assert stage.partition.reader is not None
    stage.partition.add(*bodies(10))
    stage.partition.reader.position = 5  # the link loses events that the hub still has
    await eventually(lambda: len(stage.rows()) == 10)
    assert stage.rows() == list(range(10))
    assert running.pump.problems() == []
    await running.stop()


@virtual
async def test_a_checkpoint_beyond_the_end_is_refused() -> None:
    stage = PumpWorld()
    stage.partition.add(*bodies(10))
    body = b'{"Offset":"5000","SequenceNumber":500,"PartitionId":"0","Owner":"","Token":"","Epoch":3}'
    await stage.leases.put("$Default/0", body)
    running = await stage.pump()
    await eventually(lambda: bool(running.pump.problems()))
    (problem,) = running.pump.problems()
    assert "ends before sequence number 500" in problem.message
    assert stage.rows() == []
    await running.stop()


@virtual
async def test_a_rebuilt_lease_continues_after_the_chain_with_a_higher_epoch() -> None:
    stage = PumpWorld()
    stage.partition.add(*bodies(10))
    for owner in ("host-a", "host-b", "host-c"):
        running = await stage.pump(owner)
        await eventually(lambda: len(stage.rows()) == stage.partition.last + 1)
        await running.stop()
        stage.partition.add(*bodies(10))
    del stage.leases.blobs["$Default/0"]
    rebuilt = await stage.pump("host-d")
    await eventually(lambda: len(stage.rows()) == 40)
    assert stage.rows() == list(range(40))
    assert rebuilt.held.lease.epoch == 4  # the chain's last is 3
    await rebuilt.stop()


@virtual
async def test_stop_flushes_what_is_buffered() -> None:
    stage = PumpWorld(overrides={"roll": {"maxBytes": 1_000_000, "maxSeconds": 600, "maxEvents": 1000}})
    stage.partition.add(*bodies(4))
    running = await stage.pump()
    await eventually(lambda: stage.partition.reader is not None and stage.partition.reader.position == 3)
    assert await running.stop() is PumpEnd.SHUTDOWN
    assert stage.rows() == list(range(4))
    assert json.loads(stage.leases.blobs["$Default/0"].data)["owner"] == ""


class _Busy(FakeHub):
    """Limits requests six times."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    async def open(self, partition: str, after: int, epoch: int, prefetch: int) -> FakeSource:
        """See `Hub`."""
        self.asked.append(asyncio.get_running_loop().time())
        if len(self.asked) <= 6:
            raise HubBusy("status code: 503")
        return await super().open(partition, after, epoch, prefetch)


@virtual
async def test_a_hub_that_limits_requests_is_asked_again_after_4_seconds_and_then_less_and_less() -> None:
    hub = _Busy()
    stage = PumpWorld(hub=hub)
    stage.partition.add(*bodies(10))
    running = await stage.pump()
    await eventually(lambda: len(hub.asked) == 3)
    assert "limits the requests" in running.problem(Reason.EVENT_HUB_UNREACHABLE).message
    await eventually(lambda: len(stage.files()) == 1, 300)
    assert running.pump.problems() == []
    pauses = [later - earlier for earlier, later in zip(hub.asked, hub.asked[1:], strict=False)]
    for pause, least in zip(pauses, (4, 8, 16, 32, 60, 60), strict=True):
        assert least <= pause <= 1.5 * least + 1
    await running.stop()


class _Refusing(FakeHub):
    """Another reader is there, and the hub gives no other answer."""

    async def describe(self) -> HubInfo:
        raise HubUnreachable("reset")


@virtual
async def test_a_refused_epoch_is_never_tried_again_whatever_else_fails() -> None:
    stage = PumpWorld(hub=_Refusing())
    await stage.hub.open("0", -1, epoch=99, prefetch=1)
    running = await stage.pump()
    assert await asyncio.wait_for(running.task, 60) is PumpEnd.STOLEN
    await running.stop()


@virtual
async def test_what_another_program_read_is_recorded_once_however_often_the_position_is_looked_for() -> None:
    stage = PumpWorld(overrides={"leases": CONFIG["leases"] | {"shared": True}})
    stage.partition.add(*bodies(10))
    first = await stage.pump()
    await eventually(lambda: len(stage.rows()) == 10)
    await first.stop()
    body = json.loads(stage.leases.blobs["$Default/0"].data)
    await stage.leases.put("$Default/0", json.dumps(body | {"sequenceNumber": 19, "offset": "190"}).encode())
    second = await stage.pump("host-b")
    await eventually(lambda: bool(second.pump.problems()))  # the hub has no such number yet
    await asyncio.sleep(30)
    stage.partition.add(*bodies(15))
    await eventually(lambda: len(stage.rows()) == 15)
    assert stage.sink.blobs[SLOT.format(10)].metadata["gap"] == "foreign:10-19"
    await second.stop()


@virtual
async def test_a_pump_that_is_to_end_has_its_link_wait_for_no_more_events() -> None:
    stage = PumpWorld()
    stage.partition.add(*bodies(3))
    running = await stage.pump()
    await eventually(lambda: running.pump.report().sequence_number == 2)
    reader = stage.partition.reader
    assert isinstance(reader, FakeSource) and not reader.hurried
    assert await running.stop() is PumpEnd.SHUTDOWN
    assert reader.hurried and stage.rows() == [0, 1, 2]
