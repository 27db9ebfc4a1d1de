"""Avro files of the layouts SequenceNumber and Capture. Polars 2.1 reads no maps of Avro; it says so."""

import itertools
from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest

from tests.outsiders.readers import ReadableContainer, duck, duck_rows, place
from tests.outsiders.stage import PREFIX, OutsiderStage, Row

Reader = Callable[[ReadableContainer, str], list[Row]]


def read_fastavro(place: ReadableContainer, path: str) -> list[Row]:
    found: list[Row] = []
    for file in Path(place.url(path)).rglob("*.avro"):
        with file.open("rb") as content:
            found += fastavro.reader(content)  # type: ignore[arg-type]
    return found


def read_duckdb(place: ReadableContainer, path: str) -> list[Row]:
    with duck(place) as made:
        return duck_rows(made.sql(f"SELECT * FROM read_avro('{place.url(path)}/**/*.avro')"))


@pytest.mark.parametrize("layout", ["Avro", "Capture"])
@pytest.mark.parametrize(
    ("reader", "where"), [(read_fastavro, "local"), (read_duckdb, "local"), (read_duckdb, "azure")]
)
def test_files_hold_each_event_as_it_was_sent(stage: OutsiderStage, layout: str, reader: Reader, where: str) -> None:
    found = reader(place(stage, stage.drained[layout], where), PREFIX)
    assert [plain(row) for row in sorted(found, key=lambda row: row["SequenceNumber"])] == [
        {
            "SequenceNumber": row["sequence_number"],
            "Offset": row["offset"],
            "Body": row["body"],
            # Avro of Capture has no boolean
            "Properties": {k: "true" if v is True else v for k, v in row["properties"].items()},
            "x-opt-enqueued-time": int(row["enqueued_time"].timestamp() * 1000),
            "message-id": row["message_id"],
            "correlation-id": row["correlation_id"],
            "content-type": row["content_type"],
        }
        for row in stage.sent
    ]


def plain(row: Row) -> Row:
    """A row without the columns that repeat others in another form."""
    system = row["SystemProperties"]
    names = ("x-opt-enqueued-time", "message-id", "correlation-id", "content-type")
    kept = {name: row[name] for name in ("SequenceNumber", "Offset", "Body", "Properties")}
    return kept | dict(zip(names, map(system.get, names), strict=True))


def test_files_of_capture_are_where_readers_of_capture_look(stage: OutsiderStage) -> None:
    root = stage.local / stage.drained["Capture"] / PREFIX
    names = [file.relative_to(root).parts[:3] for file in root.rglob("*.avro")]
    assert set(names) == set(itertools.product(("localhost",), ("orders",), ("0", "1")))
