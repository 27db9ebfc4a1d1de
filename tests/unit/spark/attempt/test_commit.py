"""Content of a commit: running totals, the newest quarantine; the sum of reprocessing; the URL of the manifest."""

import json
from typing import Any

import pytest

from eventconsumer_api.wire.batch import BatchCommit, BatchFile, CommitTotals, Quarantine, ReprocessOf, manifest_url
from eventconsumer_spark.attempt.commit import LeftOut, quarantine_of
from eventconsumer_spark.output.write_result import WriteResult
from eventconsumer_spark.program.process import totals_message
from tests.support.fakes.spark_store import FakeSparkBlobStore
from tests.unit.spark.schedules import record
from tests.unit.spark.test_batch import JOB, PATHS, frozen

FILE = BatchFile(path="a", etag="1", size=7, partition="0", first=0, last=9, count=10)
OLD = Quarantine(number=2, files=[FILE], message="old")


def before(**changes: object) -> BatchCommit:
    return record("a").model_copy(update={"number": 2, **changes})


@pytest.mark.parametrize("rows", [-1, None])
def test_a_program_must_return_the_number_of_its_rows(rows: Any) -> None:
    with pytest.raises(ValueError, match=rf"^the program returned {rows} as the number of rows of its result: return"):
        WriteResult(rows)


def test_totals_and_the_last_quarantine_continue_from_the_commit_before() -> None:
    totals = CommitTotals(rows_read=100, rows_written=90, quarantined_files=1, quarantined_rows=3)
    clean = record("b").model_copy(update={"number": 3, "rows_read": 24, "rows_written": 20})
    left_out = Quarantine(number=3, files=[FILE], rows=4)
    excluding = clean.model_copy(update={"quarantine": left_out})
    following = excluding.after(before(totals=totals, quarantine=OLD))
    assert following.totals == CommitTotals(rows_read=124, rows_written=110, quarantined_files=2, quarantined_rows=7)
    assert following.quarantine == left_out
    assert clean.after(before(quarantine=OLD)).quarantine == OLD
    assert clean.after(None) == clean.model_copy(update={"totals": CommitTotals(rows_read=24, rows_written=20)})


def test_quarantine_of_a_batch_has_its_files_its_rows_and_the_cause() -> None:
    store = FakeSparkBlobStore()
    for path in PATHS:
        store.put(path, b"parquet")
    manifest = frozen(store)
    assert quarantine_of(manifest, WriteResult(5), LeftOut()) is None
    bad_rows = WriteResult(5, quarantined_rows=2, rows_path="abfs://q", message="row 3 is no JSON")
    assert quarantine_of(manifest, bad_rows, LeftOut()) == Quarantine(
        number=3, rows=2, rows_path="abfs://q", message="row 3 is no JSON"
    )
    both = quarantine_of(manifest, bad_rows, LeftOut((FILE,), "a: not Parquet" + "!" * 2000))
    assert both is not None
    assert (both.files, both.rows) == ([FILE], 2)
    assert both.message.startswith("a: not Parquet!")
    assert len(both.message) == 1000


def test_reprocessing_reports_its_sum() -> None:
    last = before(totals=CommitTotals(rows_written=77))
    assert json.loads(totals_message(ReprocessOf(name="x", first=4, last=6), last)) == {"batches": 3, "rows": 77}


def test_manifest_is_read_through_the_host_of_the_output() -> None:
    expected = "abfss://drained@shop.blob.core.windows.net/shop/orders/_batches/0000000003.json"
    assert manifest_url(JOB) == expected
