"""Encodes events as a Parquet file.

The columns and their order are those of `file_columns`, and behind them those of the bodies that events have with
them; rows are in sequence order. The key/value metadata of the file
repeats the metadata of the slot, so that a file identifies its place in the chain. Row groups are encoded one after
another and returned in blocks, so encoding needs memory for one row group, for any size of the file. Encoding is pure
and takes CPU time: consume the blocks in a thread.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.wire.file_columns import COLUMNS, of_bodies
from eventconsumer_host.sink.content import BlockWriter
from eventconsumer_host.sink.row_chunks import groups
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.schema import arrow_schema

SCHEMA = arrow_schema(COLUMNS)
ZSTD_LEVEL = 1
ROW_GROUP_BYTES = 32 * 1024**2  # of events, before compression
PAGE_BYTES = 1024**2  # of events, before compression
SAMPLED_ROWS = 2048  # of columns of bodies: where at most half of the values are distinct, they get a dictionary
_BOUNDED = [  # columns of the envelope with bounds in the file: nobody looks for a body by its order
    each.name for each in SCHEMA if not pa.types.is_binary(each.type) and not pa.types.is_map(each.type)
]


def encode(
    batches: Sequence[EventBatch], partition: str, facts: Mapping[str, str], columns: Sequence[BodyColumn] = ()
) -> Iterator[bytes]:
    """Encode a Parquet file, in blocks.

    Args:
        batches: Events of one partition, in sequence order, with typed columns if there are columns of bodies.
        partition: Its id.
        facts: The file's metadata.
        columns: The columns of bodies.
    """
    bodies = arrow_schema(of_bodies(columns))
    schema = pa.schema([*SCHEMA, *bodies], {f"eventconsumer.{key}": value for key, value in facts.items()})
    samples = _samples(batches, bodies)
    dictionaries = [path for path, values in samples.items() if _repeats(values)]
    blocks = BlockWriter()
    with (
        pa.PythonFile(blocks, "w") as sink,
        pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            use_dictionary=["partition_key", "partition_id", "content_type", *dictionaries],
            # Of columns of bodies, values are plain: readers know the encodings of differences and lengths less well.
            # fastparquet 2026.9 shows other values for wide differences, and daft 0.6 has none inside of others.
            column_encoding={"sequence_number": "DELTA_BINARY_PACKED"},
            store_decimal_as_integer=True,
            write_statistics=[*_BOUNDED, *samples],
            write_page_checksum=True,
            data_page_size=PAGE_BYTES,
            write_batch_size=_rows_at_a_time(batches),
        ) as file,
    ):
        for group in groups(batches, ROW_GROUP_BYTES):
            table = _table(group, partition, bodies)
            file.write_table(table, row_group_size=table.num_rows)
            del table
            yield from blocks.full()
    yield from blocks.rest()


def _rows_at_a_time(batches: Sequence[EventBatch]) -> int:
    """Rows that the writer takes before it checks whether a page is full: 1,024, fewer for large events."""
    rows = sum(map(len, batches))
    size = sum(batch.size for batch in batches)
    return max(1, min(1024, PAGE_BYTES * rows // max(1, size)))


def _samples(batches: Sequence[EventBatch], bodies: pa.Schema) -> dict[str, pa.Array]:
    """The first values of the columns of bodies, by their paths in the file."""
    sample = bodies.empty_table()
    for batch in batches if bodies.names else ():
        if sample.num_rows < SAMPLED_ROWS and batch.typed is not None:
            part = batch.typed.slice(0, SAMPLED_ROWS - sample.num_rows)
            sample = pa.concat_tables([sample, pa.Table.from_batches([part])])
    leaves = (leaf for name in bodies.names for leaf in _leaves(name, sample.column(name).combine_chunks()))
    return {path: values.slice(0, SAMPLED_ROWS) for path, values in leaves}  # an array has more values than rows


def _repeats(values: pa.Array) -> bool:
    """Whether values like these get a dictionary; Parquet has none of booleans."""
    return not pa.types.is_boolean(values.type) and bool(2 * pc.count_distinct(values).as_py() <= len(values))


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The columns that Parquet makes of a column: their paths and values. Source: "Nested Types" in LogicalTypes.md."""
    kind = values.type
    if pa.types.is_struct(kind):
        for field, child in zip(kind, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", child)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", values.flatten())
    else:
        yield path, values


def _table(batches: Sequence[EventBatch], partition: str, bodies: pa.Schema) -> pa.Table:
    """The columns of the file, which share the memory of the events."""
    table = pa.Table.from_batches([batch.columns for batch in batches])
    columns = {name: table.column(name) for name in SCHEMA.names if name != "partition_id"}
    columns["partition_id"] = pa.repeat(pa.scalar(partition, pa.string()), table.num_rows)
    columns["enqueued_time"] = columns["enqueued_time"].cast(SCHEMA.field("enqueued_time").type)
    typed = pa.Table.from_batches([batch.typed for batch in batches], bodies) if bodies.names else bodies.empty_table()
    arrays = [*(columns[name] for name in SCHEMA.names), *typed.columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema([*SCHEMA, *bodies]))
