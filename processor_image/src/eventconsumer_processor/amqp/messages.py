"""Complete messages: every section and every type, in the form of `source.columns`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eventconsumer_processor.amqp.codec import FrameError, decode

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = range(0x70, 0x75)
DATA, SEQUENCE, VALUE, FOOTER = range(0x75, 0x79)
"""Descriptors of a message's sections."""


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
    pos, end = 0, len(data)
    while pos < end:
        if data[pos]:
            raise FrameError(f"a message section must start with a descriptor, byte {pos} is {data[pos]:#04x}")
        section, pos = decode(data, pos + 1, end)
        value, pos = decode(data, pos, end)
        if section in (DATA, SEQUENCE):
            found.setdefault(section, []).append(value)
        elif isinstance(section, int):
            found[section] = value
    fields = found.get(PROPERTIES)
    return DecodedMessage(
        _checked(found.get(MESSAGE_ANNOTATIONS), dict),
        _checked(found.get(APPLICATION_PROPERTIES), dict),
        None if fields is None else BareProperties(*_checked(fields, list)[: len(BareProperties._fields)]),
        [_checked(part, bytes) or b"" for part in found[DATA]] if DATA in found else None,
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
        section, pos = decode(data, pos + 1, end)
        if section not in (HEADER, DELIVERY_ANNOTATIONS):
            return None
        value, pos = decode(data, pos, end)
        if section == DELIVERY_ANNOTATIONS:
            return value if isinstance(value, dict) else None
    return None


def _checked(value: Any, kind: type) -> Any:
    if value is not None and not isinstance(value, kind):
        raise FrameError(f"a message section has a {type(value).__name__} instead of a {kind.__name__}")
    return value
