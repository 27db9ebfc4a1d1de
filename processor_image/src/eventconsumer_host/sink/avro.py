"""Encodes events as an Avro file that is byte-compatible with Event Hubs Capture.

The header is identical to Capture's: the codec `null` and the text of the schema, 490 bytes. So a file without events,
the header and one empty block, has 508 bytes. The file contains no data of this project: the metadata of the slot is in
the metadata of the blob.

Columns that Capture's schema lacks are system properties under their AMQP names, also x-opt-enqueued-time with the
milliseconds that EnqueuedTimeUtc lacks. Integers of 64 bits are `long`, floating point numbers `double`, binaries
`bytes`; all other types are the text of `source.columns`.
Encoding is pure and takes CPU time: consume the blocks in a thread.
"""

import base64
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import fastavro
import pyarrow as pa

from eventconsumer_api.wire.capture import AMQP_FIELDS, AVRO_SCHEMA, own_properties
from eventconsumer_api.wire.file_columns import COLUMNS
from eventconsumer_host.sink.content import BlockWriter
from eventconsumer_host.sink.row_chunks import groups
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.rows import FlatMap, PropertyKind

AVRO_BLOCK_BYTES = 1024**2  # of records in a block, and of events that are converted to rows at a time
SYNC_BYTES = 16
_PARSED = fastavro.parse_schema(json.loads(AVRO_SCHEMA))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = {each.avro_field: each.name for each in COLUMNS if each.avro_field}
_SYSTEM = {name: each.name for name, each in own_properties(COLUMNS).items()}
_AMQP_NAMES = {name.replace("-", "_"): name for name in AMQP_FIELDS}


def encode(batches: Iterable[EventBatch], partition: str, facts: Mapping[str, str]) -> Iterator[bytes]:
    """Encode an Avro file, in blocks.

    Args:
        batches: Events of one partition, in sequence order.
        partition: Its id, which Capture's files do not contain.
        facts: The file's metadata; equal metadata gives an equal sync marker.
    """
    sync = _sync(json.dumps([partition, *sorted(facts.items())]))
    blocks = BlockWriter()
    blocks.write(header(sync))
    records, count = io.BytesIO(), 0
    for chunk in chain.from_iterable(groups(batches, AVRO_BLOCK_BYTES)):
        for record in _records(chunk):
            fastavro.schemaless_writer(records, _PARSED, record)
            count += 1
            if records.tell() >= AVRO_BLOCK_BYTES:
                blocks.write(_block(count, records.getvalue(), sync))
                records, count = io.BytesIO(), 0
                yield from blocks.full()
    if count:
        blocks.write(_block(count, records.getvalue(), sync))
    yield from blocks.rest()


def empty_file(name: str) -> bytes:
    """The file of a window without events: 508 bytes, always equal for a name."""
    sync = _sync(name)
    return header(sync) + _block(0, b"", sync)


def header(sync: bytes) -> bytes:
    """The first 490 bytes of each file: the magic bytes, the codec, the schema, the sync marker."""
    entries = {"avro.codec": b"null", "avro.schema": AVRO_SCHEMA.encode()}
    meta = b"".join(_bytes(key.encode()) + _bytes(value) for key, value in entries.items())
    return b"Obj\x01" + _long(len(entries)) + meta + _long(0) + sync


def enqueued_time(milliseconds: int) -> str:
    """The enqueued time in Capture's format: `11/16/2016 4:44:11 PM`."""
    time = _EPOCH + timedelta(milliseconds=milliseconds)
    hour = time.hour % 12 or 12
    half = "AM" if time.hour < 12 else "PM"
    return f"{time.month}/{time.day}/{time.year} {hour}:{time.minute:02d}:{time.second:02d} {half}"


def _records(batch: EventBatch) -> Iterator[dict[str, Any]]:
    own = zip(*(_values(batch, name) for name in _SYSTEM.values()), strict=True)
    made: dict[str, Iterable[Any]] = {
        "enqueued_time": map(enqueued_time, _values(batch, "enqueued_time")),
        "properties": _maps(batch.maps("properties")),
        "system_properties": map(_system, _maps(batch.maps("system_properties")), own),
    }
    columns = [made[name] if name in made else _values(batch, name) for name in _FIELDS.values()]
    return (dict(zip(_FIELDS, values, strict=True)) for values in zip(*columns, strict=True))


def _system(found: dict[str, Any], own: tuple[Any, ...]) -> dict[str, Any]:
    named = {_AMQP_NAMES.get(key, key): "null" if value is None else value for key, value in found.items()}
    return named | {key: value for key, value in zip(_SYSTEM, own, strict=True) if value is not None}


def _values(batch: EventBatch, name: str) -> list[Any]:
    """The values of a column; times as milliseconds since 1970, UTC."""
    column = batch.columns.column(name)
    return (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()  # type: ignore[no-any-return]


def _maps(column: FlatMap) -> Iterator[dict[str, Any]]:
    """One map per event, with typed values."""
    entries = zip(column.keys, map(_value, column.values, column.kinds), strict=True)
    start = 0
    for end in column.ends:
        yield dict(next(entries) for _ in range(end - start))
        start = end


def _value(text: str, kind: int) -> Any:
    match kind:
        case PropertyKind.TEXT:
            return text
        case PropertyKind.INTEGER:
            return int(text)
        case PropertyKind.FLOAT:
            return float(text)
        case PropertyKind.BINARY:
            return base64.b64decode(json.loads(text)["$binary"])
    return None


def _sync(seed: str) -> bytes:
    return hashlib.sha256(seed.encode()).digest()[:SYNC_BYTES]


def _block(count: int, records: bytes, sync: bytes) -> bytes:
    return _long(count) + _long(len(records)) + records + sync


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _long(value: int) -> bytes:
    """A number >= 0 in Avro's variable-length encoding."""
    rest, encoded = value << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
