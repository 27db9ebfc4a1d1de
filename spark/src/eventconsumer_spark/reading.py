"""The drained files as a DataFrame: exactly the files of the manifest, with a schema that is fixed and not inferred."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, StructField, StructType, TimestampType

from eventconsumer_api.batch import BatchManifest
from eventconsumer_spark.abfs import AbfsFolder
from eventconsumer_spark.errors import CountMismatchError

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


def read_batch(spark: SparkSession, manifest: BatchManifest, container: AbfsFolder) -> DataFrame:
    """The events of a batch, one row each, columns as in `EVENT_SCHEMA`; order is not kept across files."""
    if not manifest.files:
        return spark.createDataFrame([], EVENT_SCHEMA)
    return spark.read.schema(EVENT_SCHEMA).parquet(*(container.child(file.path) for file in manifest.files))


def check_count(events: DataFrame, manifest: BatchManifest) -> int:
    """Count the rows of a batch and hold them against the manifest; reads one narrow column.

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
