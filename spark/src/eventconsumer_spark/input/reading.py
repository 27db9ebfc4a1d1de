"""The drained files as a DataFrame: exactly the files of the manifest, with a schema that is fixed and not inferred.

Files of both formats give the same columns. Each row also knows its file, as Spark's hidden column
`_metadata.file_path`, which is there when it is asked for and nowhere else.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, StructField, StructType, TimestampType

from eventconsumer_api.batch import BatchFile, BatchManifest
from eventconsumer_api.capture import AVRO_SCHEMA
from eventconsumer_api.v1alpha1 import FileFormat
from eventconsumer_spark.errors import CountMismatchError
from eventconsumer_spark.input.capture import as_events, check_names
from eventconsumer_spark.storage.abfs import AbfsFolder

EVENT_SCHEMA = StructType(
    [
        StructField("sequence_number", LongType()),
        StructField("offset", StringType()),
        StructField("enqueued_time", TimestampType()),
        StructField("partition_key", StringType()),
        StructField("partition_id", StringType()),
        StructField("body", BinaryType()),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("system_properties", MapType(StringType(), StringType())),
        StructField("content_type", StringType()),
        StructField("message_id", StringType()),
        StructField("correlation_id", StringType()),
    ]
)
"""Columns of drained files, in their order."""

READER_BYTES = 32 * 1024**2
"""What a task's reader holds at a time, about, bytes."""

_READER_ROWS = "spark.sql.parquet.columnarReaderBatchSize"
_MOST_ROWS = 4096  # Spark's own default, which a million bytes an event would make 4 GB.
_COMPRESSION = 4  # Events are about so much larger than they are in files.


def read_events(spark: SparkSession, manifest: BatchManifest, container: AbfsFolder) -> DataFrame:
    """The events of a batch, one row each, columns as in `EVENT_SCHEMA`; order is not kept across files.

    Raises:
        ManifestError: A file's name and the manifest say different partitions.
    """
    if not manifest.files:
        return spark.createDataFrame([], EVENT_SCHEMA)
    paths = [container.child(file.path) for file in manifest.files]
    if manifest.format is FileFormat.AVRO:
        check_names(manifest.files)
        return as_events(spark.read.format("avro").option("avroSchema", AVRO_SCHEMA).load(paths))
    if int(spark.conf.get(_READER_ROWS)) == _MOST_ROWS:
        spark.conf.set(_READER_ROWS, rows_at_a_time(manifest.files))
    return spark.read.schema(EVENT_SCHEMA).parquet(*paths)


def rows_at_a_time(files: Sequence[BatchFile]) -> int:
    """PURE: how many rows a reader may hold, so that large events do not fill the memory."""
    largest = max((file.size / max(1, file.count) for file in files), default=0)
    return max(16, min(_MOST_ROWS, int(READER_BYTES / max(1, largest * _COMPRESSION))))


def check_count(events: DataFrame, manifest: BatchManifest) -> int:
    """Count the rows of a batch and hold them against the manifest; reads one narrow column.

    It comes before anything is written, because what is in a Delta table cannot be taken back.

    Returns:
        Number of rows.

    Raises:
        CountMismatchError: The manifest says another number, or rows have no sequence number (a foreign layout).
    """
    rows, numbered = events.agg(F.count(F.lit(1)), F.count("sequence_number")).first()
    expected = sum(file.count for file in manifest.files)
    if rows != expected or numbered != rows:
        raise CountMismatchError(
            f"the {len(manifest.files)} files of batch {manifest.number} hold {rows} events ({numbered} with a "
            f"sequence number), the manifest says {expected} (difference {rows - expected:+d}): nothing was committed; "
            "compare the files' metadata 'count' with the manifest to find the wrong one"
        )
    return int(rows)
