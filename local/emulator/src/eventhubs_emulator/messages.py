"""A message as sections of raw bytes: split by sizes, never decoded as a whole.

The emulator stores the sent bytes. Publishing reads only the message annotations (for the partition key); the
service's own annotations are written once, when the event is enqueued, and the bytes are then sent to every reader
unchanged. The sender's delivery annotations are for one hop and are dropped. Sections stay in the order in which
clients expect them: header, delivery annotations, message annotations, properties, application properties, body,
footer.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from .codec import decode, encode, skip
from .errors import DecodeError
from .values import Described, Symbol, Timestamp, ULong

BATCH_FORMAT = 0x80013700
"""The message format of a batch: one data section for each inner message."""

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = 0x70, 0x71, 0x72, 0x73, 0x74
DATA, SEQUENCE, VALUE, FOOTER = 0x75, 0x76, 0x77, 0x78

PARTITION_KEY = "x-opt-partition-key"
_SYSTEM = frozenset(("x-opt-sequence-number", "x-opt-offset", "x-opt-enqueued-time", PARTITION_KEY))
_SEQUENCE_NUMBER = encode(Symbol("x-opt-sequence-number")) + b"\x81"
_OFFSET = encode(Symbol("x-opt-offset")) + b"\xa1"
_ENQUEUED_TIME = encode(Symbol("x-opt-enqueued-time")) + b"\x83"
_INT64 = struct.Struct(">q").pack
_TWO_U32 = struct.Struct(">II").pack


def sections(data: bytes) -> list[tuple[int, int, int]]:
    """Splits a message into sections.

    Args:
        data: an encoded message.

    Returns:
        For each section its code, and start and end of its value (after the descriptor).

    Raises:
        DecodeError: not a sequence of sections.
    """
    found = []
    pos, end = 0, len(data)
    while pos < end:
        if data[pos] != 0:
            raise DecodeError(f"a message section must start with a descriptor, byte {pos} is {data[pos]:#04x}")
        if data[pos + 1 : pos + 2] == b"\x53" and pos + 2 < end:
            code, start = data[pos + 2], pos + 3
        else:
            descriptor, start = decode(data, pos + 1, end)
            if not isinstance(descriptor, ULong):
                raise DecodeError(f"the message section at byte {pos} is described by {descriptor!r}, not by a number")
            code = int(descriptor)
        if not HEADER <= code <= FOOTER:
            raise DecodeError(f"{code:#x} at byte {pos} is not a message section")
        pos = skip(data, start, end)
        found.append((code, start, pos))
    return found


class Event(NamedTuple):
    """A message in its stored form, without the partition's annotations.

    Attributes:
        header: the raw header section, or empty.
        annotations: the sender's message annotations, encoded key after value, without the service's own.
        annotation_count: number of keys and values in ``annotations``.
        rest: every section after the message annotations, raw.
        key: the partition key, or None.
    """

    header: bytes
    annotations: bytes
    annotation_count: int
    rest: bytes
    key: str | None

    def annotated(self, sequence_number: int, offset: str, enqueued_ms: int) -> tuple[bytes, int]:
        """The message as readers get it.

        Returns:
            The bytes, and the position of delivery annotations in them.
        """
        body = (
            _SEQUENCE_NUMBER
            + _INT64(sequence_number)
            + _OFFSET
            + bytes((len(offset),))
            + offset.encode()
            + _ENQUEUED_TIME
            + _INT64(enqueued_ms)
        )
        count = 6
        if self.key is not None:
            body += _KEY + encode(self.key)
            count += 2
        if self.annotation_count:
            body += self.annotations
            count += self.annotation_count
        size = len(body)
        if size < 255 and count < 256:
            head = b"\x00\x53\x72\xc1" + bytes((size + 1, count))
        else:
            head = b"\x00\x53\x72\xd1" + _TWO_U32(size + 4, count)
        return b"".join((self.header, head, body, self.rest)), len(self.header)


_KEY = encode(Symbol(PARTITION_KEY))


def parse_event(data: bytes, key: str | None = None) -> Event:
    """Reads one message.

    Args:
        data: the encoded message.
        key: the partition key of its batch; None: use the message's own key.

    Raises:
        DecodeError: the bytes are not a message with a body.
    """
    header = annotations = b""
    count, body = 0, False
    rest = []
    for code, start, stop in sections(data):
        if code == HEADER:
            header = b"\x00\x53\x70" + data[start:stop]
        elif code == MESSAGE_ANNOTATIONS:
            own, annotations, count = _read_annotations(data[start:stop])
            key = own if key is None else key
        elif code != DELIVERY_ANNOTATIONS:
            body = body or DATA <= code <= VALUE
            rest.append(b"\x00\x53" + bytes((code,)) + data[start:stop])
    if not body:
        # Event Hubs accepts an event without a body; readers expect at least an empty one.
        rest.append(b"\x00\x53\x75\xa0\x00")
    return Event(header, annotations, count, b"".join(rest), key)


def _read_annotations(raw: bytes) -> tuple[str | None, bytes, int]:
    # The events of a keyed batch all have the same annotations: read short ones once.
    return _short_annotations(raw) if len(raw) < 256 else _annotations(raw)


def _annotations(raw: bytes) -> tuple[str | None, bytes, int]:
    """A message annotations map: partition key, the sender's other entries re-encoded, and the number of parts."""
    fields, _ = decode(raw)
    if fields is None:
        return None, b"", 0
    if not isinstance(fields, dict):
        raise DecodeError("message annotations must be a map")
    found = fields.get(PARTITION_KEY)
    if isinstance(found, bytes):
        found = found.decode("utf-8", "replace")
    others = [encode(part) for pair in fields.items() if pair[0] not in _SYSTEM for part in pair]
    return (str(found) if found is not None else None), b"".join(others), len(others)


_short_annotations = lru_cache(maxsize=1024)(_annotations)


def parse_publication(data: bytes, message_format: int) -> list[Event]:
    """The events of one transfer: several if it is a batch.

    Raises:
        DecodeError: the bytes are not a message, or not a batch of messages.
    """
    if message_format != BATCH_FORMAT:
        return [parse_event(data)]
    key, inner = None, []
    for code, start, stop in sections(data):
        if code == MESSAGE_ANNOTATIONS:
            key, _, _ = _read_annotations(data[start:stop])
        elif code == DATA:
            message, _ = decode(data, start, stop)
            if not isinstance(message, bytes):
                raise DecodeError("a batch holds binary data sections only")
            inner.append(message)
    return [parse_event(message, key) for message in inner]


def encode_event(body: bytes, properties: dict[str, Any] | None = None, key: str | None = None) -> Event:
    """An event of the admin API, which no producer published.

    Args:
        body: the event's data.
        properties: application properties.
        key: the partition key.
    """
    parts = b""
    if properties:
        parts += encode(Described(ULong(APPLICATION_PROPERTIES), properties))
    return Event(b"", b"", 0, parts + encode(Described(ULong(DATA), body)), key)


@dataclass(frozen=True, slots=True)
class Request:
    """A decoded message to ``$cbs`` or ``$management``."""

    message_id: Any
    reply_to: str | None
    properties: dict[str, Any]
    body: Any


def parse_request(data: bytes) -> Request:
    """Decodes a complete request message.

    Raises:
        DecodeError: not a message, or its properties are invalid.
    """
    message_id = reply_to = body = None
    properties: dict[str, Any] = {}
    for code, start, stop in sections(data):
        if code in (PROPERTIES, APPLICATION_PROPERTIES, VALUE):
            value, _ = decode(data, start, stop)
            if code == VALUE:
                body = value
            elif code == PROPERTIES and isinstance(value, list):
                message_id = value[0] if value else None
                reply_to = value[4] if len(value) > 4 and isinstance(value[4], str) else None
            elif code == APPLICATION_PROPERTIES and isinstance(value, dict):
                properties = {str(name): entry for name, entry in value.items()}
            elif value is not None:
                raise DecodeError(f"message section {code:#x} has the wrong type")
    return Request(message_id, reply_to, properties, body)


def encode_response(correlation_id: Any, properties: dict[str, Any], body: Any) -> bytes:
    """A response message; the correlation id keeps the type that the request's message id had."""
    return b"".join(
        encode(Described(ULong(code), value))
        for code, value in (
            (PROPERTIES, [None, None, None, None, None, correlation_id]),
            (APPLICATION_PROPERTIES, properties),
            (VALUE, body),
        )
    )


def runtime_metrics(sequence_number: int, offset: str, enqueued_ms: int, now_ms: int) -> bytes:
    """The delivery annotations section with the runtime metrics of the partition."""
    values = {
        Symbol("last_enqueued_sequence_number"): sequence_number,
        Symbol("last_enqueued_offset"): offset,
        Symbol("last_enqueued_time_utc"): Timestamp(enqueued_ms),
        Symbol("runtime_info_retrieval_time_utc"): Timestamp(now_ms),
    }
    return encode(Described(ULong(DELIVERY_ANNOTATIONS), values))
