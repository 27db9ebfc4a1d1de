"""Encodes batches as one Parquet file, the format of drained files.

Columns and their order are fixed (`SCHEMA`); rows are in sequence order; the file's key/value metadata repeats the
slot's facts, so that a file says by itself where it belongs. Encoding is pure and takes CPU time: call it in a thread.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_processor.source.batch import EventBatch, FlatMap

SCHEMA = pa.schema(
    [
        ("sequence_number", pa.int64()),
        ("offset", pa.string()),
        ("enqueued_time", pa.timestamp("us", tz="UTC")),
        ("partition_key", pa.string()),
        ("partition_id", pa.string()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("system_properties", pa.map_(pa.string(), pa.string())),
        ("content_type", pa.string()),
        ("message_id", pa.string()),
        ("correlation_id", pa.string()),
    ]
)
ZSTD_LEVEL = 1

Encoder = Callable[[Sequence[EventBatch], str, Mapping[str, str]], bytes]
"""Turns the batches of one partition into a file's content: batches, partition id, metadata."""


def encode(batches: Iterable[EventBatch], partition: str, facts: Mapping[str, str]) -> bytes:
    """The Parquet file of these batches.

    Args:
        batches: Events of one partition, in sequence order.
        partition: Its id.
        facts: The file's metadata.
    """
    records = [_record_batch(batch, partition) for batch in batches]
    schema = SCHEMA.with_metadata({f"eventconsumer.{key}": value for key, value in facts.items()})
    table = pa.Table.from_batches(records, SCHEMA).replace_schema_metadata(schema.metadata)
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table,
        buffer,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=["partition_key", "partition_id", "content_type"],
        column_encoding={"sequence_number": "DELTA_BINARY_PACKED"},
        write_page_checksum=True,
    )
    return bytes(buffer.getvalue())


def _record_batch(batch: EventBatch, partition: str) -> pa.RecordBatch:
    enqueued = pa.array(batch.enqueued_ms, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(batch.sequence_numbers, pa.int64()),
            pa.array(batch.offsets, pa.string()),
            enqueued,
            pa.array(batch.partition_keys, pa.string()),
            pa.repeat(pa.scalar(partition, pa.string()), len(batch)),
            pa.array(batch.bodies, pa.binary()),
            _map(batch.properties),
            _map(batch.system_properties),
            pa.array(batch.content_types, pa.string()),
            pa.array(batch.message_ids, pa.string()),
            pa.array(batch.correlation_ids, pa.string()),
        ],
        schema=SCHEMA,
    )


def _map(column: FlatMap) -> pa.MapArray:
    offsets = pa.array([0, *column.ends], pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.array(column.keys, pa.string()), pa.array(column.values, pa.string()))
