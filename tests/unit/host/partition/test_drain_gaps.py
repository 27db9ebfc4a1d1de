"""A partition full of holes, as in a hub with log compaction: they are recorded, and cost neither links nor files."""

import pytest

from eventconsumer_host.sink import gaps
from eventconsumer_host.sink.gaps import Gap, GapReason
from tests.support.fakes.virtual import virtual
from tests.unit.host.chains import chain, draft
from tests.unit.host.stage import PumpWorld, eventually

HOLES = list(range(1, 2001, 2))
SIZES = {
    "roll": {"maxBytes": 10_000_000, "maxSeconds": 5, "maxEvents": 300},
    "processing": {"maxBatchSize": 100, "prefetchCount": 3000, "maxWaitSeconds": 20},
}


def stage_of(count: int, *, without: list[int]) -> PumpWorld:
    """A hub with so many events but these."""
    stage = PumpWorld(overrides=dict(SIZES))
    stage.partition.add(*(b"%d" % number for number in range(count)))
    stage.partition.compact(without)
    return stage


def recorded(stage: PumpWorld) -> list[Gap]:
    """Gaps in the metadata of files, in the order of files."""
    texts = [blob.metadata.get("gap", "") for name, blob in sorted(stage.sink.blobs.items()) if "/from=" in name]
    return [gap for text in texts for gap in gaps.parse(text)]


@virtual
async def test_a_compacted_hub_takes_one_more_link_and_as_many_files_as_its_events() -> None:
    stage = stage_of(2001, without=HOLES)
    running = await stage.pump()
    await eventually(lambda: stage.rows() == list(range(0, 2001, 2)))
    await running.stop()
    whole = stage_of(1001, without=[])
    other = await whole.pump()
    await eventually(lambda: len(whole.rows()) == 1001)
    await other.stop()
    assert len(stage.files()) == len(whole.files()) == 4
    assert (stage.partition.opened, whole.partition.opened) == (2, 1)  # the first hole is looked at twice
    assert [gap.reason for gap in recorded(stage)] == [GapReason.COMPACTION] * 4
    assert (recorded(stage)[0].first, recorded(stage)[-1].last) == (1, 1999)
    assert sum(map(len, recorded(stage))) == len(HOLES)
    assert not stage.metrics.registry.get_sample_value("eventconsumer_gap_events_total", {"partition": "0"})
    assert not running.pump.problems()


@virtual
async def test_retention_that_passes_after_the_hub_was_asked_is_not_taken_for_compaction() -> None:
    stage = stage_of(500, without=HOLES[:250])
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 499)
    assert stage.partition.reader is not None
    stage.partition.add(*(b"later" for _ in range(200)))
    stage.partition.compact(range(501, 700, 2))
    stage.partition.retain_from(600)  # the same link continues
    await eventually(lambda: running.pump.report().next_sequence_number == 699)
    await running.stop()
    assert stage.partition.opened == 2
    lost = [gap for gap in recorded(stage) if gap.reason is GapReason.RETENTION]
    assert [(gap.first, gap.last) for gap in lost] == [(499, 599)]
    assert stage.metrics.registry.get_sample_value("eventconsumer_gap_events_total", {"partition": "0"}) == 101


@virtual
async def test_retention_is_found_in_a_compacted_hub_too() -> None:
    stage = stage_of(500, without=HOLES[:250])
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 499)
    assert stage.partition.reader is not None
    stage.partition.reader.frozen = True
    stage.partition.add(*(b"later" for _ in range(200)))
    stage.partition.compact(range(501, 700, 2))
    stage.partition.retain_from(600)
    await eventually(lambda: running.pump.report().next_sequence_number == 699, 200)
    await running.stop()
    lost = [gap for gap in recorded(stage) if gap.reason is GapReason.RETENTION]
    assert [(gap.first, gap.last) for gap in lost] == [(499, 599)]
    assert stage.metrics.registry.get_sample_value("eventconsumer_gap_events_total", {"partition": "0"}) == 101


@virtual
async def test_a_hole_may_be_of_retention_in_front_and_of_compaction_behind() -> None:
    stage = stage_of(100, without=list(range(20, 50)))
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 100)
    await running.stop()
    assert recorded(stage) == [Gap(20, 49, GapReason.COMPACTION, 30)]
    other = stage_of(100, without=[40, 41])
    running = await other.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 100)
    other.partition.add(*(b"later" for _ in range(100)))
    assert other.partition.reader is not None
    other.partition.reader.broken = True
    other.partition.retain_from(150)
    other.partition.compact([160, 162])
    await eventually(lambda: running.pump.report().next_sequence_number == 200)
    await running.stop()
    assert recorded(other)[1:] == [Gap(100, 149), Gap(160, 162, GapReason.COMPACTION, 2)]


@pytest.mark.parametrize("last", [650, 651, 1500, 2000])
@virtual
async def test_another_writers_file_may_be_in_the_way(last: int) -> None:
    """It is adopted between two files: what it covers, rows and holes, is not written again."""
    stage = stage_of(2001, without=HOLES)
    theirs = chain("SequenceNumber", stage.sink).path(599)  # where the second file would go
    facts = {**draft(599, last, nonce="theirs", epoch=0).metadata(), "sha256": "0" * 64}
    await stage.sink.put(theirs, b"", metadata=facts)
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 2001)
    await running.stop()
    del stage.sink.blobs[theirs]
    found = recorded(stage)
    assert sum(map(len, found)) == len([number for number in HOLES if number < 599 or number > last])
    assert all(gap.last < 599 or gap.first > last for gap in found)
