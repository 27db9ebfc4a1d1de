"""Avro files in the schema of Event Hubs Capture, as the columns of drained Parquet files.

Invariant: an event is equal in both formats. Capture's schema keeps the types of properties, but lacks some columns;
the host writes these columns into the system properties, under their AMQP names. This module converts them back to
columns, and typed values to the text of Parquet files: text unchanged, other values as JSON.
"""

import re
from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

from eventconsumer_api.wire.batch import BatchFile
from eventconsumer_api.wire.capture import AMQP_FIELDS
from eventconsumer_spark.errors import ManifestError

_PARTITION = r"/(?:partition=([^/=]+)/from=\d+|([^/=]+)/\d{4}/\d\d/\d\d/\d\d/\d\d/\d\d)\.avro$"
_OWN_COLUMNS = ("x-opt-enqueued-time", "x-opt-partition-key", "message-id", "correlation-id", "content-type")


def partition_of(path: str) -> str | None:
    """PURE: the partition id in a file's name, in either layout; the content has none."""
    found = re.search(_PARTITION, f"/{path}")
    return (found[1] or found[2]) if found else None


def check_names(files: Iterable[BatchFile]) -> None:
    """PURE: compare the partition in each file's name with the manifest.

    Raises:
        ManifestError: A name has another partition, or none.
    """
    for file in files:
        if partition_of(file.path) != file.partition:
            raise ManifestError(
                f"{file.path} is of partition {file.partition}, its name says {partition_of(file.path) or 'none'}: "
                "drained files must never be renamed"
            )


def as_events(records: DataFrame) -> DataFrame:
    """Records of Capture's schema, with the columns of `reading.EVENT_SCHEMA`."""
    system = F.col("SystemProperties")
    path = F.col("_metadata.file_path")
    # Only the second has milliseconds; files of Capture itself lack it.
    seconds = F.to_timestamp(F.concat("EnqueuedTimeUtc", F.lit(" +00:00")), "M/d/yyyy h:mm:ss a XXX")
    return records.select(
        F.col("SequenceNumber").alias("sequence_number"),
        F.col("Offset").alias("offset"),
        F.coalesce(F.timestamp_millis(system["x-opt-enqueued-time"]["member0"]), seconds).alias("enqueued_time"),
        _text(system["x-opt-partition-key"]).alias("partition_key"),
        F.coalesce(*(F.nullif(F.regexp_extract(path, _PARTITION, group), F.lit("")) for group in (1, 2))).alias(
            "partition_id"
        ),
        F.col("Body").alias("body"),
        _values_as_text(F.col("Properties")).alias("properties"),
        _system(system).alias("system_properties"),
        _text(system["content-type"]).alias("content_type"),
        _text(system["message-id"]).alias("message_id"),
        _text(system["correlation-id"]).alias("correlation_id"),
    )


def _system(system: Column) -> Column:
    others = F.map_filter(system, lambda key, _: ~key.isin(*_OWN_COLUMNS))
    named = F.transform_keys(
        others, lambda key, _: F.when(key.isin(*AMQP_FIELDS), F.replace(key, F.lit("-"), F.lit("_"))).otherwise(key)
    )
    return _values_as_text(named)


def _values_as_text(column: Column) -> Column:
    # An AMQP null becomes a JSON null.
    return F.transform_values(column, lambda _, value: F.coalesce(_text(value), F.lit("null")))


def _text(value: Column) -> Column:
    """A value of the union long, double, string, bytes as text; null if it is none of them."""
    encoded = F.translate(F.base64(value["member3"]), "\r\n", "")
    return F.coalesce(
        value["member2"],
        value["member0"].cast("string"),
        _float_text(value["member1"]),
        F.when(value["member3"].isNotNull(), F.concat(F.lit('{"$binary":"'), encoded, F.lit('"}'))),
    )


def _float_text(number: Column) -> Column:
    """The shortest decimal of this number, in the notation of Python and JSON: 0.1, 1e+16; Spark writes 1.0E16."""
    digits = [F.format_string(f"%.{places}e", number) for places in (0, 14, 15, 16)]
    shortest = reduce(
        lambda otherwise, text: F.when(text.try_cast("double") == number, text).otherwise(otherwise),
        digits[-2::-1],
        digits[-1],
    )
    exponent = F.substring_index(shortest, "e", -1)
    plain = F.regexp_replace(shortest.try_cast("decimal(38,20)").cast("string"), r"(\.\d+?)0+$", "$1")
    scientific = F.concat(F.regexp_replace(F.substring_index(shortest, "e", 1), r"\.?0+$", ""), F.lit("e"), exponent)
    special = (number == 0) | F.isnan(number) | (F.abs(number) == float("inf"))
    return F.when(special, number.cast("string")).when(
        number.isNotNull(), F.when(exponent.try_cast("int").between(-4, 15), plain).otherwise(scientific)
    )
