"""The table of columns: a column of it is everywhere, and Arrow, Delta, Spark and Avro have the same one."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from eventconsumer_api.wire.capture import AVRO_SCHEMA, PROPERTY_TYPES, own_properties
from eventconsumer_api.wire.file_columns import COLUMNS, Column, delta_schema
from eventconsumer_audit import deep
from eventconsumer_host.handler.api import Event
from eventconsumer_host.handler.deadletter import Letter
from eventconsumer_host.source import batch
from eventconsumer_host.source.batch import DERIVED, columns_of
from eventconsumer_host.source.rows import EventRows
from eventconsumer_host.source.schema import arrow_schema
from tests.unit.api.added_columns import ADDED, ITEMS

NESTED = {
    "type": "map",
    "keyType": "string",
    "valueType": {"type": "struct", "fields": delta_schema([Column("at", "timestamp", ""), *ADDED])["fields"]},
    "valueContainsNull": False,
}
PRIMITIVES = ("string", "boolean", "long", "double", "decimal(38,9)", "date", "timestamp", "binary")


def test_a_column_that_is_added_to_the_table_is_everywhere() -> None:
    command = [sys.executable, "-m", "tests.unit.api.added_columns"]
    made = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    names = [each.name for each in (*COLUMNS, *ADDED)]
    assert [*made["parquet"]] == made["delta"] == [*made["spark"]] == names
    assert made["parquet"]["subject"] == made["spark"]["subject"] == "string"
    assert made["parquet"]["items"] == "list<element: struct<sku: string, price: decimal128(10, 2)>>"
    assert made["spark"]["items"] == "array<struct<sku:string,price:decimal(10,2)>>"
    assert made["handled"] == {"subject": "new", "items": [{"sku": "a", "price": None}], "length": 6}
    assert (made["avro"]["subject"], made["avro"]["x-length"]) == ("s", 1)
    assert made["bounds"] == "sequence_number,enqueued_time,partition_id,subject"
    rows = made["page"].splitlines()
    assert "| `subject` | `STRING` | `subject` in `SystemProperties`, string | yes | yes | Added. |" in rows
    assert "| `items` | `ARRAY<STRUCT<sku: STRING, price: DECIMAL(10,2)>>` | – |  |  | Nested. |" in rows


@pytest.mark.parametrize(
    "columns",
    [COLUMNS, ADDED, [Column("c", kind, "", nullable=False) for kind in (*PRIMITIVES, ITEMS, NESTED)]],
    ids=["fixed", "added", "types"],
)
def test_arrow_has_the_types_that_spark_gives_it(columns: list[Column]) -> None:
    assert arrow_schema(columns) == to_arrow_schema(StructType.fromJson(delta_schema(columns)))


@pytest.mark.parametrize("kind", ["int", "decimal", "timestamp_ntz", {"type": "variant"}])
def test_a_type_without_a_counterpart_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="has no counterpart in Arrow"):
        arrow_schema([Column("c", kind, "")])


def test_each_column_has_values() -> None:
    assert set(batch.COLUMNS.names) == columns_of(EventRows()).keys() | DERIVED.keys(), (
        "give the values of the column: if they follow from those of other columns, in `DERIVED` of source/batch.py; "
        "else in `EventRows`, `columns_of` and the decoders (source/columns.py, amqp/decode.py, the crate decoder)"
    )


def test_avro_files_have_each_column_but_for_the_partition_in_their_name() -> None:
    fields = [field["name"] for field in json.loads(AVRO_SCHEMA)["fields"]]
    assert sorted(each.avro_field for each in COLUMNS if each.avro_field) == sorted(fields)
    assert [each.name for each in COLUMNS if not each.avro_field and not each.system_property] == ["partition_id"], (
        "give the column a `system_property`: the key of its value in Avro files"
    )
    assert {str(each.type) for each in own_properties(COLUMNS).values()} <= PROPERTY_TYPES.keys()


@pytest.mark.parametrize("names", [{each.name for each in fields(Event)}, Letter.model_fields.keys()])
def test_handlers_and_dead_letters_have_each_column(names: set[str]) -> None:
    missing = {each.name for each in COLUMNS} - names - DERIVED.keys() - {"partition_id"}  # in the handler's context
    assert not missing, "add the column to `Event` and `Batch` (handler/api.py) and to `Letter` (handler/deadletter.py)"


def test_the_list_of_the_auditor_is_the_same() -> None:
    assert [each.name for each in COLUMNS] == deep.COLUMNS, (
        "the auditor has its own list, so that it finds mistakes in the table of columns: make the same change by hand "
        "in eventconsumer_audit/deep.py (COLUMNS)"
    )
