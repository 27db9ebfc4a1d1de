"""A partition full of holes, as in a hub with log compaction: every hole is recorded, and no record is too large."""

import pytest

from eventconsumer_processor import gaps
from tests.fakes.virtual import virtual
from tests.unit.processor.chains import chain, draft
from tests.unit.processor.stage import Stage, eventually

HOLES = list(range(1, 2001, 2))


def compacted() -> Stage:
    """Events 0 to 2000 without the odd ones, received in large batches."""
    stage = Stage(
        overrides={
            "roll": {"maxBytes": 10_000_000, "maxSeconds": 5, "maxEvents": 100_000},
            "processing": {"maxBatchSize": 700, "prefetch": 3000, "maxWaitSeconds": 20},
        }
    )
    stage.partition.add(*(b"%d" % number for number in range(2001)))
    for number in HOLES:
        del stage.partition.events[number]
    return stage


def recorded(stage: Stage) -> list[int]:
    """Sequence numbers in recorded gaps, in the order of files."""
    texts = [blob.metadata.get("gap", "") for name, blob in sorted(stage.sink.blobs.items()) if "/from=" in name]
    return [number for text in texts for gap in gaps.parse(text) for number in range(gap.first, gap.last + 1)]


@virtual
async def test_gaps_of_a_file_fit_into_its_metadata() -> None:
    stage = compacted()
    running = await stage.pump()
    await eventually(lambda: stage.rows() == list(range(0, 2001, 2)))
    await running.stop()
    assert recorded(stage) == HOLES
    assert len(stage.files()) == 10  # a hundred gaps each


@pytest.mark.parametrize("last", [203, 350, 351, 1500, 2000])
@virtual
async def test_another_writers_file_may_be_in_the_way(last: int) -> None:
    """It is adopted between two files of one batch: what it covers, rows and holes, is not written again."""
    stage = compacted()
    theirs = chain("Slots", stage.sink).path(201)  # where the second file would go
    facts = {**draft(201, last, nonce="theirs", epoch=0).metadata(), "sha256": "0" * 64}
    await stage.sink.put(theirs, b"", metadata=facts)
    running = await stage.pump()
    await eventually(lambda: running.pump.report().next_sequence_number == 2001)
    await running.stop()
    del stage.sink.blobs[theirs]
    slots = sorted(name for name in stage.sink.blobs if "/from=" in name)
    starts = [int(name[-28:-8]) for name in slots]
    assert starts[0] == 0 and starts[1:2] == ([last + 1] if last < 2000 else [])
    assert recorded(stage) == [number for number in HOLES if number < 201 or number > last]
