"""The drained files as a DataFrame: exactly the files of the manifest, with a fixed schema that is not inferred.

Files of both formats give the same columns; a column of bodies is null in files that do not have it. The file of each
row is in Spark's hidden column `_metadata.file_path`, which is only read on request.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import StructType

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_api.wire.batch import BatchFile, BatchManifest
from eventconsumer_api.wire.capture import AVRO_SCHEMA
from eventconsumer_api.wire.file_columns import COLUMNS, delta_schema, of_bodies
from eventconsumer_spark.errors import CountMismatchError
from eventconsumer_spark.input.capture import as_events, check_names
from eventconsumer_spark.storage.abfs import AbfsFolder

EVENT_SCHEMA = StructType.fromJson(delta_schema(COLUMNS))
"""The columns that each drained file has, in their order; see `event_schema`."""

READER_BYTES = 32 * 1024**2
"""Approximate size of the rows that a task's reader holds, bytes."""

_READER_ROWS = "spark.sql.parquet.columnarReaderBatchSize"
_OUR_ROWS = "eventconsumer.columnarReaderBatchSize"
"""The value set here for the batch before, which is no setting of the user."""
_MOST_ROWS = 4096  # Spark's default; with a million bytes per event it would be 4 GB.
_COMPRESSION = 4  # Approximate ratio of the size of events to their size in files.


def event_schema(columns: Sequence[BodyColumn]) -> StructType:
    """The columns of events: `EVENT_SCHEMA`, then those of bodies and `_error`, if there are some."""
    return StructType.fromJson(delta_schema((*COLUMNS, *of_bodies(columns))))


def read_events(
    spark: SparkSession, manifest: BatchManifest, container: AbfsFolder, columns: Sequence[BodyColumn] = ()
) -> DataFrame:
    """The events of a batch, one row each, columns as in `event_schema`; files have no order.

    Raises:
        ManifestError: A file's name and the manifest name different partitions.
    """
    schema = event_schema(columns)
    if not manifest.files:
        return spark.createDataFrame([], schema)
    paths = [container.child(file.path) for file in manifest.files]
    if manifest.format is FileFormat.AVRO:
        check_names(manifest.files)
        return as_events(spark.read.format("avro").option("avroSchema", AVRO_SCHEMA).load(paths))
    if spark.conf.get(_READER_ROWS) in {str(_MOST_ROWS), spark.conf.get(_OUR_ROWS, "")}:
        for key in (_READER_ROWS, _OUR_ROWS):
            spark.conf.set(key, rows_at_a_time(manifest.files))
    return spark.read.schema(schema).parquet(*paths)


def rows_at_a_time(files: Sequence[BatchFile]) -> int:
    """PURE: maximum number of rows that a reader may hold, so that large events do not exhaust the memory."""
    largest = max((file.size / max(1, file.count) for file in files), default=0)
    return max(16, min(_MOST_ROWS, int(READER_BYTES / max(1, largest * _COMPRESSION))))


def check_count(events: DataFrame, manifest: BatchManifest) -> int:
    """Count the rows of a batch and compare the number with the manifest; reads one narrow column.

    This is done before the output is written, because a commit to a Delta table cannot be undone.

    Returns:
        Number of rows.

    Raises:
        CountMismatchError: The manifest has another number, or rows have no sequence number (another schema).
    """
    rows, numbered = events.agg(F.count(F.lit(1)), F.count("sequence_number")).first()
    expected = sum(file.count for file in manifest.files)
    if rows != expected or numbered != rows:
        raise CountMismatchError(
            f"the {len(manifest.files)} files of batch {manifest.number} have {rows} events ({numbered} with a "
            f"sequence number), the manifest has {expected} (difference {rows - expected:+d}): nothing was committed; "
            "compare the files' metadata 'count' with the manifest to find the wrong file"
        )
    return int(rows)
