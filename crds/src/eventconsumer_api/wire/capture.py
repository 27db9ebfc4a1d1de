"""Schema of Avro files, which hosts write and Spark reads: the schema of Event Hubs Capture, and names in files."""

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

AMQP_FIELDS = (
    "user-id",
    "reply-to",
    "content-encoding",
    "absolute-expiry-time",
    "creation-time",
    "group-id",
    "group-sequence",
    "reply-to-group-id",
)
"""Fields of AMQP's properties section: Avro files have these names, Parquet files those with an underscore."""

UNDECODED = "eventconsumer-undecoded"
"""System property of an event that the host could not decode, with the cause; the body is the whole AMQP message."""
