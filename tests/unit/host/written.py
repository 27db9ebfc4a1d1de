"""What a host writes for a few events, as documents: the golden documents are in `golden`.

`python -m tests.unit.host.written` writes them again.
"""

import io
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
from azure.eventhub._pyamqp.message import Properties

from eventconsumer_host.sink import avro, parquet
from eventconsumer_host.sink.slots import EnqueuedRange, Slot
from eventconsumer_host.source import sdk
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.columns import to_batch
from eventconsumer_host.table import checkpoint_file
from eventconsumer_host.table.delta import TableCommit, TablePartition, new_table
from tests.unit.host.sink.messages import message

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
FACTS = {"from": "7", "epoch": "2"}

assert sdk  # its import completes the decoder


def events() -> EventBatch:
    """An event with a value in each column, and one with none where none is possible."""
    properties = Properties(
        message_id=UUID(int=2), correlation_id=b"c", content_type=b"text/plain", subject=b"s", user_id=b"\xff"
    )
    annotations = {b"x-opt-partition-key": b"blue", b"iothub-device": b"d1", b"hops": 3}
    own = {b"n": 5, b"text": b"5", b"none": None, b"float": 1.5, b"binary": b"\xff"}
    full = message(7, annotations=annotations, properties=properties, application_properties=own)
    return to_batch([full, message(8, data=None)])


def parquet_file() -> bytes:
    """Its bytes, which name the version of Arrow."""
    return b"".join(parquet.encode([events()], "3", FACTS))


def avro_file() -> bytes:
    """Its bytes."""
    return b"".join(avro.encode([events()], "3", FACTS))


def parquet_schema() -> bytes:
    """The schemas and the encodings of a Parquet file."""
    file = pq.ParquetFile(pa.BufferReader(parquet_file()))
    group = file.metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    encodings = [f"{each.path_in_schema}: {each.compression} {sorted(each.encodings)}" for each in columns]
    schema = str(file.schema).partition("\n")[2]  # behind the address of the object
    metadata = str(file.schema_arrow.metadata)
    return _text(schema.strip(), *_fields(file.schema_arrow), metadata, *encodings)


def created() -> bytes:
    """Version 0 of the table's log."""
    return new_table("5fba94ed-9794-4965-ba6e-6ee3c0d22af9", NOON)


def registered() -> bytes:
    """Version 1: a file, and one with events that the handler dropped."""
    facts = ("etag", 500, NOON, 7, 7, 8, 2, 2, "nonce", "800", NOON)
    place, root = TablePartition("0123456789abcdef", "3"), "shop/orders/"
    enqueued = EnqueuedRange(NOON, NOON)
    slots = (
        Slot(f"{root}segment=0123456789abcdef/partition=3/from={7:020d}.parquet", *facts, enqueued=enqueued),
        Slot(f"{root}segment=0123456789abcdef/partition=3/from={9:020d}.parquet", *facts, dropped=1),
    )
    return TableCommit("c", {place: slots}, 2, 4).content(root, NOON)


def checkpoint() -> bytes:
    """The schema and the rows of a checkpoint of version 1."""
    found: list[bytes] = []
    checkpoint_file.encode([io.BytesIO(created()), io.BytesIO(registered())], found.append, parts=0)
    table = pq.read_table(pa.BufferReader(b"".join(found)))
    return _text(*_fields(table.schema), *map(json.dumps, table.to_pylist()))


def _fields(schema: pa.Schema) -> list[str]:
    return [f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema]


def _text(*lines: str) -> bytes:
    return "\n".join((*lines, "")).encode()


DOCUMENTS: Mapping[str, Callable[[], bytes]] = {
    "parquet-schema.txt": parquet_schema,
    "events.avro": avro_file,
    "delta-0.json": created,
    "delta-1.json": registered,
    "delta-checkpoint.txt": checkpoint,
}

if __name__ == "__main__":
    for name, made in DOCUMENTS.items():
        (GOLDEN / name).write_bytes(made())
