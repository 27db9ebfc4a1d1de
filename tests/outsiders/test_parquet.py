"""Parquet: drained files, the output of the shipped Spark program, and its quarantine."""

import pandas as pd
import pytest

from eventconsumer_api.wire.batch import BatchCommit
from tests.outsiders.readers import COLUMNS, LOCAL, READERS, in_order, normal, place, texts
from tests.outsiders.stage import NO_TEXT, PREFIX, OutsiderStage

every_reader = pytest.mark.parametrize(("reader", "where"), READERS)


@every_reader
def test_drained_files_hold_each_event_as_it_was_sent(stage: OutsiderStage, reader: str, where: str) -> None:
    found = in_order(LOCAL[reader](place(stage, stage.drained["Parquet"], where), PREFIX))
    assert [normal(row) for row in found] == [normal(row) for row in texts(stage.sent)]


@every_reader
def test_the_output_of_the_spark_program_has_each_row_of_every_batch(
    stage: OutsiderStage, reader: str, where: str
) -> None:
    """A reader of the whole folder also sees batch 3, which is not committed: see test_recipes."""
    found = in_order(LOCAL[reader](place(stage, stage.output, where), "parquet"))
    fitting = [row | {"body": row["body"].decode()} for row in texts(stage.sent) if row["body"] != NO_TEXT]
    assert [normal(row) for row in found] == [normal(row) for row in fitting]
    if "batch" in found[0]:
        assert [int(row["batch"]) for row in found] == [row["wave"] for row in fitting]


@every_reader
def test_the_quarantine_has_the_events_that_do_not_fit(stage: OutsiderStage, reader: str, where: str) -> None:
    found = in_order(LOCAL[reader](place(stage, stage.output, where), "parquet_quarantine"))
    columns = ("partition_id", "sequence_number", "enqueued_time", "body")
    unfit = [row for row in texts(stage.sent) if row["body"] == NO_TEXT]
    assert [normal(row, columns) for row in found] == [normal(row, columns) for row in unfit]
    assert {row["cause"] for row in found} == {"not UTF-8"}


def test_an_output_that_an_older_version_began_keeps_the_name_of_its_folders(stage: OutsiderStage) -> None:
    """Read as a whole it is hidden; the folder that the commit names is read."""
    root = stage.local / stage.output / "delta_reprocess/again_quarantine"
    assert {folder.name for folder in root.iterdir()} == {"_batch=1", "_batch=2"}
    assert pd.read_parquet(root).empty
    record = stage.local / stage.drained["Parquet"] / PREFIX / "_reprocess/again/_commits/0000000002.json"
    named = BatchCommit.model_validate_json(record.read_text()).quarantine
    assert named and named.rows_path.endswith("/delta_reprocess/again_quarantine/_batch=2")
    assert pd.read_parquet(root / "_batch=2")["body"].tolist() == [NO_TEXT]


def test_all_columns_are_compared_but_system_properties(stage: OutsiderStage) -> None:
    (row, *_) = LOCAL["pyarrow"](place(stage, stage.drained["Parquet"], "local"), PREFIX)
    assert set(row) - set(COLUMNS) == {"system_properties", "segment", "partition"}
