"""The columns of the resource beside those of the record, against a container in memory."""

import pytest

from eventconsumer_api.spec.body_columns import schema_columns
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.columns_record import ColumnsRecord, RecordedColumn, columns_name
from eventconsumer_api.wire.host_config import BodyConfig
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.input.columns import check_columns
from eventconsumer_storage.errors import Damaged
from tests.support.fakes.spark_store import FakeSparkBlobStore
from tests.unit.spark.test_batch import JOB, PATHS, PREFIX, frozen

OLD = "gone STRING, items ARRAY<STRUCT<sku: STRING>>, at DATE"


def store_with(record: bytes | None) -> FakeSparkBlobStore:
    """The files of a batch, and the record."""
    store = FakeSparkBlobStore()
    for path in PATHS:
        store.put(path, b"parquet")
    if record is not None:
        store.put(columns_name(PREFIX), record)
    return store


def check(wanted: str, record: bytes | None, **changes: object) -> None:
    store = store_with(record)
    body = BodyConfig.of(schema_columns(wanted)) if wanted else None
    check_columns(store, JOB.model_copy(update={"body": body}), frozen(store, **changes))


def recorded(columns: str) -> bytes:
    found = [RecordedColumn.of(each) for each in schema_columns(columns)]
    return ColumnsRecord(columns=found).to_json().encode()


@pytest.mark.parametrize("wanted", ["", OLD, "at DATE, later BIGINT", "at DATE NOT NULL"])
def test_columns_of_the_record_and_others_are_read(wanted: str) -> None:
    check(wanted, recorded(OLD))


def test_without_a_record_no_file_has_columns() -> None:
    check("at BIGINT", None)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("at BIGINT", "column at BIGINT: files have at DATE: use another name for the column"),
        ("At DATE", "column At DATE: files have at DATE: use another name"),
        (
            "items ARRAY<STRUCT<sku: STRING, qty: BIGINT>>",
            r"column items .*: files have items .*<STRUCT<sku: STRING>>: use",
        ),
    ],
)
def test_a_column_of_another_type_is_refused(wanted: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^spec\.sink\.body: {message}"):
        check(f"later STRING, {wanted}", recorded(OLD))


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"columns": 5}'])
def test_a_damaged_record_is_no_empty_one(record: bytes) -> None:
    with pytest.raises(Damaged, match=r"_columns\.json cannot be read: restore it"):
        check("at DATE", record)
    check("", record)


def test_avro_files_have_no_columns() -> None:
    with pytest.raises(ConfigurationError, match=r"^spec\.sink\.body makes columns of Parquet files"):
        check("at DATE", None, format=FileFormat.AVRO)
