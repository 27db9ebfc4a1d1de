"""Events of every section and every type, and the values that their files must have.

Proton encodes each form once. An event is a form with its number in place of the mark: so a hundred thousand events
take seconds, and each has another body. The expected values are written here by hand.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from proton import (
    UNDESCRIBED,
    Array,
    Data,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from tests.support.peer import codec
from tests.support.peer.codec import section
from tests.support.peer.hub import Event

MARK = "000000000000"
"""The place of the number, as many digits."""
_UUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def binary_text(data: bytes) -> str:
    """The text of a binary, which differs from that of a string of the same bytes."""
    return f'{{"$binary":"{base64.b64encode(data).decode()}"}}'


SCALARS: list[tuple[str, Any, str]] = [
    ("null", None, "null"),
    ("true", True, "true"),
    ("false", False, "false"),
    ("ubyte", ubyte(200), "200"),
    ("ushort", ushort(60000), "60000"),
    ("uint", uint(4_000_000_000), "4000000000"),
    ("uint, small", uint(7), "7"),
    ("uint, zero", uint(0), "0"),
    ("ulong", ulong(2**64 - 1), "18446744073709551615"),
    ("ulong, small", ulong(200), "200"),
    ("ulong, zero", ulong(0), "0"),
    ("byte", byte(-100), "-100"),
    ("short", short(-30000), "-30000"),
    ("int", int32(-(2**31)), "-2147483648"),
    ("int, small", int32(-5), "-5"),
    ("long", -(2**63), "-9223372036854775808"),
    ("long, small", 5, "5"),
    ("float", float32(1.5), "1.5"),
    ("double", 0.1, "0.1"),
    ("decimal32", decimal32(0xFF000001), '{"$binary":"/wAAAQ=="}'),
    ("decimal64", decimal64(0xFF00000000000001), '{"$binary":"/wAAAAAAAAE="}'),
    ("decimal128", decimal128(b"\xff" + bytes(14) + b"\x01"), '{"$binary":"/wAAAAAAAAAAAAAAAAAAAQ=="}'),
    ("char", char("€"), "€"),
    ("timestamp", timestamp(1_700_000_000_123), "1700000000123"),
    ("uuid", _UUID, str(_UUID)),
    ("binary", b"\xff\xfe", '{"$binary":"//4="}'),
    ("binary, text", b"plain", binary_text(b"plain")),
    ("string", "ä€😀", "ä€😀"),
    ("string, empty", "", ""),
    ("string, long", "x" * 300, "x" * 300),
    ("symbol", symbol("sym"), "sym"),
    ("number", MARK, MARK),
]
"""Name, value and text."""

COMPOUNDS: list[tuple[str, Any, str]] = [
    ("list", [1, "two", None, [3.5, True]], '[1,"two",null,[3.5,true]]'),
    ("list, empty", [], "[]"),
    ("map", {"a": 1, "b": [symbol("c")]}, '{"a":1,"b":["c"]}'),
    ("array", Array(UNDESCRIBED, Data.INT, 1, -2, 300), "[1,-2,300]"),
    ("array of symbols", Array(UNDESCRIBED, Data.SYMBOL, symbol("a"), symbol("b")), '["a","b"]'),
    (
        "array of booleans",
        Array(UNDESCRIBED, Data.BOOL, *[True, False] * 10),
        "[" + ",".join(["true,false"] * 10) + "]",
    ),
]

_RAW = {
    "binary": b"\xff\xfe",
    "binary, text": b"plain",
    "decimal32": b"\xff\x00\x00\x01",
    "decimal64": b"\xff" + bytes(6) + b"\x01",
    "decimal128": b"\xff" + bytes(14) + b"\x01",
}
"""Bodies of values that are not the text."""

_FIELDS: list[tuple[str, Any, str]] = [
    ("message_id", "id-" + MARK, "id-" + MARK),
    ("user_id", b"user", binary_text(b"user")),
    ("to", "amqps://to", "amqps://to"),
    ("subject", "subject ä", "subject ä"),
    ("reply_to", "reply", "reply"),
    ("correlation_id", "correlation-" + MARK, "correlation-" + MARK),
    ("content_type", symbol("application/json"), "application/json"),
    ("content_encoding", symbol("gzip"), "gzip"),
    ("absolute_expiry_time", timestamp(1_800_000_000_000), "1800000000000"),
    ("creation_time", timestamp(1_600_000_000_000), "1600000000000"),
    ("group_id", "group", "group"),
    ("group_sequence", uint(9), "9"),
    ("reply_to_group_id", "reply group", "reply group"),
]
_OWN = ("message_id", "correlation_id", "content_type")


@dataclass(frozen=True, slots=True)
class Form:
    """A form of events, with the values of its columns; texts hold `MARK`."""

    event: Event
    body: bytes | None
    properties: tuple[tuple[str, str], ...] = ()
    system: tuple[tuple[str, str], ...] = ()
    message_id: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None

    def numbered(self, number: int) -> Event:
        """The event with a number."""
        event = self.event
        mark = b"%012d" % number
        return Event(event.sections.replace(MARK.encode(), mark), event.before, event.key, event.annotations)


def _data(text: str = MARK) -> bytes:
    return section(codec.DATA, text.encode())


def _bodies() -> Iterator[Form]:
    for data in (MARK, "", "x" * 300 + MARK, MARK + "y" * 70_000):
        yield Form(Event(_data(data)), data.encode())
    yield Form(Event(_data("a") + _data(MARK) + _data("")), b"a" + MARK.encode())
    yield Form(Event(section(codec.DATA, b"\x00\xff" + MARK.encode())), b"\x00\xff" + MARK.encode())
    yield Form(Event(b""), None)
    sequence = section(codec.SEQUENCE, [1, MARK])
    yield Form(Event(sequence), f'[[1,"{MARK}"]]'.encode())
    yield Form(Event(sequence + section(codec.SEQUENCE, [None])), f'[[1,"{MARK}"],[null]]'.encode())
    for name, value, text in SCALARS + COMPOUNDS:
        body = None if value is None else _RAW.get(name, text.encode())
        yield Form(Event(section(codec.VALUE, value)), body)


def _properties() -> Iterator[Form]:
    names = [name for name, _, _ in _FIELDS]
    values = [value for _, value, _ in _FIELDS]
    for count in range(len(_FIELDS) + 1):
        found = {name: text for name, _, text in _FIELDS[:count]}
        own = {name: found.pop(name, None) for name in _OWN}
        encoded = section(codec.PROPERTIES, values[:count]) + _data()
        yield Form(Event(encoded), MARK.encode(), (), tuple(found.items()), **own)
    for identifier, text in (
        (ulong(5), "5"),
        (_UUID, str(_UUID)),
        *((raw, binary_text(raw)) for raw in (b"\xff", b"raw")),
    ):
        fields: list[Any] = [None] * len(names)
        fields[0] = fields[5] = identifier
        encoded = section(codec.PROPERTIES, fields) + _data()
        yield Form(Event(encoded), MARK.encode(), message_id=text, correlation_id=text)


def _application_properties() -> Iterator[Form]:
    for name, value, text in SCALARS + COMPOUNDS:
        properties = {"before": 1, name: value, "behind": MARK}
        encoded = section(codec.APPLICATION_PROPERTIES, properties) + _data()
        yield Form(Event(encoded), MARK.encode(), (("before", "1"), (name, text), ("behind", MARK)))
    many = {f"name-{number}": number for number in range(200)}
    encoded = section(codec.APPLICATION_PROPERTIES, many) + _data()
    yield Form(Event(encoded), MARK.encode(), tuple((name, str(number)) for name, number in many.items()))


def _annotations() -> Iterator[Form]:
    for name, value, text in SCALARS[:-1] + COMPOUNDS:
        event = Event(_data(), annotations=((f"x-{name}", value),))
        yield Form(event, MARK.encode(), (), ((f"x-{name}", text),))
    yield Form(Event(_data(), key="blue"), MARK.encode())
    yield Form(Event(_data(), key="€" * 40), MARK.encode())
    yield Form(Event(_data(), key="", annotations=(("x-opt-other", 1),)), MARK.encode(), (), (("x-opt-other", "1"),))


def _other_sections() -> Iterator[Form]:
    header = section(codec.HEADER, [True, ubyte(4), uint(1000), False, uint(3)])
    delivery = section(codec.DELIVERY_ANNOTATIONS, {symbol("x-hop"): [1, {"deep": b"\xff"}]})
    footer = section(codec.FOOTER, {symbol("x-sum"): b"\x00\x01"})
    for before in (header, delivery, header + delivery):
        yield Form(Event(_data() + footer, before), MARK.encode())
    all_fields = {name: text for name, _, text in _FIELDS}
    own = {name: all_fields.pop(name) for name in _OWN}
    encoded = (
        section(codec.PROPERTIES, [value for _, value, _ in _FIELDS])
        + section(codec.APPLICATION_PROPERTIES, {name: value for name, value, _ in SCALARS})
        + _data()
        + footer
    )
    event = Event(encoded, header + delivery, "key", (("x-own", "annotation"),))
    properties = tuple((name, text) for name, _, text in SCALARS)
    yield Form(event, MARK.encode(), properties, (("x-own", "annotation"), *all_fields.items()), **own)
    # As Event Hubs gives events that were produced by Kafka: the values of headers are bytes.
    # https://learn.microsoft.com/azure/event-hubs/event-hubs-exchange-events-different-protocols
    headers = section(codec.APPLICATION_PROPERTIES, {"trace": b"00-ab", "number": b"\x00\x00\x00\x07", "none": None})
    kafka = (("trace", binary_text(b"00-ab")), ("number", binary_text(b"\x00\x00\x00\x07")), ("none", "null"))
    yield Form(Event(headers + _data(), key="kafka key"), MARK.encode(), kafka)


FORMS: tuple[Form, ...] = (
    *_bodies(),
    *_properties(),
    *_application_properties(),
    *_annotations(),
    *_other_sections(),
)


def events(count: int, start: int = 0) -> list[Event]:
    """So many events, of all forms in turn."""
    return [FORMS[number % len(FORMS)].numbered(number) for number in range(start, start + count)]


def expected(count: int, start: int = 0) -> dict[str, list[Any]]:
    """The columns of their files, without those that the partition gives."""
    columns: dict[str, list[Any]] = {
        name: []
        for name in (
            "partition_key",
            "body",
            "properties",
            "system_properties",
            "content_type",
            "message_id",
            "correlation_id",
        )
    }
    for number in range(start, start + count):
        form, mark = FORMS[number % len(FORMS)], f"{number:012d}"
        columns["partition_key"].append(form.event.key)
        columns["body"].append(form.body and form.body.replace(MARK.encode(), mark.encode()))
        columns["properties"].append([(name, text.replace(MARK, mark)) for name, text in form.properties])
        columns["system_properties"].append([(name, text.replace(MARK, mark)) for name, text in form.system])
        columns["content_type"].append(form.content_type)
        for name in ("message_id", "correlation_id"):
            text = getattr(form, name)
            columns[name].append(text and text.replace(MARK, mark))
    return columns
