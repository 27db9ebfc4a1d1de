"""Complete messages: every section and every type, in the form of `source.columns`."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eventconsumer_host.amqp.codec import FrameError, Room, decode, entries, skip

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)
"""Descriptors of a message's sections."""

_BODIES = (DATA, SEQUENCE, VALUE)
_SKIPPED = (HEADER, DELIVERY_ANNOTATIONS, FOOTER)  # no column has them
# Descriptors may also be symbols (OASIS, AMQP 1.0, part 3, section 3.2).
_SYMBOLS = {
    b"amqp:header:list": HEADER,
    b"amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    b"amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    b"amqp:properties:list": PROPERTIES,
    b"amqp:application-properties:map": APPLICATION_PROPERTIES,
    b"amqp:data:binary": DATA,
    b"amqp:amqp-sequence:list": SEQUENCE,
    b"amqp:amqp-value:*": VALUE,
    b"amqp:footer:map": FOOTER,
}


class BareProperties(NamedTuple):
    """The properties section; the names of the fields are those of `source.columns`."""

    message_id: Any = None
    user_id: Any = None
    to: Any = None
    subject: Any = None
    reply_to: Any = None
    correlation_id: Any = None
    content_type: Any = None
    content_encoding: Any = None
    absolute_expiry_time: Any = None
    creation_time: Any = None
    group_id: Any = None
    group_sequence: Any = None
    reply_to_group_id: Any = None


@dataclass(slots=True)
class DecodedMessage:
    """A message in the form of `source.columns`."""

    message_annotations: Mapping[Any, Any] | None
    application_properties: Mapping[Any, Any] | None
    properties: Any  # BareProperties, or None
    data: Sequence[bytes] | None
    sequence: Sequence[Any] | None
    value: Any


def decode_message(data: bytes) -> DecodedMessage:
    """Decode a complete message.

    Raises:
        FrameError: It is not a valid message.
    """
    found: dict[int, Any] = {}
    pos, end, room = 0, len(data), Room()
    while pos < end:
        section, pos = _section(data, pos, end)
        if section in _SKIPPED:
            pos = skip(data, pos, end)
            continue
        value, pos = decode(data, pos, end, room)
        if section in (DATA, SEQUENCE):
            found.setdefault(section, []).append(value)
        elif section in found:
            raise FrameError(f"message section {section:#04x} is repeated before byte {pos}")
        else:
            found[section] = value
    if sum(section in found for section in _BODIES) > 1:
        raise FrameError("a message has body sections of different types")
    fields = _checked(found.get(PROPERTIES), list)
    if fields is not None and len(fields) > len(BareProperties._fields):
        raise FrameError(f"the properties section has {len(fields)} fields, more than {len(BareProperties._fields)}")
    parts = [_checked(part, bytes) for part in found.get(DATA, ())]
    return DecodedMessage(
        _checked(found.get(MESSAGE_ANNOTATIONS), dict),
        _checked(found.get(APPLICATION_PROPERTIES), dict),
        None if fields is None else BareProperties(*fields),
        [part for part in parts if part is not None] or None,
        found.get(SEQUENCE),
        found.get(VALUE),
    )


def delivery_annotations(data: bytes) -> Mapping[Any, Any] | None:
    """The delivery annotations of a message; the rest is not decoded.

    Raises:
        FrameError: It is not a valid message up to there.
    """
    pos, end = 0, len(data)
    while pos < end and data[pos] == 0:
        section, pos = _section(data, pos, end)
        if section == DELIVERY_ANNOTATIONS:
            value, _ = decode(data, pos, end)
            return value if isinstance(value, dict) else None
        if section != HEADER:
            return None
        pos = skip(data, pos, end)
    return None


def readable_annotations(data: bytes) -> Mapping[Any, Any]:
    """The message annotations of a message that cannot be decoded, without those that cannot be decoded either."""
    found: dict[Any, Any] = {}
    pos, end = 0, len(data)
    try:
        while pos < end:
            section, pos = _section(data, pos, end)
            if section != MESSAGE_ANNOTATIONS:
                pos = skip(data, pos, end)
                continue
            for at, after in entries(data, pos, end):
                with contextlib.suppress(FrameError):
                    name, _ = decode(data, at, after)
                    if isinstance(name, bytes) and name not in found:
                        found[name], _ = decode(data, skip(data, at, after), after)
            break
    except FrameError:  # the remaining bytes are not readable
        pass
    return found


def _section(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The section at `pos`, and the position of its value."""
    if data[pos]:
        raise FrameError(f"a message section must start with a descriptor, byte {pos} is {data[pos]:#04x}")
    descriptor, after = decode(data, pos + 1, end)
    section = _SYMBOLS.get(descriptor) if isinstance(descriptor, bytes) else descriptor
    if not isinstance(section, int) or not HEADER <= section <= FOOTER:
        raise FrameError(f"unknown message section {str(descriptor)[:100]} at byte {pos}")
    return section, after


def _checked(value: Any, kind: type) -> Any:
    if value is not None and not isinstance(value, kind):
        raise FrameError(f"a message section has a {type(value).__name__} instead of a {kind.__name__}")
    return value
