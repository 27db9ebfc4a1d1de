"""Dead letters: JSON, one event in each file."""

import base64
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from tests.outsiders.readers import ReadableContainer, duck, duck_rows, place
from tests.outsiders.stage import POISON, PREFIX, OutsiderStage, Row, utc

Reader = Callable[[ReadableContainer, str], list[Row]]


def files(place: ReadableContainer, path: str) -> list[Path]:
    return [file for file in Path(place.url(path)).rglob("seq=*.json") if "redrive" not in file.parts]


def read_json(place: ReadableContainer, path: str) -> list[Row]:
    return [json.loads(file.read_text()) for file in files(place, path)]


def read_pandas(place: ReadableContainer, path: str) -> list[Row]:
    return [pd.read_json(file, typ="series", dtype=False).to_dict() for file in files(place, path)]


def read_polars(place: ReadableContainer, path: str) -> list[Row]:
    return [row for file in files(place, path) for row in pl.read_json(file).to_dicts()]


def read_duckdb(place: ReadableContainer, path: str) -> list[Row]:
    with duck(place) as made:
        return duck_rows(made.sql(f"SELECT * FROM read_json('{place.url(path)}/segment=*/partition=*/seq=*.json')"))


@pytest.mark.parametrize(
    ("reader", "where"),
    [(each, "local") for each in (read_json, read_pandas, read_polars, read_duckdb)] + [(read_duckdb, "azure")],
)
def test_a_dead_letter_holds_the_event_that_the_handler_refused(
    stage: OutsiderStage, reader: Reader, where: str
) -> None:
    (letter,) = reader(place(stage, stage.drained["Parquet"], where), f"{PREFIX}/_deadletters")
    (event,) = [row for row in stage.sent if row["body"] == POISON]
    assert base64.b64decode(letter["body"]) == POISON
    assert letter["sequenceNumber"] == event["sequence_number"] > 2**53
    same = {"partitionId": "partition_id", "offset": "offset", "messageId": "message_id"}
    assert {theirs: letter[theirs] for theirs in same} == {theirs: event[ours] for theirs, ours in same.items()}
    time = letter["enqueuedTime"]
    assert utc(datetime.fromisoformat(time) if isinstance(time, str) else time) == event["enqueued_time"]
    assert letter["properties"]["text"] == "ä=ö"
    assert letter["error"]["message"] == "cannot digest it"
