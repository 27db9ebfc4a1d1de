"""The columns of a drained file: the one table of them, of which writers, readers and the reference page are made.

The table is data, without Arrow or Spark. Builders beside each user make what it needs: hosts Arrow's schema
(`source.schema`) and the records of Avro files (`sink.avro`), the Delta table its metadata, Spark its reader,
`docs.generate.columns` the page. Types are those of Delta, whose schemas Spark reads and writes too. A builder takes
any columns, so a consumer may have more than these. The auditor has a list of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.column_types import DeltaType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of Parquet files, the Delta table and Spark's events.

    Attributes:
        name: Its name.
        type: Its type; may be nested.
        doc: Its meaning, in Markdown.
        avro_field: The field of Capture's schema that has its value in Avro files; empty: none.
        system_property: The system property that has its value in Avro files; empty: none.
        nullable: Whether a value may be null in the schema.
        statistics: Whether the Delta table has its bounds in each file.
        replaceable: Whether the handler may replace its values (`processing.handlerMode: Transform`).
    """

    name: str
    type: DeltaType
    doc: str
    avro_field: str = ""
    system_property: str = ""
    nullable: bool = True
    statistics: bool = False
    replaceable: bool = False


_TEXTS = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}

COLUMNS: tuple[Column, ...] = (
    Column(
        "sequence_number",
        "long",
        "The number of the event in its partition.",
        avro_field="SequenceNumber",
        statistics=True,
    ),
    Column(
        "offset",
        "string",
        "The position of the event, as Event Hubs names it: compare it for equality only.",
        avro_field="Offset",
    ),
    Column(
        "enqueued_time",
        "timestamp",
        "When Event Hubs received the event, UTC. It has milliseconds.",
        avro_field="EnqueuedTimeUtc",
        system_property="x-opt-enqueued-time",
        statistics=True,
    ),
    Column(
        "partition_key",
        "string",
        "The key that the publisher set; null: none.",
        system_property="x-opt-partition-key",
        replaceable=True,
    ),
    Column("partition_id", "string", "The partition. In Avro files, only their names have it.", statistics=True),
    Column(
        "body",
        "binary",
        "As published; null: the message has no body, such as a tombstone of Kafka. The whole AMQP message of an event "
        "that the host could not decode.",
        avro_field="Body",
        replaceable=True,
    ),
    Column(
        "properties",
        _TEXTS,
        "Application properties, see [properties](#properties).",
        avro_field="Properties",
        replaceable=True,
    ),
    Column(
        "system_properties",
        _TEXTS,
        "Message annotations and fields of AMQP's properties section that have no column.",
        avro_field="SystemProperties",
        replaceable=True,
    ),
    Column(
        "content_type",
        "string",
        "AMQP's property `content-type`; null: none.",
        system_property="content-type",
        replaceable=True,
    ),
    Column(
        "message_id",
        "string",
        "AMQP's property `message-id`; null: none.",
        system_property="message-id",
        replaceable=True,
    ),
    Column(
        "correlation_id",
        "string",
        "AMQP's property `correlation-id`; null: none.",
        system_property="correlation-id",
        replaceable=True,
    ),
)
"""The columns of each file, in their order."""

ERROR = Column(
    "_error",
    "string",
    "Why the body does not fit its columns: column, expected and found type, never a value; null: it fits.",
)
"""The last column of a file that has columns of bodies."""


def of_bodies(columns: Sequence[BodyColumn]) -> tuple[Column, ...]:
    """The columns of a file behind `COLUMNS`: those of its bodies, and `ERROR`; none without columns of bodies."""
    return (*(Column(each.name, each.type, "") for each in columns), *((ERROR,) if columns else ()))


def delta_schema(columns: Iterable[Column]) -> dict[str, Any]:
    """The schema of a Delta table, which is also what Spark's `StructType.fromJson` takes."""
    fields = [{"name": each.name, "type": each.type, "nullable": each.nullable, "metadata": {}} for each in columns]
    return {"type": "struct", "fields": fields}
