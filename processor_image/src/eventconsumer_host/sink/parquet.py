"""Encodes events as a Parquet file.

The columns and their order are fixed (`SCHEMA`); rows are in sequence order. The key/value metadata of the file repeats
the metadata of the slot, so that a file identifies its place in the chain. Row groups are encoded one after another and
returned in blocks, so encoding needs memory for one row group, for any size of the file. Encoding is pure and takes CPU
time: consume the blocks in a thread.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_host.sink.content import BlockWriter
from eventconsumer_host.sink.row_chunks import groups
from eventconsumer_host.source.batch import EventBatch

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
ROW_GROUP_BYTES = 32 * 1024**2  # of events, before compression
PAGE_BYTES = 1024**2  # of events, before compression


def encode(batches: Sequence[EventBatch], partition: str, facts: Mapping[str, str]) -> Iterator[bytes]:
    """Encode a Parquet file, in blocks.

    Args:
        batches: Events of one partition, in sequence order.
        partition: Its id.
        facts: The file's metadata.
    """
    schema = SCHEMA.with_metadata({f"eventconsumer.{key}": value for key, value in facts.items()})
    blocks = BlockWriter()
    with (
        pa.PythonFile(blocks, "w") as sink,
        pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=["partition_key", "partition_id", "content_type"],
            column_encoding={"sequence_number": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
            data_page_size=PAGE_BYTES,
            write_batch_size=_rows_at_a_time(batches),
        ) as file,
    ):
        for group in groups(batches, ROW_GROUP_BYTES):
            table = _table(group, partition)
            file.write_table(table, row_group_size=table.num_rows)
            del table
            yield from blocks.full()
    yield from blocks.rest()


def _rows_at_a_time(batches: Sequence[EventBatch]) -> int:
    """Rows that the writer takes before it checks whether a page is full: 1,024, fewer for large events."""
    rows = sum(map(len, batches))
    size = sum(batch.size for batch in batches)
    return max(1, min(1024, PAGE_BYTES * rows // max(1, size)))


def _table(batches: Sequence[EventBatch], partition: str) -> pa.Table:
    """The columns of the file, which share the memory of the events."""
    table = pa.Table.from_batches([batch.columns for batch in batches])
    ids = pa.repeat(pa.scalar(partition, pa.string()), table.num_rows)
    columns = [ids if name == "partition_id" else table.column(name) for name in SCHEMA.names]
    columns[2] = columns[2].cast(SCHEMA.field(2).type)
    return pa.Table.from_arrays(columns, schema=SCHEMA)
