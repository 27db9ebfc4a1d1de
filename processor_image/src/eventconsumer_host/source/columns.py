"""Converts decoded AMQP messages to columns.

Properties become text: strings unchanged, all other types as JSON, so that no information is lost. The kind of each
value distinguishes 5 from "5". A binary becomes {"$binary": "<base64>"}, also if its bytes are UTF-8: publishers of
Kafka send header values as raw bytes (Microsoft, "Exchange events between consumers and producers that use different
protocols"). The times and durations of .NET publishers become {"$datetime-offset": …} and {"$timespan": …}. Strings and
symbols are plain bytes here, and timestamps are integers.

AMQP compares the keys of a map with their types; columns have texts. Of keys that are equal as text, the first keeps
its name, and the others get a mark: `k#2`, `k#3`.

A message without a body, such as a tombstone of Kafka, has the body None; an empty body is b"".
"""

import base64
import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.rows import Binary, DateTimeOffset, EventRows, FlatMap, PropertyKind, TimeSpan

SEQUENCE_NUMBER = b"x-opt-sequence-number"
OFFSET = b"x-opt-offset"
ENQUEUED_TIME = b"x-opt-enqueued-time"
PARTITION_KEY = b"x-opt-partition-key"
_OWN_COLUMNS = {SEQUENCE_NUMBER, OFFSET, ENQUEUED_TIME, PARTITION_KEY}
_OWN_FIELDS = {"message_id", "correlation_id", "content_type"}


class Properties(Protocol):
    """The bare message's properties section: a named tuple."""

    message_id: Any
    correlation_id: Any
    content_type: Any

    def _asdict(self) -> dict[str, Any]: ...


class Message(Protocol):
    """A decoded AMQP message of pyamqp."""

    message_annotations: Mapping[Any, Any] | None
    application_properties: Mapping[Any, Any] | None
    properties: Properties | None
    data: Sequence[bytes] | None
    sequence: Sequence[Any] | None
    value: Any


def to_batch(messages: Iterable[Message]) -> EventBatch:
    """The columns of messages of one partition, in the order of arrival."""
    rows = EventRows()
    for message in messages:
        append(rows, message)
    return EventBatch.of(rows)


def append(rows: EventRows, message: Message) -> None:
    """Append one message."""
    annotations = message.message_annotations or {}
    key = annotations.get(PARTITION_KEY)
    rows.sequence_numbers.append(int(annotations[SEQUENCE_NUMBER]))
    rows.offsets.append(as_text(annotations.get(OFFSET, b"")))
    rows.enqueued_ms.append(int(annotations.get(ENQUEUED_TIME) or 0))
    rows.partition_keys.append(None if key is None else as_text(key))
    rows.bodies.append(_body(message))
    _extend(rows.properties, (message.application_properties or {}).items())
    system = [item for item in annotations.items() if item[0] not in _OWN_COLUMNS] if len(annotations) > 3 else []
    properties = message.properties
    if properties is None:
        rows.content_types.append(None)
        rows.message_ids.append(None)
        rows.correlation_ids.append(None)
    else:
        rows.content_types.append(_optional(properties.content_type))
        rows.message_ids.append(_optional(properties.message_id))
        rows.correlation_ids.append(_optional(properties.correlation_id))
        fields = properties._asdict().items()
        system += [(name, value) for name, value in fields if value is not None and name not in _OWN_FIELDS]
    _extend(rows.system_properties, system)


def _body(message: Message) -> bytes | None:
    data = message.data
    if data:
        return data[0] if len(data) == 1 else b"".join(data)
    if message.sequence is not None:
        return as_text(list(message.sequence)).encode()
    if message.value is not None:
        return message.value if isinstance(message.value, bytes) else as_text(message.value).encode()
    return None


def _extend(column: FlatMap, items: Iterable[tuple[Any, Any]]) -> None:
    """Append one event's entries."""
    start = len(column.keys)
    for key, value in items:
        text, kind = entry(value)
        column.keys.append(as_text(key))
        column.values.append(text)
        column.kinds.append(kind)
    if len(set(column.keys[start:])) < len(column.keys) - start:
        column.keys[start:] = distinct(column.keys[start:])
    column.ends.append(len(column.keys))


def distinct(names: Sequence[str]) -> list[str]:
    """The names; each that repeats one gets a number that makes it another name."""
    taken, found, seen = set(names), list[str](), set[str]()
    for name in names:
        unique, count = name, 1
        while unique in seen or (count > 1 and unique in taken):
            count += 1
            unique = f"{name}#{count}"
        seen.add(unique)
        found.append(unique)
    return found


def entry(value: Any) -> tuple[str, PropertyKind]:
    """A property's value as text, and its kind."""
    if isinstance(value, Binary):
        return as_text(value), PropertyKind.BINARY
    if isinstance(value, bytes):
        try:
            return value.decode(), PropertyKind.TEXT
        except UnicodeDecodeError:
            return as_text(value), PropertyKind.BINARY
    if value is None:
        return as_text(value), PropertyKind.NULL
    if isinstance(value, DateTimeOffset | TimeSpan):
        return as_text(value), PropertyKind.TEXT
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return as_text(value), PropertyKind.INTEGER
    return as_text(value), PropertyKind.FLOAT if isinstance(value, float) else PropertyKind.TEXT


def _optional(value: Any) -> str | None:
    return None if value is None else as_text(value)


def as_text(value: Any) -> str:
    """A value as text: strings unchanged, other types as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        found = _plain(value)
        return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))
    if isinstance(value, UUID | Decimal):
        return str(value)
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """A value that JSON can represent."""
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            if not isinstance(value, Binary):
                return value.decode()
        return {"$binary": base64.b64encode(value).decode()}
    if isinstance(value, DateTimeOffset | TimeSpan):
        return {"$datetime-offset" if isinstance(value, DateTimeOffset) else "$timespan": str(value)}
    if isinstance(value, Mapping):
        names = distinct([as_text(key) for key in value])
        return {name: _plain(item) for name, item in zip(names, value.values(), strict=True)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
