"""Who freezes batches: a leader, the probe, or both at once, on fakes that behave, in virtual time."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.batch import BatchManifest, attempt_name, commit_name, manifest_name
from eventconsumer_api.wire.host_config import BatchConfig
from eventconsumer_api.wire.host_report import FleetReport
from eventconsumer_host.batch.log import BatchLog
from eventconsumer_host.leader.batches import Batcher
from eventconsumer_host.leader.lag import Measure
from eventconsumer_storage.errors import Unavailable
from tests.support.fakes.blobs import Fault
from tests.support.fakes.virtual import virtual
from tests.unit.host.batch.test_log import record
from tests.unit.host.measuring import LeaderWorld, TimedHub, now


@dataclass
class Planner:
    """A leader, as far as batches go."""

    world: LeaderWorld
    measure: Measure
    batcher: Batcher

    async def round(self) -> FleetReport:
        """Measure and plan."""
        await self.world.report(self.measure)
        await self.batcher.plan()
        return await self.world.report(self.measure)

    async def plan(self) -> None:
        """Plan from what is known."""
        await self.batcher.plan()


async def planner(world: LeaderWorld) -> Planner:
    """A new one, which knows nothing."""
    measure = await world.measure()
    batcher = Batcher(world.config, measure, BatchLog(world.sink, "p"), now=now)
    return Planner(world, measure, batcher)


def world_of(trigger: dict[str, Any], limits: dict[str, Any] | None = None, **overrides: Any) -> LeaderWorld:
    return LeaderWorld(TimedHub(2), {"batches": {"trigger": trigger, "limits": limits or {}}} | overrides)


async def manifest(world: LeaderWorld, number: int) -> BatchManifest:
    blob = await world.sink.read(manifest_name("p", number), 10**6)
    assert blob is not None
    return BatchManifest.model_validate_json(blob.data)


async def commit(world: LeaderWorld, number: int) -> None:
    files = (await manifest(world, number)).files
    rows = sum(file.count for file in files)
    await world.sink.put(commit_name("p", number), record(number, files=len(files), rows_read=rows), if_absent=True)


@virtual
async def test_pending_files_are_reported_and_become_batches_within_the_limits() -> None:
    world = world_of({"files": 3, "ageSeconds": 600}, {"maxFiles": 2})
    leader = await planner(world)
    for last in (9, 19):
        await world.drain("0", last)
        await asyncio.sleep(10)
    report = await leader.round()
    assert (report.pending_files, report.pending_bytes, report.pending_seconds) == (2, 8, 20)
    assert (report.open_batch, report.last_commit) == (None, None)
    await world.drain("1", 4)
    report = await leader.round()
    assert report.open_batch is not None
    assert (report.open_batch.number, report.open_batch.files, report.open_batch.reason) == (1, 2, "Files")
    assert report.open_batch.created_at == now()
    assert (report.pending_files, report.pending_bytes, report.pending_seconds) == (3, 12, 0)
    assert [file.partition for file in (await manifest(world, 1)).files] == ["0", "0"]  # the oldest
    await asyncio.sleep(100)
    await commit(world, 1)
    report = await leader.round()
    assert (report.committed_batch, report.processed_files, report.committed_reason) == (1, 2, "Files")
    assert (report.pending_files, report.pending_bytes, report.pending_seconds) == (1, 4, 100)
    assert report.last_commit is not None and report.last_commit.rows_read == 20
    await asyncio.sleep(500)
    report = await leader.round()
    assert report.open_batch is not None and report.open_batch.reason == "Age"
    assert [file.partition for file in (await manifest(world, 2)).files] == ["1"]


@virtual
async def test_bytes_start_a_batch() -> None:
    world = world_of({"files": 100, "bytes": 8, "ageSeconds": 600})
    leader = await planner(world)
    await world.drain("0", 9)
    assert (await leader.round()).open_batch is None
    await world.drain("1", 9)
    report = await leader.round()
    assert report.open_batch is not None and report.open_batch.reason == "Bytes"


@virtual
async def test_a_host_and_a_probe_at_once_freeze_the_same_batches() -> None:
    """Each sees other files at other times; the first manifest counts for both, and nothing is in two batches."""
    world = world_of({"files": 1})
    host, probe = await planner(world), await planner(world)
    await world.drain("0", 9)
    await world.report(host.measure)
    await world.drain("0", 19)
    await world.drain("1", 9)
    await world.report(probe.measure)
    await probe.plan()  # of three files
    await host.plan()  # wanted one
    first = await manifest(world, 1)
    assert len(first.files) == 3
    assert host.measure.state == probe.measure.state
    assert host.measure.state.last == first
    await commit(world, 1)
    await world.drain("0", 29)
    for each in (host, probe):
        await each.round()
    second = await manifest(world, 2)
    assert [(file.partition, file.first, file.last) for file in second.files] == [("0", 20, 29)]
    assert (second.ranges["0"].first, second.next) == (20, {"0": 30, "1": 10})
    assert second.totals.files == 4
    reports = [await world.report(each.measure) for each in (host, probe)]
    assert reports[0] == reports[1]
    assert (reports[0].files, reports[0].events, reports[0].pending_files) == (4, 40, 1)


def numbers(report: FleetReport) -> list[int]:
    """Numbers of the open batches."""
    return [batch.number for batch in report.open_batches]


@virtual
async def test_as_many_batches_are_in_flight_as_the_spec_allows_and_none_without_files() -> None:
    world = world_of({"files": 1}, {"maxFiles": 1, "inFlight": 3})
    leader = await planner(world)
    for last in (9, 19, 29, 39, 49):
        await world.drain("0", last)
    report = await leader.round()
    assert (numbers(report), report.committed_batch, report.processed_files, report.pending_files) == (
        [1, 2, 3],
        0,
        0,
        5,
    )
    assert all(batch.parallel for batch in report.open_batches)
    found = [await manifest(world, number) for number in (1, 2, 3)]
    assert [each.ranges["0"].first for each in found] == [0, 10, 20]
    await commit(world, 1)
    assert numbers(await leader.round()) == [2, 3, 4]
    await commit(world, 2)
    await commit(world, 3)
    assert numbers(await leader.round()) == [4, 5]  # there are no more files
    successor = await planner(world)
    assert (await successor.round()).open_batches == (await leader.round()).open_batches


@virtual
async def test_commits_of_parallel_batches_are_published_by_a_leader_and_not_by_a_measurement() -> None:
    world = world_of({"files": 1}, {"maxFiles": 1, "inFlight": 3})
    leader = await planner(world)
    for last in (9, 19, 29):
        await world.drain("0", last)
    await leader.round()
    for number in (1, 2):
        await world.sink.put(attempt_name("p", number), record(number))
    assert numbers(await world.report(leader.measure)) == [1, 2, 3]
    assert numbers(await leader.round()) == [3]
    await world.sink.put(attempt_name("p", 3), record(3))
    world.sink.delete(commit_name("p", 2))
    assert numbers(await leader.round()) == [3]
    (problem,) = leader.batcher.problems
    assert problem.field == "spec.sink.container"
    assert "_commits/0000000002.json is missing" in problem.message
    await world.sink.put(commit_name("p", 2), record(2))
    assert numbers(await leader.round()) == []
    assert leader.batcher.problems == []


@virtual
async def test_the_last_parallel_batches_end_before_batches_are_in_order_again() -> None:
    world = world_of({"files": 1}, {"maxFiles": 1, "inFlight": 2})
    leader = await planner(world)
    for last in (9, 19, 29):
        await world.drain("0", last)
    await leader.round()
    world.config = world.config.model_copy(update={"batches": BatchConfig.model_validate({"trigger": {"files": 1}})})
    leader = await planner(world)
    await commit(world, 1)
    assert numbers(await leader.round()) == [2]
    await commit(world, 2)
    assert numbers(await leader.round()) == [3]
    assert not (await manifest(world, 3)).parallel


@virtual
async def test_an_unreadable_schedule_is_a_problem_and_other_triggers_continue() -> None:
    world = world_of({"files": 2, "schedule": "61 * * * *"})
    leader = await planner(world)
    await world.drain("0", 9)
    assert (await leader.round()).open_batch is None
    (problem,) = leader.batcher.problems
    assert (problem.field, problem.reason) == ("spec.spark.trigger.schedule", "SpecInvalid")
    await world.drain("0", 19)
    report = await leader.round()
    assert report.open_batch is not None and report.open_batch.reason == "Files"


@virtual
async def test_a_schedule_starts_a_batch_of_what_was_there_by_then() -> None:
    world = world_of({"files": 1000, "schedule": "*/10 * * * *", "ageSeconds": 600_000})
    leader = await planner(world)
    await world.drain("0", 9)
    await asyncio.sleep(600 - now().minute % 10 * 60 - now().second - 1)
    assert (await leader.round()).open_batch is None
    await asyncio.sleep(3)
    await world.drain("0", 19)
    report = await leader.round()
    assert report.open_batch is not None
    assert (report.open_batch.reason, report.open_batch.files) == ("Schedule", 1)
    assert report.pending_files == 2


@virtual
async def test_an_unreadable_commit_record_is_a_problem_of_the_sink_and_batches_continue() -> None:
    world = world_of({"files": 1})
    leader = await planner(world)
    await world.drain("0", 9)
    await leader.round()
    await world.sink.put(commit_name("p", 1), b"[]")
    await world.drain("0", 19)
    report = await leader.round()
    (problem,) = leader.batcher.problems
    assert (problem.field, problem.reason) == ("spec.sink.container", "ChainInvalid")
    assert "_commits/0000000001.json" in problem.message
    assert report.open_batch is not None
    assert (report.open_batch.number, report.committed_batch, report.last_commit) == (2, 1, None)
    await world.sink.put(commit_name("p", 1), record(1))
    report = await leader.round()
    assert report.last_commit is not None
    await leader.plan()
    assert leader.batcher.problems == []


@virtual
async def test_storage_that_fails_leaves_no_half_a_batch() -> None:
    world = world_of({"files": 1})
    leader = await planner(world)
    await world.drain("0", 9)
    await world.report(leader.measure)
    world.sink.faults.append(Fault("put"))
    with pytest.raises(Unavailable):
        await leader.plan()
    assert leader.measure.state.open == ()
    report = await leader.round()
    assert report.open_batch is not None and report.open_batch.files == 1


@virtual
async def test_without_spark_nothing_waits() -> None:
    world = LeaderWorld(TimedHub(1))
    leader = await planner(world)
    await world.drain("0", 9)
    report = await leader.round()
    assert (report.files, report.pending_files, report.pending_bytes, report.pending_seconds) == (1, 0, 0, 0)


@virtual
@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"format": "Parquet"}, FileFormat.PARQUET),
        ({"format": "Avro"}, FileFormat.AVRO),
        ({"format": "Avro", "layout": "Capture"}, FileFormat.AVRO),
    ],
)
async def test_the_manifest_names_the_format(files: dict[str, Any], named: FileFormat) -> None:
    world = world_of({"files": 1}, files=files)
    leader = await planner(world)
    await world.drain("0", 9)
    await leader.round()
    assert (await manifest(world, 1)).format is named
