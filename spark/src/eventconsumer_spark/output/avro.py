"""Decodes Avro bodies by the schemas of a registry, and separates events that do not match.

The ids of a batch's schemas are found first, then their schemas. Each body is decoded with the schema of its id, and
read as one reader schema, so that all rows have the same columns. Errors of publishers end in the quarantine: no id, an
id that is not in the registry, a schema that is refused, a body that does not match.

Invariant: the same events with the same `Schemas` have the same result. A schema that is registered between two
attempts would change the second one, so the first one keeps its choice with its append (`Schemas.choice`).
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql.avro.functions import from_avro

from eventconsumer_api.spec.spark import Body, RegistryType
from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_spark.errors import ConfigurationError, RegistryError
from eventconsumer_spark.output.bodies import UNDECODED_MESSAGE, Split, separate
from eventconsumer_spark.registry.client import SchemaRegistry
from eventconsumer_spark.registry.schema import Refusal, Schema, checked, newest

MAX_SCHEMAS = 200
"""Schemas of one batch, those of most events; each costs a request and a part of the query."""
NO_ID = {
    RegistryType.AZURE: "the content type is not avro/binary+<id of a schema>",
    RegistryType.CONFLUENT: "the body does not begin with a zero byte and the id of a schema",
}
TOO_MANY = f"the batch has more than {MAX_SCHEMAS} schemas"

_PARSED = "_parsed"
_END_BYTES = 16
"""Length of the random bytes behind each body: a body that is longer or shorter than its schema says does not end with
them. No sender can know them, so no body can have them in itself."""
_FIELD = "spec.spark.output.body.schema"


@dataclass(frozen=True)
class Schemas:
    """The schemas of a batch.

    Attributes:
        kind: The protocol, which says where the id is.
        reader: The schema of the column body, JSON; empty: unknown, because no schema of the batch is known.
        writers: Id -> schema that decodes its bodies.
        causes: Id -> cause for a body that is not decoded.
        choice: The ids of the schemas, and of the reader schema, to repeat the same decision.
    """

    kind: RegistryType
    reader: str
    writers: Mapping[str, str]
    causes: Mapping[str, str]
    choice: Mapping[str, Any]


def find_schemas(
    events: DataFrame, body: Body, registry: SchemaRegistry, choice: Mapping[str, Any] | None = None
) -> Schemas:
    """Read the schemas of a batch; reads the column with the ids once.

    Args:
        events: The events of the batch.
        body: `spec.spark.output.body` of type Avro.
        registry: Its registry.
        choice: The choice of an earlier attempt, which is repeated; None: this one chooses.

    Raises:
        RegistryError: The registry does not respond, or refuses the credential.
        ConfigurationError: The URL or the reader schema is wrong.
    """
    kind, spark = registry.registry.type, events.sparkSession
    count = F.count(F.lit(1)).alias("events")
    counted = events.where(F.col("body").isNotNull()).groupBy(schema_id(kind).alias("id")).agg(count)
    most = counted.where("id IS NOT NULL").orderBy(F.desc("events"), "id").limit(MAX_SCHEMAS).collect()
    events_of = {row["id"]: int(row["events"]) for row in most}
    found = registry.schemas(events_of)
    known = {each: schema for each, schema in found.items() if isinstance(schema, Schema)}
    refused = {each: schema.cause for each, schema in found.items() if isinstance(schema, Refusal)}
    for each, schema in list(known.items()):
        if choice is not None and each not in choice["ids"]:
            refused[each] = "is not in the registry"
            del known[each]
        elif cause := _parse_problem(spark, schema.text):
            refused[each] = cause
            del known[each]
    reader = _given(spark, body)
    reader_id = ""
    if not reader:
        newest_one = newest([(schema, events_of[each]) for each, schema in known.items()])
        reader_id = next((each for each, schema in known.items() if schema is newest_one), "")
        if choice is not None and choice["reader"]:
            reader_id = choice["reader"]
        if reader_id:
            chosen = registry.schemas([reader_id])[reader_id]
            if isinstance(chosen, Refusal):
                raise RegistryError(
                    f"schema {reader_id} {chosen.cause}, but an earlier attempt read the batch by it: restore it"
                )
            reader = chosen.text
    choice = {"ids": sorted(known), "reader": reader_id}
    for each, schema in list(known.items()):
        if cause := _mismatch(spark, reader, schema.text):
            refused[each] = cause
            del known[each]
    writers = {each: schema.text for each, schema in known.items()}
    causes = {each: f"schema {each} {cause}" for each, cause in refused.items()}
    causes |= {each: f"not in Avro of schema {each}" for each in writers}
    return Schemas(kind, reader, writers, causes, choice)


def schema_id(kind: RegistryType) -> Column:
    """The id of an event's schema, as text; null: none."""
    if kind is RegistryType.AZURE:
        # A GUID without hyphens (README of azure-schemaregistry-avroencoder, "Message format").
        found = F.regexp_extract(F.lower("content_type"), r"^avro/binary\+([0-9a-f]{32})$", 1)
        return F.when(found != "", found)
    # docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop, "Wire format"
    number = F.conv(F.hex(F.substring("body", 2, 4)), 16, 10).cast("bigint")
    framed = (F.length("body") >= 5) & (F.substring("body", 1, 1) == F.lit(bytearray(1))) & (number < 1 << 31)
    return F.when(framed, number.cast("string"))


def split_avro(events: DataFrame, schemas: Schemas) -> Split:
    """Decode the bodies, lazily; each of the two results decodes each body once.

    Without a reader schema the fitting events, which have no body, have no column `body`: its type is unknown.
    """
    undecoded = F.col("system_properties")[UNDECODED].isNotNull()
    found = schema_id(schemas.kind)
    cause = F.when(undecoded, UNDECODED_MESSAGE).when(found.isNull(), NO_ID[schemas.kind])
    if schemas.causes:
        texts = [F.lit(text) for pair in schemas.causes.items() for text in pair]
        cause = cause.otherwise(F.coalesce(F.create_map(*texts)[found], F.lit(TOO_MANY)))
    no_body = F.col("body").isNull()
    if not schemas.reader:
        return separate(events, no_body, None, cause)
    payload = F.col("body") if schemas.kind is RegistryType.AZURE else F.expr("substring(body, 6)")
    end = F.lit(bytearray(secrets.token_bytes(_END_BYTES)))
    data = F.when(~no_body & ~undecoded, F.concat(payload, end))
    parsed = F.when(F.lit(False), _decoded(data, schemas.reader, schemas.reader))
    for each, writer in schemas.writers.items():
        parsed = parsed.when(found == each, _decoded(data, writer, schemas.reader))
    # An observed plan stops the optimizer, which would decode once for each use of the result.
    marked = events.withColumn(_PARSED, parsed).observe("decoded", F.count(F.lit(1)).alias("events"))
    whole = F.col(_PARSED)
    fits = no_body | F.coalesce(whole["end"] == end, F.lit(False))
    return separate(marked, fits, whole["value"], cause, events.columns)


def _decoded(data: Column, writer: str, reader: str) -> Column:
    return from_avro(data, _whole(writer), {"mode": "PERMISSIVE", "avroSchema": _whole(reader)})


def _whole(schema: str) -> str:
    """A record of a body and what follows it."""
    end = {"type": "fixed", "name": "eventconsumer_end", "size": _END_BYTES}
    fields = [{"name": "value", "type": json.loads(schema)}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "eventconsumer_whole", "fields": fields})


def _given(spark: SparkSession, body: Body) -> str:
    """The reader schema of the spec; empty: none."""
    if not body.schema_:
        return ""
    schema = checked(body.schema_)
    problem = schema.cause if isinstance(schema, Refusal) else _parse_problem(spark, schema.text)
    if isinstance(schema, Refusal) or problem:
        raise ConfigurationError(f"{_FIELD}: the Avro schema {problem}: correct it")
    return schema.text


def _parse_problem(spark: SparkSession, schema: str) -> str:
    """Why Avro or Spark refuses a schema; empty: they do not."""
    try:
        spark._jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(_java(spark, _whole(schema)))
    except Py4JJavaError as error:
        return f"is refused by Spark: {_line(error.java_exception.getMessage())}"
    return ""


def _mismatch(spark: SparkSession, reader: str, writer: str) -> str:
    """Why bodies of a writer schema are not read by the reader schema; empty: they are.

    Avro's decoder alone would read a record with another name, and fill in defaults.
    """
    check = spark._jvm.org.apache.avro.SchemaCompatibility.checkReaderWriterCompatibility
    result = check(_java(spark, reader), _java(spark, writer)).getResult()
    if result.getCompatibility().name() == "COMPATIBLE":
        return ""
    problems = (f"{each.getLocation()}: {each.getMessage()}" for each in result.getIncompatibilities())
    return f"is not compatible with the reader schema: {_line('; '.join(problems))}"


def _java(spark: SparkSession, schema: str) -> Any:
    return spark._jvm.org.apache.avro.Schema.Parser().parse(schema)


def _line(text: str | None) -> str:
    return " ".join((text or "no message").split())[:200]
