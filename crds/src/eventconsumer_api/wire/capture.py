"""Avro files, which hosts write and Spark reads: the schema of Event Hubs Capture, and names in files.

A column that is no field of Capture's schema is a system property under its AMQP name.
"""

from collections.abc import Iterable, Mapping

from eventconsumer_api.wire.file_columns import COLUMNS, Column

AVRO_SCHEMA = (
    '{"type":"record","name":"EventData","namespace":"Microsoft.ServiceBus.Messaging","fields":['
    '{"name":"SequenceNumber","type":"long"},'
    '{"name":"Offset","type":"string"},'
    '{"name":"EnqueuedTimeUtc","type":"string"},'
    '{"name":"SystemProperties","type":{"type":"map","values":["long","double","string","bytes"]}},'
    '{"name":"Properties","type":{"type":"map","values":["long","double","string","bytes","null"]}},'
    '{"name":"Body","type":["null","bytes"]}]}'
)
"""Equal to Capture's schema byte for byte: a file without events has 508 bytes."""

PROPERTY_TYPES: Mapping[str, str] = {
    "long": "long",
    "timestamp": "long",  # milliseconds since 1970, UTC
    "double": "double",
    "string": "string",
    "binary": "bytes",
}
"""Type of a column that can be a system property -> type of its values there."""

_SECTION = (
    "message-id",
    "user-id",
    "to",
    "subject",
    "reply-to",
    "correlation-id",
    "content-type",
    "content-encoding",
    "absolute-expiry-time",
    "creation-time",
    "group-id",
    "group-sequence",
    "reply-to-group-id",
)
"""Fields of AMQP's properties section, in its order."""


def own_properties(columns: Iterable[Column]) -> dict[str, Column]:
    """Columns by their system property, in AMQP's order: message annotations, then the properties section."""
    found = {each.system_property: each for each in columns if each.system_property}
    return dict(sorted(found.items(), key=lambda item: _SECTION.index(item[0]) if item[0] in _SECTION else -1))


AMQP_FIELDS = tuple(name for name in _SECTION if "-" in name and name not in own_properties(COLUMNS))
"""Fields of AMQP's properties section without a column: Avro files have these names, Parquet files those with an
underscore."""

UNDECODED = "eventconsumer-undecoded"
"""System property of an event that the host could not decode, with the cause; the body is the whole AMQP message."""
