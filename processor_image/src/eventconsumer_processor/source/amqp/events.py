"""Messages to columns, straight from their bytes.

Nearly every event has one shape: annotations as the service writes them, application properties that are texts and
numbers, one data section. `_common` reads that shape with no object per event; whatever else there is makes it give
up, and the message goes through `messages` and `source.columns`, which know every shape. Both give the same
columns for the same bytes; the common one never guesses: a length that does not fit is a reason to give up.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

from eventconsumer_processor.source import columns
from eventconsumer_processor.source.amqp.codec import FrameError, decode, skip
from eventconsumer_processor.source.amqp.messages import (
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    BareProperties,
    decode_message,
)
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.rows import EventRows, FlatMap, Kind

_TEXT, _INTEGER = int(Kind.TEXT), int(Kind.INTEGER)
_MAX_NAMES = 4096  # property names and content types that are kept as strings

# size and count of the map, then its first two entries: the sequence number and the length of the offset
_FIRST = struct.Struct(">BB24sq15sB")
_NUMBER_KEY, _OFFSET_KEY = b"\xa3\x15x-opt-sequence-number\x81", b"\xa3\x0cx-opt-offset\xa1"
_TIME = struct.Struct(">22sq")
_TIME_KEY, _PARTITION_KEY = b"\xa3\x13x-opt-enqueued-time\x83", b"\xa3\x13x-opt-partition-key\xa1"
_I32, _U32, _I64 = (struct.Struct(">" + code).unpack_from for code in "iIq")


_FIELDS = BareProperties._fields
_MESSAGE_ID, _CORRELATION_ID, _CONTENT_TYPE = map(_FIELDS.index, ("message_id", "correlation_id", "content_type"))


class _Uncommon(Exception):
    """The message is of a shape that `_common` does not read."""


Row = tuple[Any, ...]
"""One event: an item for each column, in the order of `EventRows`; a `FlatMap` is names, values and kinds."""


def to_batch(payloads: Iterable[bytes]) -> EventBatch:
    """The columns of encoded messages of one partition, in the order they came.

    Raises:
        FrameError: One of them is no message, or has no sequence number.
    """
    rows = [_row(payload) for payload in payloads]
    if not rows:
        return EventBatch.of(EventRows())
    found: list[Any] = list(map(list, zip(*rows, strict=True)))
    columns_found = [*found[:5], _flat(*found[5:8]), _flat(*found[8:11]), *found[11:]]
    return EventBatch.of(EventRows(*columns_found))


def _flat(names: Sequence[Any], values: Sequence[Any], kinds: Sequence[bytes]) -> FlatMap:
    return FlatMap(
        list(accumulate(map(len, kinds))),
        list(chain.from_iterable(names)),
        list(chain.from_iterable(values)),
        bytearray(b"".join(kinds)),
    )


def _row(payload: bytes) -> Row:
    try:
        return _common(payload)
    except (_Uncommon, IndexError, UnicodeDecodeError, struct.error, FrameError):
        return _any(payload)


# --- the common shape ---


def _common(data: bytes) -> Row:  # noqa: PLR0912, PLR0915 - one function: a call for each section would cost more
    """The row of a message of the common shape; raises where it is of another."""
    pos, end = 0, len(data)
    number = body = key = None
    content_type = message_id = correlation_id = None
    names: dict[str, str] = {}
    system: dict[str, str] = {}
    kinds = system_kinds = bytearray()
    while pos < end:
        if data[pos] or data[pos + 1] != 0x53:
            raise _Uncommon
        section, code = data[pos + 2], data[pos + 3]
        if section == DATA and body is None:
            if code == 0xA0:
                start = pos + 5
                pos = start + data[pos + 4]
            elif code == 0xB0:
                start = pos + 8
                pos = start + _U32(data, pos + 4)[0]
            else:
                raise _Uncommon
            body = data[start:pos]
        elif section == APPLICATION_PROPERTIES and code == 0xC1 and not names:
            stop = pos + 5 + data[pos + 4]
            if stop > end:
                raise _Uncommon
            names, kinds = _texts(data, pos + 6, stop, data[pos + 5])
            pos = stop
        elif section == MESSAGE_ANNOTATIONS and code == 0xC1 and number is None:
            length, count, first, number, second, offset_length = _FIRST.unpack_from(data, pos + 4)
            stop = pos + 5 + length
            pos += 4 + _FIRST.size
            offset = data[pos : pos + offset_length].decode()
            pos += offset_length
            third, milliseconds = _TIME.unpack_from(data, pos)
            pos += _TIME.size
            if first != _NUMBER_KEY or second != _OFFSET_KEY or third != _TIME_KEY:
                raise _Uncommon
            if count == 8 and data[pos : pos + 22] == _PARTITION_KEY:
                start = pos + 23
                pos = start + data[pos + 22]
                key = data[start:pos].decode()
                count = 6
            if pos != stop or count != 6:
                raise _Uncommon
        elif section == PROPERTIES and code == 0xC0 and not system_kinds:
            stop = pos + 5 + data[pos + 4]
            if stop > end:
                raise _Uncommon
            fields, system, system_kinds = _bare(data, pos + 6, stop, data[pos + 5])
            message_id, correlation_id, content_type = fields
            pos = stop
        elif section in (HEADER, DELIVERY_ANNOTATIONS, FOOTER):
            pos = skip(data, pos + 3, end)
        else:
            raise _Uncommon
    if pos != end or number is None or body is None:
        raise _Uncommon
    return (
        number, offset, milliseconds, key, body, names, names.values(), kinds, system, system.values(), system_kinds,
        content_type, message_id, correlation_id,
    )  # fmt: skip


_names: dict[bytes, str] = {}


def _name(raw: bytes) -> str:
    """A string for bytes that come again and again."""
    found = _names[raw] = raw.decode()
    if len(_names) > _MAX_NAMES:
        _names.clear()
    return found


def _texts(data: bytes, pos: int, stop: int, count: int) -> tuple[dict[str, str], bytearray]:
    """A map with texts as keys: its values as texts, and what they were."""
    found: dict[str, str] = {}
    kinds = bytearray()
    while pos < stop:
        if data[pos] != 0xA1 and data[pos] != 0xA3:
            raise _Uncommon
        start = pos + 2
        pos = start + data[pos + 1]
        raw = data[start:pos]
        name = _names.get(raw) or _name(raw)
        code = data[pos]
        if code == 0xA1:
            start = pos + 2
            pos = start + data[pos + 1]
            text, kind = data[start:pos].decode(), _TEXT
        elif code == 0x81:
            text, kind = str(_I64(data, pos + 1)[0]), _INTEGER
            pos += 9
        elif code == 0x71:
            text, kind = str(_I32(data, pos + 1)[0]), _INTEGER
            pos += 5
        elif code in (0x54, 0x55):
            small = data[pos + 1]
            text, kind = str(small if small < 128 else small - 256), _INTEGER
            pos += 2
        else:
            value, pos = decode(data, pos, stop)
            text, kind = columns.entry(value)
        found[name] = text
        kinds.append(kind)
    if pos != stop or 2 * len(found) != count or len(kinds) != len(found):
        raise _Uncommon
    return found, kinds


def _bare(
    data: bytes, pos: int, stop: int, count: int
) -> tuple[tuple[str | None, str | None, str | None], dict[str, str], bytearray]:
    """The properties section: message id, correlation id and content type; the other fields; their kinds."""
    own: list[str | None] = [None] * len(_FIELDS)
    others: dict[str, str] = {}
    kinds = bytearray()
    for index in range(count):
        code = data[pos]
        if code == 0x40:
            pos += 1
            continue
        if code in (0xA1, 0xA3):
            start = pos + 2
            pos = start + data[pos + 1]
            text, kind = data[start:pos].decode(), Kind.TEXT
        else:
            value, pos = decode(data, pos, stop)
            if value is None:
                continue
            text, kind = columns.entry(value)
        if index in (_MESSAGE_ID, _CORRELATION_ID, _CONTENT_TYPE):
            own[index] = text
        else:
            name = _FIELDS[index]
            others[name] = text
            kinds.append(kind)
    if pos != stop:
        raise _Uncommon
    return (own[_MESSAGE_ID], own[_CORRELATION_ID], own[_CONTENT_TYPE]), others, kinds


# --- every shape ---


def _any(payload: bytes) -> Row:
    batch = EventRows()
    try:
        columns.append(batch, decode_message(payload))
    except FrameError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise FrameError(f"an event's annotations or body are not what Event Hubs sends: {error!r}") from None
    mine, system = batch.properties, batch.system_properties
    return (
        batch.sequence_numbers[0], batch.offsets[0], batch.enqueued_ms[0], batch.partition_keys[0], batch.bodies[0],
        mine.keys, mine.values, mine.kinds, system.keys, system.values, system.kinds,
        batch.content_types[0], batch.message_ids[0], batch.correlation_ids[0],
    )  # fmt: skip
