"""The demo's table of batches: those that are done, and the one that runs."""

from datetime import UTC, datetime

from eventconsumer_api.shared.console import Console
from eventconsumer_api.wire.batch import BatchCommit, BatchFile, BatchManifest, Totals
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_demo.batches import Batch, table_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def batch(number: int, *, done: bool) -> Batch:
    file = BatchFile(path="p/f", etag="e", size=10, partition="0", first=0, last=1233, count=1234)
    manifest = BatchManifest(
        chain="c",
        number=number,
        created_at=NOW,
        reason="Age",
        segment_id="i",
        files=[file],
        ranges={},
        next={},
        resource=ResourceRef(namespace="shop", name="orders", uid="u"),
        totals=Totals(),
    )
    commit = BatchCommit(
        number=number,
        committed_at=NOW,
        application="orders-0a1b2c3d-b1",
        attempt="x",
        output="o",
        output_version=7,
        files=1,
        rows_read=1234,
        rows_written=1234,
        seconds=12.34,
    )
    return Batch(manifest, commit if done else None)


def test_a_line_for_each_batch() -> None:
    console = Console(width=120, record=True)
    console.print(table_of([batch(1, done=True), batch(2, done=False)]))
    lines = console.export_text().splitlines()
    (first,) = [line.replace("│", " ").split() for line in lines if " 1 " in line and "Age" in line and "done" in line]
    (second,) = [line.replace("│", " ").split() for line in lines if "running" in line]
    assert first == ["1", "Age", "1", "1,234", "done", "1,234", "12.3", "7", "b1"]
    assert second == ["2", "Age", "1", "1,234", "running"]
