"""Messages to columns, straight from their bytes.

The compiled decoder, if installed, decodes messages in the form of nearly all publishers, and reports all others. Other
messages, and all messages without it, are decoded one by one (`messages`, `source.columns`). Both decoders give the
same columns for the same bytes.
"""

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventconsumer_processor.amqp import compiled
from eventconsumer_processor.amqp.codec import FrameError
from eventconsumer_processor.amqp.messages import decode_message
from eventconsumer_processor.amqp.wire import Deliveries, messages_of
from eventconsumer_processor.source import columns
from eventconsumer_processor.source.batch import COLUMNS, EventBatch
from eventconsumer_processor.source.rows import EventRows

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


def decode(pieces: Sequence[Deliveries]) -> EventBatch:
    """The columns of the messages of one partition, in the order of arrival.

    Raises:
        FrameError: One of them is not a valid message, or has no sequence number.
    """
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

    Raises:
        FrameError: One of them is not a valid message, or has no sequence number.
    """
    rows = EventRows()
    try:
        for payload in payloads:
            columns.append(rows, decode_message(payload))
        return EventBatch.of(rows)
    except FrameError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:  # Arrow's types use these
        raise FrameError(f"an event's annotations or body have an unexpected form: {error!r}") from None


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
    arrays = [
        _array(_INTEGER, rows, [None, numbers], 0),
        offset,
        _array(_TIME, rows, [None, times], 0),
        key,
        body,
        properties,
        system,
        content_type,
        message_id,
        correlation_id,
        kinds,
        system_kinds,
        _array(_INTEGER, rows, [None, lengths], 0),
    ]
    return EventBatch(pa.RecordBatch.from_arrays(arrays, schema=COLUMNS))


def _maps(
    rows: int, names: pa.StringArray, values: pa.StringArray, ends: pa.Buffer, kinds: pa.Buffer
) -> tuple[pa.MapArray, pa.ListArray]:
    """Maps, and the kinds of their values."""
    count = len(values)
    entries = _array(_ENTRIES, count, [None], 0, children=[names, values])
    flat = _array(_KIND, count, [None, kinds], 0)
    buffers = [None, ends]
    return _array(_MAP, rows, buffers, 0, children=[entries]), _array(_KINDS, rows, buffers, 0, children=[flat])
