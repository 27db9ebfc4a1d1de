"""The columns that hosts make of bodies (`spec.sink.body`), compared with those that files have.

Invariant: no value is read as another one. Spark's reader of Parquet files refuses most columns of another type, but it
reads a DATE or TIMESTAMP as a BIGINT, and a STRUCT with other fields as nulls, without a word (Spark 4.1). Hosts give a
name one type and one meaning for ever, in the record of all columns, before a file has the column. So the record
decides.
"""

from pydantic import ValidationError

from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.batch import BatchJob, BatchManifest
from eventconsumer_api.wire.columns_record import ColumnsRecord, RecordedColumn, columns_name
from eventconsumer_api.wire.identity import RECORD_MAX_BYTES
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.storage.store import SparkBlobStore
from eventconsumer_storage.errors import Damaged


def check_columns(store: SparkBlobStore, job: BatchJob, manifest: BatchManifest) -> None:
    """Check that files have the columns of `job` with the same types and meanings, or do not have them.

    Raises:
        ConfigurationError: A column has another type, path or form in files, or they are no Parquet files.
        Damaged: The record cannot be read.
        StorageError: The request failed.
    """
    if job.body is None:
        return
    if manifest.format is not FileFormat.PARQUET:
        raise ConfigurationError("spec.sink.body makes columns of Parquet files, and these are Avro: remove it")
    name = columns_name(job.sink.prefix)
    content = store.read(name, RECORD_MAX_BYTES)
    if content is None:  # no file has columns yet
        return
    try:
        recorded = {each.name.lower(): each for each in ColumnsRecord.model_validate_json(content).columns}
    except ValidationError:
        raise Damaged(f"the record of columns {name} cannot be read: restore it from a backup") from None
    for column in job.columns:
        found, wanted = recorded.get(column.name.lower()), RecordedColumn.of(column)
        if found and found != wanted:
            raise ConfigurationError(
                f"spec.sink.body: column {wanted}: files have {found}: use another name for the column"
            )
