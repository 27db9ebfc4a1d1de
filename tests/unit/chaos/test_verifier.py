"""The verifier of a campaign finds what is missing, there twice, or was never sent."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from tests.chaos.verifier import File, Verdict, bodies_of_table, compare, read_file

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def rows(*ids: int) -> pa.Table:
    """Events with these ids, which arrived a second after the other."""
    times = [NOON + timedelta(seconds=number) for number, _ in enumerate(ids)]
    bodies = pa.array([b"%d" % each for each in ids], pa.binary())
    return pa.table({"body": bodies, "enqueued_time": pa.array(times, pa.timestamp("us", "UTC"))})


def file(*ids: int) -> File:
    """A drained file, created a minute after the first event."""
    content = io.BytesIO()
    pq.write_table(rows(*ids), content)
    return File("a/segment=0/partition=0/from=0.parquet", NOON + timedelta(minutes=1), content.getvalue())


def test_each_difference_is_counted() -> None:
    sent, uncertain = {1, 2, 3}, {7, 8}
    assert compare("x", [b"3", b"1", b"2"], sent, uncertain).is_clean
    assert compare("x", [b"3", b"1", b"2", b"8"], sent, uncertain).is_clean
    for bodies, expected in (
        ([b"1", b"2"], Verdict("x", 2, missing=1, twice=0, unknown=0, examples="missing: 3")),
        ([b"1", b"2", b"3", b"3"], Verdict("x", 4, missing=0, twice=1, unknown=0, examples="twice: 3")),
        ([b"1", b"2", b"3", b"8", b"8"], Verdict("x", 5, missing=0, twice=1, unknown=0, examples="twice: 8")),
        ([b"1", b"2", b"3", b"9"], Verdict("x", 4, missing=0, twice=0, unknown=1, examples="never sent: 9")),
        ([b"1", b"1", b"9"], Verdict("x", 3, 2, 1, 1, examples="missing: 2, 3; twice: 1; never sent: 9")),
    ):
        found = compare("x", bodies, sent, uncertain)
        assert found == expected and not found.is_clean


def test_the_first_ids_are_named() -> None:
    assert compare("x", [], {*range(12)}, set()).examples == "missing: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 …"


def test_files_are_read_with_the_age_of_their_oldest_event() -> None:
    filed = [read_file(file(0, 1, 2)), read_file(file(2, 4, 5))]
    assert [each.seconds for each in filed] == [60, 60]
    found = compare("files", [body for each in filed for body in each.bodies], {*range(6)}, set())
    assert found == Verdict("files", 6, missing=1, twice=1, unknown=0, examples="missing: 3; twice: 2")


def test_a_file_without_events_is_read() -> None:
    assert read_file(file()).bodies == []


def test_a_table_is_read_as_it_is_now(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(9))
    write_deltalake(tmp_path, rows(0, 1, 2), mode="overwrite")
    write_deltalake(tmp_path, rows(2, 4), mode="append")
    found = compare("table", bodies_of_table(str(tmp_path), {}), {*range(5)}, set())
    assert found == Verdict("table", 5, missing=1, twice=1, unknown=0, examples="missing: 3; twice: 2")
