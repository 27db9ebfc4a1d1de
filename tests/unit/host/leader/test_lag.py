"""The measure of a whole consumer, on fakes that behave, in virtual time."""

import asyncio
import json
from datetime import timedelta
from typing import Any

from eventconsumer_api.wire.batch import BatchManifest, Totals
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_api.wire.host_report import PartitionLag
from eventconsumer_host.batch.log import BatchState
from eventconsumer_host.leader.lag import OFTEN_LOOK_SECONDS, RARE_LOOK_SECONDS, Measure
from eventconsumer_host.leader.ledger import STALE
from eventconsumer_host.leader.task import View
from eventconsumer_host.leader.watermark import WatermarkFile
from tests.support.fakes.virtual import virtual
from tests.unit.host.measuring import LeaderWorld, TimedHub, now
from tests.unit.host.stage import CONFIG

REPLACING = {"processing": {"handler": "shop:Orders", "handlerMode": "Replace"}}


@virtual
async def test_every_partition_has_its_own_lag() -> None:
    world = LeaderWorld(TimedHub(3))
    measure = await world.measure()
    world.hub.publish("0", 10)
    await world.drain("0", 9)
    await world.report(measure)
    await asyncio.sleep(5)
    world.hub.publish("0", 5)
    world.hub.publish("1", 7)
    await asyncio.sleep(3)
    report = await world.report(measure)
    assert report.lags == {
        "0": PartitionLag(events=5, seconds=8),  # at most: 8 s ago there were only 10
        "1": PartitionLag(events=7, seconds=8),
        "2": PartitionLag(events=0, seconds=0),
    }
    assert (report.lag_events, report.lag_seconds) == (12, 8)
    assert report.last_enqueued_time == now() - timedelta(seconds=3)


async def publish(world: LeaderWorld, measure: Measure) -> None:
    """Write the watermark, as a leader does after a round."""
    await WatermarkFile(world.sink, "p", "c", now).publish(measure.completeness())


@virtual
async def test_the_next_leader_counts_only_files_after_the_watermark() -> None:
    world = await LeaderWorld.drained(2, 10)
    for partition in "01":
        world.hub.publish(partition, 20)
        world.hub.partitions[partition].retain_from(20)
        await world.drain(partition, 29, lost=10)
    first = await world.measure()
    counted = await world.report(first)
    assert (counted.files, counted.events, counted.gap_events) == (4, 40, 20)
    await publish(world, first)
    world.hub.publish("0", 5)
    await world.drain("0", 34)
    expected = await world.report(first)

    world.sink.calls.clear()
    second = await world.measure()
    found = await world.report(second)
    assert found == expected
    assert (found.files, found.events, found.gaps) == (5, 45, {"0": "10-19", "1": "10-19"})
    assert "list_page" not in {operation for operation, _ in world.sink.calls}
    assert [ledger.files for ledger in second.ledgers.values()] == [1, 0]

    await publish(world, second)  # its totals are the same as if it had counted all files
    await WatermarkFile(world.sink, "p", "another", now).publish(None)
    third = await world.measure()
    assert await world.report(third) == expected


@virtual
async def test_batches_of_a_time_with_spark_do_not_count_all_files_so_there_are_no_totals() -> None:
    world = await LeaderWorld.drained(1, 10)
    first = await world.measure()
    await world.report(first)
    with_totals = first.completeness()
    owner = ResourceRef(namespace="shop", name="orders", uid="u")
    kept: Any = {"resource": owner, "chain": "c", "segmentId": "era", "reason": "Age", "created_at": now()}
    first.state = BatchState(BatchManifest(number=1, files=[], ranges={}, next={"0": 10}, totals=Totals(), **kept))
    without = first.completeness()
    assert with_totals is not None and with_totals.totals is not None
    assert without is not None and without.totals is None


@virtual
async def test_a_watermark_of_another_version_or_chain_or_without_totals_is_not_counted_on() -> None:
    world = await LeaderWorld.drained(1, 10)
    first = await world.measure()
    expected = await world.report(first)
    await publish(world, first)
    name = "p/_watermark.json"
    for change in ({"chain": "other"}, {"totals": None}, {"segmentId": "gone"}, {"files": "soon"}):
        blob = await world.sink.read(name, 10_000)
        assert blob is not None
        good = json.loads(blob.data)
        await world.sink.put(name, json.dumps(good | change).encode())
        assert await world.report(await world.measure()) == expected, change
        await world.sink.put(name, json.dumps(good).encode())


@virtual
async def test_a_new_leader_after_hours_without_events_does_not_take_the_newest_for_old() -> None:
    world = await LeaderWorld.drained(1, 10)
    await asyncio.sleep(3 * 3600)
    world.hub.publish("0", 10)
    await asyncio.sleep(2)
    measure = await world.measure()
    report = await world.report(measure)
    assert report.lags["0"] == PartitionLag(events=10, seconds=2)


@virtual
async def test_retention_behind_the_checkpoint_leaves_only_what_is_there() -> None:
    world = await LeaderWorld.drained(1, 10)
    world.hub.publish("0", 90)
    world.hub.partitions["0"].retain_from(70)
    measure = await world.measure()
    assert (await world.report(measure)).lag_events == 30
    world.hub.partitions["0"].retain_from(100)
    assert (await world.report(measure)).lags["0"] == PartitionLag(events=0, seconds=0)


@virtual
async def test_totals_of_a_manifest_that_somebody_changed_end_no_leader() -> None:
    world = LeaderWorld(TimedHub(1))
    await world.drain("0", 9)
    measure = await world.measure()
    await world.report(measure)
    for number, expected in ((-50, 0), (2**70, 2**63 - 1)):
        owner = ResourceRef(namespace="shop", name="orders", uid="u")
        totals = Totals(files=number, events=number, bytes=number, gap_events=number)
        kept: Any = {"resource": owner, "chain": "c1", "segmentId": "e", "reason": "Age", "created_at": now()}
        manifest = BatchManifest(number=1, files=[], ranges={}, next={}, totals=totals, **kept)
        measure.state = BatchState(manifest)
        report = measure.report(View(["0"]))
        assert (report.events, report.processed_files) == (expected, expected)


@virtual
async def test_lag_is_known_whatever_the_creation_time_so_that_hosts_look() -> None:
    world = await LeaderWorld.drained(1, 10)
    measure = await world.measure()
    assert (await world.report(measure)).lag_events == 0
    world.hub.promote()
    assert (await world.report(measure)).lag_events == 0
    world.hub.recreate()
    world.hub.publish("0", 5)
    assert (await world.report(measure)).lags["0"] == PartitionLag()  # it ends before the files do
    world.hub.publish("0", 45)
    assert (await world.report(measure)).lags["0"].events == 40


@virtual
async def test_a_silent_hub_is_unknown_after_a_minute_and_known_again_at_once() -> None:
    world = LeaderWorld(TimedHub(2))
    world.hub.publish("0", 10)
    measure = await world.measure()
    assert (await world.report(measure)).lag_events == 10
    world.hub.silent = True
    await asyncio.sleep(STALE.total_seconds() / 2)
    assert (await world.report(measure)).lag_events == 10
    await asyncio.sleep(STALE.total_seconds() / 2)
    report = await world.report(measure)
    assert (report.lag_events, report.lag_seconds, report.last_enqueued_time) == (None, None, None)
    world.hub.silent = False
    assert (await world.report(measure)).lag_events == 10


@virtual
async def test_a_partition_that_nobody_opened_counts_from_the_starting_position_or_a_foreign_checkpoint() -> None:
    world = LeaderWorld(
        TimedHub(3),
        {"startingPosition": {"type": "Latest", "partitions": {"1": {"type": "Earliest"}, "2": {"type": "Earliest"}}}},
    )
    for partition in "012":
        world.hub.publish(partition, 10)
    world.checkpoint("2", 6)
    report = await world.report(await world.measure())
    assert [lag.events for lag in report.lags.values()] == [0, 10, 3]


@virtual
async def test_with_a_handler_instead_of_files_the_checkpoint_counts() -> None:
    world = LeaderWorld(TimedHub(1), REPLACING)
    await world.chain("0").begin(0)
    world.hub.publish("0", 10)
    measure = await world.measure()
    assert (await world.report(measure)).lag_events == 10
    world.checkpoint("0", 7)
    assert (await world.report(measure)).lag_events == 2
    asked = len(world.sink.calls)
    assert (await world.report(measure)).lag_events == 2
    assert len(world.sink.calls) == asked  # there are no files to look for


@virtual
async def test_what_another_program_processed_under_shared_leases_is_no_lag() -> None:
    shared = LeaderWorld(TimedHub(1), {"leases": CONFIG["leases"] | {"shared": True}})
    alone = LeaderWorld(TimedHub(1))
    for world, lag in ((shared, 2), (alone, 5)):
        world.hub.publish("0", 10)
        await world.drain("0", 4)
        measure = await world.measure()
        await world.report(measure)
        world.checkpoint("0", 7)
        assert (await world.report(measure)).lag_events == lag


@virtual
async def test_files_whose_checkpoint_is_missing_are_found_a_little_later() -> None:
    late = {"processing": CONFIG["processing"] | {"checkpoint": {"policy": "Interval", "seconds": 600}}}
    for overrides, seconds in (({}, CONFIG["roll"]["maxSeconds"] + RARE_LOOK_SECONDS), (late, OFTEN_LOOK_SECONDS)):
        world = LeaderWorld(TimedHub(1), overrides)
        world.hub.publish("0", 10)
        await world.drain("0", 9)
        measure = await world.measure()
        await world.report(measure)
        world.hub.publish("0", 10)
        await world.report(measure)
        await world.drain("0", 19, checkpoint=False)
        assert (await world.report(measure)).lag_events == 10
        await asyncio.sleep(seconds - 1)
        assert (await world.report(measure)).lag_events == 10
        await asyncio.sleep(1)
        assert (await world.report(measure)).lag_events == 0


@virtual
async def test_a_resting_consumer_costs_no_storage_call() -> None:
    world = await LeaderWorld.drained(2, 10)
    measure = await world.measure()
    await world.report(measure)
    asked = len(world.sink.calls)
    for _ in range(20):
        await asyncio.sleep(50)
        assert (await world.report(measure)).lag_events == 0
    assert len(world.sink.calls) == asked
