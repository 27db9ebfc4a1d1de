"""Decodes bodies of events: unchanged, text, JSON (Avro: avro.py), or the columns that hosts made of them.

Events that do not match are separated.

Invariant: every event is in exactly one of the two results of `split`, also if its body does not match
`spark.output.body`. An event without a body has none in the output either: null matches every type.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.types import StructType

from eventconsumer_api.spec.spark import Body, BodyType
from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_api.wire.file_columns import ERROR
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.output.json_columns import Columns, document, is_whole, lone_surrogate, new_end, valid

UNDECODED_MESSAGE = "an AMQP message that the host could not decode"
NO_UTF8 = "not UTF-8"
NO_JSON = "not JSON"
NO_OBJECT = "not a JSON object"
NO_DOCUMENT = "not one JSON document, or a name is twice in an object"
HALF_PAIR = "JSON with half of a surrogate pair, which is no character"

_CAUSE, _DOCUMENT, _FIELDS, _KINDS, _VALUES = "_cause", "_document", "_fields", "_kinds", "_values"
_PARSED = "_parsed"


@dataclass(frozen=True)
class Split:
    """Events with decoded bodies, and events whose bodies do not match."""

    fitting: DataFrame
    """All columns of the events, with `body` decoded, or the columns of the body instead."""
    unfit: DataFrame | None
    """File, partition, sequence number, enqueued time, original body, and cause; None: every body matches."""


def split(events: DataFrame, body: Body) -> Split:
    """Decode the bodies, lazily; each of the two results decodes each body once.

    Raises:
        ConfigurationError: The schema is invalid.
    """
    if body.type is BodyType.BINARY:
        return Split(events, None)
    if body.type is BodyType.TEXT:
        cause = _unread()
        return separate(events, cause.isNull(), _text(), cause)
    schema = body_schema(body)
    if schema is None:
        # An observed plan stops the optimizer, which would parse once for each use of the result.
        parsed = _observed(events.withColumn(_PARSED, _unread().isNull() & valid(_text())))
        fits = F.col("body").isNull() | F.coalesce(_PARSED, F.lit(False))
        return separate(parsed, fits, _text(), _unread().otherwise(NO_JSON), events.columns)
    utc = events.sparkSession.conf.get("spark.sql.session.timeZone") == "UTC"
    columns, end = Columns(schema, body.times, _text(), utc), new_end()
    whole, fields, kinds, values, cause = (F.col(name) for name in (_DOCUMENT, _FIELDS, _KINDS, _VALUES, _CAUSE))
    # One step for each result that is used more than once, so that each is computed once.
    marked = events.withColumn(_CAUSE, _unread().when(lone_surrogate(_text()), HALF_PAIR))
    marked = marked.withColumn(_DOCUMENT, F.when(cause.isNull(), document(_text(), end)))
    marked = marked.withColumn(_FIELDS, F.when(is_whole(whole, end), columns.fields(whole)))
    marked = marked.withColumn(_KINDS, F.when(fields.isNotNull(), columns.kinds(fields)))
    marked = marked.withColumn(_VALUES, columns.values(fields, kinds))
    cause = F.when(cause.isNotNull(), cause).when(fields.isNotNull(), columns.misfit(fields, kinds, values))
    cause = cause.when(is_whole(whole, end), NO_OBJECT).otherwise(NO_DOCUMENT)
    parsed = F.struct(values.alias("value"), F.when(F.col("body").isNotNull(), cause).alias("cause"))
    marked = _observed(marked.withColumn(_PARSED, parsed).drop(_CAUSE, _DOCUMENT, _FIELDS, _KINDS, _VALUES))
    value, cause = F.when(F.col("body").isNotNull(), F.col(_PARSED)["value"]), F.col(_PARSED)["cause"]
    return separate(marked, cause.isNull(), value, cause, events.columns)


def columns_of_files(events: DataFrame) -> Split:
    """The columns that hosts made of the bodies, without the bodies; an event with an error does not match.

    Raises:
        ConfigurationError: There are none.
    """
    if ERROR.name not in events.columns:
        raise ConfigurationError(
            "spec.spark.output.body.columns: FromSink needs columns in the files: set spec.sink.body, or remove it"
        )
    error = F.col(ERROR.name)
    return separate(events, error.isNull(), None, error, [name for name in events.columns if name != ERROR.name])


def separate(
    marked: DataFrame, fits: Column, value: Column | None, cause: Column, columns: Sequence[str] | None = None
) -> Split:
    """Both results of a decision about each event.

    Args:
        marked: The events, and columns for the decision.
        fits: Whether the body matches; never null.
        value: The decoded body; None: the column is left out.
        cause: The cause of a body that does not match.
        columns: The columns of the events; None: all of `marked`.
    """
    fitting = marked.where(fits).select(
        *(
            value.alias("body") if name == "body" and value is not None else F.col(name)
            for name in columns or marked.columns
            if name != "body" or value is not None
        )
    )
    unfit = marked.where(~fits).select(
        F.col("_metadata.file_path").alias("file"),
        "partition_id",
        "sequence_number",
        "enqueued_time",
        "body",
        cause.alias("cause"),
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


def _unread() -> Column:
    """The cause if a body is no text, to which further causes can be added; null if it is text, or null."""
    unread = F.when(F.col("system_properties")[UNDECODED].isNotNull(), UNDECODED_MESSAGE)
    # `format_string` decodes into a Java string, which replaces what is not UTF-8 by U+FFFD (java.lang.String(byte[],
    # Charset)), so only UTF-8 is equal afterwards. It takes half of the time of `is_valid_utf8`, which reads byte by
    # byte.
    return unread.when(F.format_string("%s", _text()) != _text(), NO_UTF8)


def _text() -> Column:
    return F.col("body").cast("string")


def _observed(marked: DataFrame) -> DataFrame:
    return marked.observe("parsed", F.count(F.lit(1)).alias("events"))
