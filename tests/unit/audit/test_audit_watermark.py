"""The auditor compares the watermark with the enqueued times of the files."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventconsumer_audit.codes import Code
from tests.support.fakes.virtual import virtual
from tests.unit.audit.auditing import CHAIN, ERA, LATER, AuditedWorld, broken, segment, table

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def minutes(number: float) -> str:
    return (NOON + timedelta(minutes=number)).isoformat()


def times(earliest: float, latest: float) -> dict[str, str]:
    """Metadata of a file of events of these minutes."""
    return {"min_enqueued_time": minutes(earliest), "max_enqueued_time": minutes(latest)}


def record(**changes: Any) -> dict[str, Any]:
    """The watermark of `drained`."""
    return {
        "chain": CHAIN,
        "writtenAt": minutes(30),
        "files": minutes(20),
        "segmentId": ERA,
        "next": {"0": 20, "1": 10},
        "commits": minutes(10),
        "batch": 1,
    } | changes


async def drained() -> AuditedWorld:
    """Two files of partition 0 and one of partition 1; the second batch is open."""
    world = AuditedWorld()
    await world.begin(p0=0, p1=0)
    await world.file("0", 0, range(10), batched=True, changes=times(0, 9))
    await world.file("1", 0, range(10), batched=True, changes=times(5, 8))
    await world.batch(1, watermark=minutes(10))
    await world.file("0", 10, range(10, 20), batched=True, changes=times(10, 21))
    await world.batch(2, commit=False, watermark=minutes(20))
    await world.lease("0", 19)
    await world.lease("1", 9)
    await world.put("_watermark.json", record())
    return world


@virtual
async def test_a_watermark_that_is_right_is_clean() -> None:
    world = await drained()
    await world.file("0", 20, range(20, 30), changes=times(20, 30))  # behind the watermark
    await world.lease("0", 29)
    await world.put("_watermark.json", record(totals={"files": 3, "events": 30}))
    report = await world.audit()
    assert (report.exit_code, report.findings) == (0, [])


async def late(world: AuditedWorld) -> None:
    await world.file("1", 10, range(10, 20), changes=times(9, 40))
    await world.lease("1", 19)


@virtual
@pytest.mark.parametrize(
    ("change", "code", "count"),
    table(
        [
            ("an event was enqueued before all three", late, Code.WATERMARK_WRONG, 3),
            (
                "files are missing",
                lambda w: w.put("_watermark.json", record(next={"0": 20, "1": 11})),
                Code.WATERMARK_WRONG,
                1,
            ),
            (
                "a partition is missing",
                lambda w: w.put("_watermark.json", record(next={"0": 20})),
                Code.WATERMARK_WRONG,
                1,
            ),
            ("no such batch", lambda w: w.put("_watermark.json", record(batch=2)), Code.WATERMARK_WRONG, 1),
            (
                "the open batch counts",
                lambda w: w.put("_watermark.json", record(commits=minutes(11))),
                Code.WATERMARK_WRONG,
                1,
            ),
            (
                "a file is missing",
                lambda w: w.put("_watermark.json", record(totals={"files": 4, "events": 30})),
                Code.TOTALS_WRONG,
                1,
            ),
            (
                "an event is missing",
                lambda w: w.put("_watermark.json", record(totals={"files": 3, "events": 31})),
                Code.TOTALS_WRONG,
                1,
            ),
            (
                "totals are no numbers",
                lambda w: w.put("_watermark.json", record(totals=[3])),
                Code.WATERMARK_DAMAGED,
                1,
            ),
            ("another chain", lambda w: w.put("_watermark.json", record(chain="0" * 16)), Code.CHAIN_DIFFERS, 1),
            ("no JSON", lambda w: w.put("_watermark.json", b"{"), Code.WATERMARK_DAMAGED, 1),
            ("no time", lambda w: w.put("_watermark.json", record(files="soon")), Code.WATERMARK_DAMAGED, 1),
            (
                "no time zone",
                lambda w: w.put("_watermark.json", record(files="2026-01-01T12:00:00")),
                Code.WATERMARK_DAMAGED,
                1,
            ),
            ("a manifest's is no time", lambda w: w.batch(3, commit=False, watermark=5), Code.MANIFEST_DAMAGED, 1),
        ]
    ),
)
async def test_a_watermark_that_is_wrong_is_found(
    change: Callable[[AuditedWorld], Awaitable[object]], code: Code, count: int
) -> None:
    world = await drained()
    await change(world)
    report = await world.audit()
    assert report.counts.get(code) == count, report.findings
    assert report.exit_code == 2


@virtual
async def test_a_manifest_says_what_later_batches_may_not_have() -> None:
    world = await drained()
    await world.put("_watermark.json", record(files=minutes(0), commits=minutes(0)))
    await world.file("1", 10, range(10, 20), batched=True, changes=times(15, 16))
    await world.lease("1", 19)
    second = await world.batch(3, commit=False)
    assert second["number"] == 3
    report = await world.audit()
    assert report.counts[Code.WATERMARK_WRONG] == 1  # batch 2 was complete up to minute 20


@virtual
async def test_files_of_an_earlier_segment_are_older_than_the_watermark() -> None:
    world = await drained()
    for partition, end in (("0", 20), ("1", 10)):
        await world.seal(partition, end)
    await world.put(f"_segments/{2:010d}.json", segment(2, LATER, p0=broken(15, 19), p1=broken(10, 9)))
    for partition, start in (("0", 15), ("1", 10)):
        await world.put(f"_genesis/{LATER}/{partition}.json", {"start": start})
    world.era = LATER
    await world.file("0", 15, range(15, 20), changes=times(25, 26))
    await world.lease("1", None)
    assert Code.WATERMARK_WRONG not in (await world.audit()).counts
    counted = {"totals": {"files": 4, "events": 35}}
    await world.put("_watermark.json", record(segmentId=LATER, next={"0": 20, "1": 10}, files=minutes(27), **counted))
    assert not {Code.WATERMARK_WRONG, Code.TOTALS_WRONG} & (await world.audit()).counts.keys()
    await world.put("_watermark.json", record(files=minutes(27)))  # of the segment before
    assert (await world.audit()).counts[Code.WATERMARK_WRONG] == 1
