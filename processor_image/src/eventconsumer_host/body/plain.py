"""The parser of bodies in plain Python: what the compiled scanner gives, at many times its cost."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import repeat
from typing import Any

import pyarrow as pa

from eventconsumer_api.spec import json_columns as table
from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.json_columns import JsonKind, Rule
from eventconsumer_host.body.document import Number, Unreadable, read
from eventconsumer_host.body.plan import FAULTS, Array, Fault, Leaf, Map, Planned, Struct, Type, joined, plan, schema
from eventconsumer_host.body.plan import width as width_of

_KINDS: Mapping[type, JsonKind] = {
    str: JsonKind.STRING,
    Number: JsonKind.NUMBER,
    bool: JsonKind.BOOLEAN,
    dict: JsonKind.OBJECT,
    list: JsonKind.ARRAY,
}
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?)(\d+))?")
_DECIMAL = re.compile(table.DECIMAL_PATTERN, re.ASCII)
_DATE = re.compile(table.DATE_PATTERN, re.ASCII)
_INSTANT = re.compile(table.INSTANT_PATTERN, re.ASCII)
_TRUNCATED = re.compile(table.TRUNCATED_PATTERN, re.ASCII)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_OFFSET_MAX = 18 * 60  # minutes, of RFC 3339 as Java reads it
_QUOTED = re.compile(r'["\\\x00-\x1f]')
_ESCAPES: Mapping[str, str] = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


class _Misfit(Exception):
    """A value does not fit."""


class _TooMany(Exception):
    """A body has more values than one of its size may have."""


class _Room:
    """How many values the arrays and maps of a body may still have."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = table.VALUES_PER_BYTE_MAX * size + table.VALUES_MORE_MAX

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _TooMany


_Convert = Callable[[Any, _Room], Any]


class PlainBodyParser:
    """See `parser.BodyParser`."""

    def __init__(self, columns: Sequence[BodyColumn]) -> None:
        """Raises ValueError if a type is none of those that bodies can have."""
        self._schema = schema(columns)
        self._columns = [(each, _converter(each.type)) for each in plan(columns)]

    def parse(self, bodies: pa.BinaryArray) -> pa.RecordBatch:
        """See `parser.BodyParser`."""
        rows = [self._row(body) for body in bodies.to_pylist()]
        columns = zip(*rows, strict=True) if rows else repeat((), len(self._schema))
        arrays = [pa.array(column, kind) for column, kind in zip(columns, self._schema.types, strict=True)]
        return pa.record_batch(arrays, self._schema)

    def _row(self, body: bytes | None) -> list[Any]:
        """The values and the error of a body."""
        try:
            found = {} if body is None else read(body)
            if not isinstance(found, dict):
                raise Unreadable(Fault.NO_OBJECT)
        except Unreadable as error:
            return [*(None for _ in self._columns), FAULTS[error.args[0]]]
        room = _Room(len(body or b""))
        row: list[Any] = []
        errors: list[str] = []
        for column, convert in self._columns:
            value, left = None, room.left
            try:
                value = _column(column, convert, found, room)
            except _Error as error:
                errors.append(error.args[0])
                room.left = left
            row.append(value)
        return [*row, joined(errors) if errors else None]


class _Error(Exception):
    """A column has no value; its argument is the error."""


def _column(column: Planned, convert: _Convert, found: Any, room: _Room) -> Any:
    """The value of a column."""
    for name in column.path:
        if found is None:
            break
        if not isinstance(found, dict):
            raise _Error(column.blocked[_kind(found)])
        found = found.get(name)
    if found is None:
        if column.required:
            raise _Error(column.absent)
        return None
    try:
        return convert(found, room)
    except _Misfit:
        raise _Error(column.misfits[_kind(found)]) from None
    except _TooMany:
        raise _Error(column.too_many) from None


def _kind(value: Any) -> JsonKind:
    return _KINDS[type(value)]


def _need(fits: object) -> None:
    if not fits:
        raise _Misfit


def _converter(wanted: Type) -> _Convert:
    """What makes a value of a type of a value that is not null."""
    match wanted:
        case Leaf():
            return _leaf(wanted)
        case Struct(fields):
            return _struct([(name, _converter(each)) for name, each in fields])
        case Array(element):
            return _array(_converter(element), width_of(element))
        case Map(value):
            return _map(_converter(value), width_of(value))


def _struct(fields: Sequence[tuple[str, _Convert]]) -> _Convert:
    def convert(value: Any, room: _Room) -> Any:
        _need(isinstance(value, dict))
        # In the document's order, as the compiled scanner: the first value that does not fit tells the error.
        own = dict(fields)
        made = {name: own[name](each, room) for name, each in value.items() if name in own and each is not None}
        return {name: made.get(name) for name in own}

    return convert


def _array(element: _Convert, width: int) -> _Convert:
    def convert(value: Any, room: _Room) -> Any:
        _need(isinstance(value, list))
        made = []
        for each in value:
            room.take(width)
            made.append(None if each is None else element(each, room))
        return made

    return convert


def _map(entry: _Convert, width: int) -> _Convert:
    def convert(value: Any, room: _Room) -> Any:
        _need(isinstance(value, dict))
        made = []
        for name, each in value.items():
            room.take(width)
            made.append((name, None if each is None else entry(each, room)))
        return made

    return convert


def _leaf(wanted: Leaf) -> _Convert:
    rules = {kind: _RULES[rule] for kind, rule in wanted.rules.items()}

    def convert(value: Any, room: _Room) -> Any:
        rule = rules.get(_kind(value))
        if rule is None:
            raise _Misfit
        return rule(value, wanted)

    return convert


def _same(value: Any, _: Leaf) -> Any:
    return value


def _digits(value: str, _: Leaf) -> str:
    return _plain_number(value)


def _word(value: bool, _: Leaf) -> str:
    return "true" if value else "false"


def _text(value: Any, wanted: Leaf) -> str:
    """The text of an object or array. Without recursion: a document may be deeper than Python's stack."""
    made: list[str] = []
    left: list[Any] = [value]  # values, and bytes that are text already
    while left:
        each = left.pop()
        match each:
            case bytes():
                made.append(each.decode())
            case dict():
                names = sorted(each, key=lambda name: name.encode("utf-16-be"))
                parts = [(f"{',' if number else '{'}{_quoted(name)}:", each[name]) for number, name in enumerate(names)]
                left.extend(_reversed(parts, "}" if parts else "{}"))
            case list():
                parts = [("," if number else "[", item) for number, item in enumerate(each)]
                left.extend(_reversed(parts, "]" if parts else "[]"))
            case Number():
                made.append(_plain_number(each))
            case str():
                made.append(_quoted(each))
            case _:
                made.append("null" if each is None else _word(each, wanted))
    return "".join(made)


def _reversed(parts: Iterable[tuple[str, Any]], end: str) -> list[Any]:
    """Texts, each with a value behind it, and the end, for a stack."""
    return [each for text, value in (*parts, (end, b"")) for each in (text.encode(), value)][::-1]


def _quoted(text: str) -> str:
    return '"' + _QUOTED.sub(_escaped, text) + '"'


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0]) or f"\\u{ord(found[0]):04X}"


def _plain_number(value: str) -> str:
    """The digits of a number, without zeros at the end of the fraction."""
    sign, whole, fraction, _, exponent = _parts(value)
    _need(not exponent)
    fraction = fraction.rstrip("0")
    text = f"{whole}.{fraction}" if fraction else whole
    return sign + text if text != "0" else text


def _parts(value: str) -> tuple[str, str, str, str, str]:
    found = _NUMBER.fullmatch(value)
    _need(found)
    assert found  # noqa: S101 - for mypy
    sign, whole, fraction, exponent_sign, exponent = (part or "" for part in found.groups())
    if exponent:
        _need(len(whole) + len(fraction) <= table.EXPONENT_DIGITS_MAX and len(exponent) <= len(str(table.EXPONENT_MAX)))
    else:
        _need((len(whole) if whole != "0" else 0) + len(fraction) <= table.DIGITS_MAX)
    return sign, whole, fraction, exponent_sign, exponent


def _scaled(value: str, scale: int) -> int:
    """A number times 10^scale, which must be whole."""
    sign, whole, fraction, exponent_sign, exponent = _parts(value)
    number = int(sign + whole + fraction)
    power = scale - len(fraction) + int(exponent_sign + (exponent or "0"))
    factor: int = 10 ** abs(power)
    if power >= 0:
        return number * factor
    _need(number % factor == 0)
    return number // factor


def _whole(value: str, _: Leaf) -> int:
    number = _scaled(value, 0)
    _need(-(2**63) <= number < 2**63)
    return number


def _decimal(value: str, wanted: Leaf) -> Decimal:
    return _of_scaled(_scaled(value, wanted.scale), wanted)


def _decimal_text(value: str, wanted: Leaf) -> Decimal:
    _need(_DECIMAL.fullmatch(value))
    whole, _, fraction = value.partition(".")
    fraction = fraction.rstrip("0")
    _need(len(whole) <= table.DIGITS_MAX + 1 and len(fraction) <= wanted.scale)
    return _of_scaled(int(whole + fraction.ljust(wanted.scale, "0")), wanted)


def _of_scaled(number: int, wanted: Leaf) -> Decimal:
    _need(abs(number) < 10**wanted.precision)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -wanted.scale))


def _nearest(value: str, _: Leaf) -> float:
    number = float(value)
    _need(math.isfinite(number))
    return number or 0.0  # not -0.0


def _date(value: str, _: Leaf) -> date:
    _need(_DATE.fullmatch(value))
    return date.fromordinal(_EPOCH_DAY + _day(value))


def _day(value: str) -> int:
    try:
        return date(int(value[:4]), int(value[5:7]), int(value[8:10])).toordinal() - _EPOCH_DAY
    except ValueError:
        raise _Misfit from None


def _instant(value: str, _: Leaf) -> int:
    return _micros(_INSTANT.fullmatch(value))


def _truncated(value: str, _: Leaf) -> int:
    return _micros(_TRUNCATED.fullmatch(value))


def _micros(found: re.Match[str] | None) -> int:
    _need(found)
    assert found  # noqa: S101 - for mypy
    text, (fraction, offset) = found[0], found.groups()
    hour, minute, second = int(text[11:13]), int(text[14:16]), int(text[17:19])
    _need(hour < 24 and minute < 60 and second < 60)
    seconds = ((_day(text) * 24 + hour) * 60 + minute) * 60 + second
    if offset and offset != "Z":
        minutes = int(offset[1:3]) * 60 + int(offset[4:6])
        _need(int(offset[4:6]) < 60 and minutes <= _OFFSET_MAX)
        seconds -= 60 * (minutes if offset[0] == "+" else -minutes)
    return _in_range(seconds * 1_000_000 + int((fraction or ".")[1:7].ljust(6, "0")))


def _epoch(value: str, wanted: Leaf) -> int:
    return _in_range(_scaled(value, wanted.scale))


def _in_range(micros: int) -> int:
    _need(table.FIRST_MICROS <= micros <= table.LAST_MICROS)
    return micros


_RULES: Mapping[Rule, Callable[[Any, Leaf], Any]] = {
    Rule.CHARACTERS: _same,
    Rule.DIGITS: _digits,
    Rule.WORD: _word,
    Rule.TEXT: _text,
    Rule.SAME: _same,
    Rule.WHOLE: _whole,
    Rule.DECIMAL: _decimal,
    Rule.DECIMAL_TEXT: _decimal_text,
    Rule.NEAREST: _nearest,
    Rule.DATE: _date,
    Rule.INSTANT: _instant,
    Rule.TRUNCATED: _truncated,
    Rule.EPOCH: _epoch,
}
