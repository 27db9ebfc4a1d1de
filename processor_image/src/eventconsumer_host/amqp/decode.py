"""Messages to columns, straight from their bytes.

The compiled decoder, if installed, decodes messages in the form of nearly all publishers, and reports all others. Other
messages, and all messages without it, are decoded one by one (`messages`, `source.columns`). Both decoders give the
same columns for the same bytes.

A message that cannot be decoded stops nothing: it becomes a row with the whole message as its body, and the cause as
the system property `UNDECODED`.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventconsumer_api.wire.capture import UNDECODED
from eventconsumer_host import compiled
from eventconsumer_host.amqp.codec import FrameError
from eventconsumer_host.amqp.messages import DecodedMessage, decode_message, readable_annotations
from eventconsumer_host.amqp.wire import Deliveries, messages_of
from eventconsumer_host.source import columns
from eventconsumer_host.source.batch import COLUMNS, EventBatch
from eventconsumer_host.source.rows import EventRows

Positions = npt.NDArray[np.int64]

_ALIGNMENT = 64  # alignment of each buffer
_NONE: Positions = np.zeros(0, np.int64)
_NONE.flags.writeable = False

_INTEGER, _TIME, _TEXT, _BINARY = (COLUMNS.field(name).type for name in ("size", "enqueued_time", "offset", "body"))
_MAP, _KINDS = (COLUMNS.field(name).type for name in ("properties", "property_kinds"))
_ENTRIES = pa.struct([_MAP.key_field, _MAP.item_field])
_KIND = _KINDS.value_type
_TEXTS = (_TEXT, _TEXT, _BINARY, *[_TEXT] * 7)  # in the decoder's order of text columns
_array = pa.Array.from_buffers

_UNKNOWN = -(2**63)  # sequence number of a row until its place is known
_LAST_MS = 253_402_300_799_999  # the last millisecond of the year 9999


def decode(pieces: Sequence[Deliveries], after: int | None = None) -> EventBatch:
    """The columns of the messages of one partition, in the order of arrival.

    Args:
        pieces: The messages.
        after: Sequence number before the first message, for messages whose own cannot be read; None: unknown.

    Raises:
        FrameError: The sequence number of a message cannot be read, and no number before it is known.
    """
    batch = _decode(pieces)
    if len(batch) and batch.numbers.min() == _UNKNOWN:
        return _numbered(batch, after)
    return batch


def _decode(pieces: Sequence[Deliveries]) -> EventBatch:
    if compiled.find() is None:
        return by_rows(messages_of(pieces))
    batch, left = decode_compiled(pieces)
    if batch is None:
        return by_rows(messages_of(pieces))
    if not len(left):
        return batch
    encoded = messages_of(pieces)
    others = by_rows([encoded[index] for index in left.tolist()])
    taken = np.delete(np.arange(len(encoded)), left)
    order = np.argsort(np.concatenate([taken, left]))
    return EventBatch(pa.concat_batches([batch.columns, others.columns]).take(pa.array(order)))


def by_rows(payloads: Sequence[bytes]) -> EventBatch:
    """The columns of messages of any form, decoded one by one.

    If one of them cannot be decoded, both halves are decoded separately, until it is alone.
    """
    try:
        return _rows(payloads)
    except FrameError as error:
        if len(payloads) == 1:
            return _undecoded(payloads[0], error)
    middle = len(payloads) // 2
    return EventBatch.joined([by_rows(payloads[:middle]), by_rows(payloads[middle:])])


def _rows(payloads: Sequence[bytes]) -> EventBatch:
    """The columns of messages.

    Raises:
        FrameError: One of them cannot be decoded, or has no sequence number.
    """
    rows = EventRows()
    try:
        for payload in payloads:
            columns.append(rows, decode_message(payload))
        return EventBatch.of(rows)
    except FrameError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as error:  # also Arrow's
        raise FrameError(f"an event's annotations or body have an unexpected form: {error!r}") from None


def _undecoded(payload: bytes, error: FrameError) -> EventBatch:
    """The row of a message that cannot be decoded."""
    found = readable_annotations(payload)
    number, offset = found.get(columns.SEQUENCE_NUMBER), found.get(columns.OFFSET)
    time = found.get(columns.ENQUEUED_TIME)
    annotations = {
        columns.SEQUENCE_NUMBER: number if isinstance(number, int) and 0 <= number < 2**63 else _UNKNOWN,
        columns.OFFSET: offset if isinstance(offset, bytes) else b"",
        columns.ENQUEUED_TIME: time if isinstance(time, int) and 0 <= time <= _LAST_MS else 0,
        UNDECODED: str(error),
    }
    rows = EventRows()
    columns.append(rows, DecodedMessage(annotations, None, None, [payload], None, None))
    return EventBatch.of(rows)


def _numbered(batch: EventBatch, after: int | None) -> EventBatch:
    """The batch, where each unknown sequence number follows the number before it."""
    numbers = batch.numbers.tolist()
    for index, number in enumerate(numbers):
        if number == _UNKNOWN:
            if after is None:
                raise FrameError("neither the sequence number of an undecoded event nor the number before it is known")
            numbers[index] = after + 1
        after = numbers[index]
    return EventBatch(batch.columns.set_column(0, COLUMNS.field(0), pa.array(numbers, pa.int64())))


def decode_compiled(pieces: Sequence[Deliveries]) -> tuple[EventBatch | None, Positions]:
    """The columns of the messages that the compiled decoder supports.

    Args:
        pieces: Messages of one partition, in the order of arrival.

    Returns:
        Their batch, in that order, or None if there are none; and the indices of unsupported messages among those of
        all pieces.

    Raises:
        ImportError: The compiled decoder is not available, see `compiled.find`.
        ValueError: The positions of the messages do not rise, or reach beyond their bytes.
        OverflowError: A column would exceed Arrow's maximum size.
    """
    decoder = compiled.library()
    parts = array("Q")
    for piece in pieces:
        data, stops = piece.data, piece.stops
        parts.extend((pa.py_buffer(data).address, len(data), piece.head, *stops.buffer_info()))
    fits = np.empty(sum(map(len, pieces)), np.uint8)
    raw = decoder.Pieces(parts.buffer_info()[0], len(pieces), pa.py_buffer(fits).address, len(fits))
    sizes = decoder.Sizes()
    decoder.measure(raw, sizes)
    count: int = sizes.messages
    if not count:
        return None, np.arange(len(fits))
    memory = pa.allocate_buffer(sizes.total)
    decoder.fill(raw, sizes, memory.address, memory.size)
    return _batch(sizes, memory), _NONE if count == len(fits) else np.flatnonzero(fits == 0)


def _batch(sizes: Any, memory: pa.Buffer) -> EventBatch:
    """The columns, as views of the filled memory."""
    rows = sizes.messages
    regions, end = [], 0
    for size in sizes.regions[:]:
        regions.append(memory.slice(end, size))
        end += (size + _ALIGNMENT - 1) & -_ALIGNMENT
    numbers, times, lengths, *regions = regions
    texts = [
        _array(kind, count, [bitmap if nulls else None, ends, data], nulls)
        for kind, count, nulls, bitmap, ends, data in zip(
            _TEXTS, sizes.values[:], sizes.nulls[:], regions[:-4:3], regions[1:-4:3], regions[2:-4:3], strict=True
        )
    ]
    offset, key, body, content_type, message_id, correlation_id, *entries = texts
    properties, kinds = _maps(rows, *entries[:2], *regions[-4:-2])
    system, system_kinds = _maps(rows, *entries[2:], *regions[-2:])
    return EventBatch.of_columns(
        {
            "sequence_number": _array(_INTEGER, rows, [None, numbers], 0),
            "offset": offset,
            "enqueued_time": _array(_TIME, rows, [None, times], 0),
            "partition_key": key,
            "body": body,
            "properties": properties,
            "system_properties": system,
            "content_type": content_type,
            "message_id": message_id,
            "correlation_id": correlation_id,
            "property_kinds": kinds,
            "system_property_kinds": system_kinds,
            "size": _array(_INTEGER, rows, [None, lengths], 0),
        }
    )


def _maps(
    rows: int, names: pa.StringArray, values: pa.StringArray, ends: pa.Buffer, kinds: pa.Buffer
) -> tuple[pa.MapArray, pa.ListArray]:
    """Maps, and the kinds of their values."""
    count = len(values)
    entries = _array(_ENTRIES, count, [None], 0, children=[names, values])
    flat = _array(_KIND, count, [None, kinds], 0)
    buffers = [None, ends]
    return _array(_MAP, rows, buffers, 0, children=[entries]), _array(_KINDS, rows, buffers, 0, children=[flat])
