"""Decodes bodies of events: unchanged, text, or JSON; and separates events that do not match.

Invariant: every event is in exactly one of the two results of `split`, also if its body does not match
`spark.output.body`. An event without a body has none in the output either: null matches every type.
"""

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import BooleanType, DataType, StringType, StructField, StructType

from eventconsumer_api.capture import UNDECODED
from eventconsumer_api.spark import Body, BodyType
from eventconsumer_spark.errors import ConfigurationError

UNDECODED_MESSAGE = "an AMQP message that the host could not decode"
NO_UTF8 = "not UTF-8"
NO_JSON = "not JSON"
NO_OBJECT = "not a JSON object"
NO_FIT = "JSON that does not match spark.output.body.schema"

_PARSED, _CAUSE, _CORRUPT = "_parsed", "_cause", "_corrupt"
_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    # Spark's defaults accept invalid JSON.
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


@dataclass(frozen=True)
class Split:
    """Events with decoded bodies, and events whose bodies do not match."""

    fitting: DataFrame
    """All columns of the events, with `body` decoded."""
    unfit: DataFrame | None
    """File, partition, sequence number, enqueued time, original body, and cause; None: every body matches."""


def split(events: DataFrame, body: Body) -> Split:
    """Decode the bodies, lazily; `fitting` decodes each body once.

    Raises:
        ConfigurationError: The schema is invalid.
    """
    if body.type is BodyType.BINARY:
        return Split(events, None)
    decoded, cause = _decode(body)
    marked = events.withColumn(_PARSED, decoded).withColumn(_CAUSE, cause)
    # An observed plan stops the optimizer, which would decode once to filter and again to select.
    walled = marked.observe(Observation(), F.count(F.lit(1)).alias("events"))
    value = F.col(f"{_PARSED}.value") if body.type is BodyType.JSON and body.schema_ else F.col("body").cast("string")
    fitting = walled.where(F.col(_CAUSE).isNull()).select(
        *(value.alias("body") if name == "body" else F.col(name) for name in events.columns)
    )
    unfit = marked.where(F.col(_CAUSE).isNotNull()).select(
        F.col("_metadata.file_path").alias("file"),
        "partition_id",
        "sequence_number",
        "enqueued_time",
        "body",
        F.col(_CAUSE).alias("cause"),
    )
    return Split(fitting, unfit)


def body_schema(body: Body) -> StructType | None:
    """The parsed `spark.output.body.schema`; None if there is none.

    Raises:
        ConfigurationError: It is not a list of columns.
    """
    if not body.schema_:
        return None
    try:
        parsed = StructType.fromDDL(body.schema_)
    except PySparkException as error:
        cause = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ConfigurationError(
            f"spec.spark.output.body.schema: {cause.strip()}: use Spark DDL: id BIGINT, name STRING"
        ) from None
    if not isinstance(parsed, StructType):
        raise ConfigurationError("spec.spark.output.body.schema: use Spark DDL: id BIGINT, name STRING")
    return parsed


def _decode(body: Body) -> tuple[Column, Column]:
    """The parsed column, and the column with the cause if a body does not match; null if it matches."""
    text = F.col("body").cast("string")
    unread = F.when(F.col("system_properties")[UNDECODED].isNotNull(), UNDECODED_MESSAGE)
    unread = unread.when(~F.is_valid_utf8(text), NO_UTF8)
    if body.type is BodyType.TEXT:
        return F.lit(None), unread
    schema = body_schema(body)
    # As a field of an object whose last field must also be found, so that no text may follow the body's JSON.
    whole = F.concat(F.lit('{"value":'), text, F.lit(',"end":true}'))
    parsed = F.from_json(whole, _whole(schema or StringType()), _STRICT)
    present = F.col("body").isNotNull()
    corrupt = F.col(_PARSED)[_CORRUPT].isNotNull()
    broken = present & (corrupt | F.col(_PARSED)["end"].isNull())
    if schema is None:
        cause = unread.when(broken, NO_JSON)
    else:
        value = F.col(_PARSED)["value"]
        cause = unread.when(corrupt & value.isNotNull(), NO_FIT).when(broken | (present & value.isNull()), NO_OBJECT)
    return F.when(present & unread.isNull(), parsed), cause


def _whole(value: DataType) -> StructType:
    return StructType(
        [StructField("value", value), StructField("end", BooleanType()), StructField(_CORRUPT, StringType())]
    )
