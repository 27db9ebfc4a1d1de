"""What becomes of JSON in typed columns, by Python's own `json`, `decimal` and `datetime`.

It is written from the table of conversions (docs/reference/json-columns.md), without the code of any parser: hosts and
Spark's program are compared with it. Values are Python's: a STRUCT is a tuple, a MAP a dict, a TIMESTAMP its number of
microseconds since 1970, UTC.
"""

import base64
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.column_types import DeltaType
from eventconsumer_api.spec.json_columns import TimeForm

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEVELS = 999


class Misfit(ValueError):
    """A value does not fit."""


class Number(str):
    """A number of a document, as it is written."""

    __slots__ = ()


def need(fits: Any) -> None:
    if not fits:
        raise Misfit


# --- documents -------------------------------------------------------------------------------------------------------


def parsed(body: bytes) -> Any:
    """The document, numbers as they are written.

    Raises:
        ValueError: It is none.
    """
    text = body.decode()
    depth = deepest = 0
    for mark in re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL):
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    need(deepest <= LEVELS)
    options = {"object_pairs_hook": pairs, "parse_constant": constant, "parse_int": number, "parse_float": number}
    with deep():
        found = json.loads(text, **options)
        json.dumps(found, ensure_ascii=False).encode()  # UnicodeEncodeError: half of a surrogate pair
    return found


@contextmanager
def deep() -> Iterator[None]:
    """Python's own parser is recursive."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 6 * LEVELS)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len(dict(found)) == len(found))
    need(all(len(name) <= 50_000 for name, _ in found))
    return dict(found)


def constant(_: str) -> None:
    raise Misfit


def number(text: str) -> Number:
    need(len(re.findall("[0-9]", text)) <= 1000)
    return Number(text)


# --- values ----------------------------------------------------------------------------------------------------------


def exact(value: Any) -> Decimal:
    """A number of which a type that is exact can have the value."""
    need(isinstance(value, Number))
    digits, _, exponent = value.lower().lstrip("-").partition("e")
    if exponent:
        need(len(digits.replace(".", "")) <= 15 and len(exponent.lstrip("+-")) <= 2)
    else:
        need(len(re.sub(r"^0(?=\.|$)", "", digits).replace(".", "")) <= 38)
    return Decimal(value)


def whole(bits: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        number = exact(value)
        need(number.adjusted() < 40 and number == int(number) and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1))
        return int(number)

    return convert


def decimal(digits: int, scale: int) -> Callable[[Any], Decimal]:
    def convert(value: Any) -> Decimal:
        if isinstance(value, Number):
            number = exact(value)
        else:
            need(isinstance(value, str) and re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", value))
            number = Decimal(value)
        need(number.is_zero() or number.adjusted() < 50)
        need(number % Decimal(1).scaleb(-scale) == 0 and abs(number) < Decimal(10) ** (digits - scale))
        return number

    return convert


def nearest(value: Any) -> float:
    need(isinstance(value, Number))
    need(math.isfinite(float(value)))
    return float(value) + 0.0  # -0 is 0


def nearest_single(value: Any) -> float:
    number = Fraction(exact(value))
    with numpy.errstate(over="ignore"):
        near = numpy.float32(float(number)) if abs(number) < 10**40 else numpy.float32(math.inf)
        around = [near, numpy.nextafter(near, numpy.float32(-math.inf)), numpy.nextafter(near, numpy.float32(math.inf))]
    finite = [each for each in around if numpy.isfinite(each)]
    best = min(finite, key=lambda each: (abs(Fraction(float(each)) - number), each.view(numpy.int32) & 1), default=None)
    need(best is not None and abs(number) < Fraction(2**128 - 2**103))
    return float(best)


def as_string(value: Any) -> str:
    """The characters of a string; of another value, its text."""
    return value if type(value) is str else text(value)


def text(value: Any) -> str:
    match value:
        case dict():
            named = sorted(value.items(), key=lambda each: each[0].encode("utf-16-be"))  # as Java compares
            return f"{{{','.join(f'{text(name)}:{text(each)}' for name, each in named)}}}"
        case list():
            return f"[{','.join(map(text, value))}]"
        case Number():
            need("e" not in value.lower())
            return format(exact(value).normalize() + 0, "f")
    quoted = json.dumps(value, ensure_ascii=False)
    return re.sub(r"\\u00..", lambda found: r"\u" + found[0][2:].upper(), quoted) if "\\u00" in quoted else quoted


def day(value: Any) -> date:
    need(type(value) is str and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value))
    return date.fromisoformat(value)


def clock(value: Any, offset: str) -> datetime:
    need(type(value) is str)
    short = re.sub(r"(\.[0-9]{6})0+(?![0-9])", r"\1", value)
    found = re.fullmatch(rf"([0-9-]{{10}}[T ][0-9]{{2}}(?::[0-9]{{2}}){{2}}(?:\.[0-9]{{1,6}})?)({offset})", short)
    need(found)
    assert found
    need(not found[2] or found[2] == "Z" or found[2][1:] <= "18:00")
    return datetime.fromisoformat(found[1] + found[2])


def micros(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def instant(value: Any) -> int:
    time = clock(value, "|Z|[+-][0-9]{2}:[0-5][0-9]")
    return micros(time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC))


def truncated(value: Any) -> int:
    need(type(value) is str and not re.search(r"\.[0-9]{13}", value))
    return instant(re.sub(r"(\.[0-9]{6})[0-9]{0,6}(?![0-9])", r"\1", value))


def epoch(per_second: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        number = exact(value) * (1_000_000 // per_second)
        need(number.is_zero() or abs(number.adjusted()) < 30)
        need(number == int(number) and -62_135_596_800_000_000 <= number <= 253_402_300_799_999_999)
        return int(number)

    return convert


def raw(value: Any) -> bytes:
    need(type(value) is str)
    content = base64.b64decode(value, validate=True)
    need(base64.b64encode(content).decode() == value)
    return content


def only(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        need(type(value) is kind)
        return value

    return convert


# --- types -----------------------------------------------------------------------------------------------------------

PRIMITIVES: Mapping[str, Callable[[Any], Any]] = {
    "string": as_string,
    "boolean": only(bool),
    "byte": whole(8),
    "short": whole(16),
    "integer": whole(32),
    "long": whole(64),
    "float": nearest_single,
    "double": nearest,
    "date": day,
    "timestamp_ntz": lambda value: clock(value, ""),
    "binary": raw,
}
TIMES: Mapping[TimeForm, Callable[[Any], int]] = {
    TimeForm.ISO_8601: instant,
    TimeForm.TRUNCATED: truncated,
    TimeForm.SECONDS: epoch(1),
    TimeForm.MILLIS: epoch(1000),
    TimeForm.MICROS: epoch(1_000_000),
}


def typed(value: Any, wanted: DeltaType, form: TimeForm) -> Any:
    """The value of a type; null is null.

    Raises:
        ValueError, ArithmeticError: It does not fit.
    """
    if value is None:
        return None
    if isinstance(wanted, str):
        if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", wanted):
            return decimal(int(found[1]), int(found[2]))(value)
        return (TIMES[form] if wanted == "timestamp" else PRIMITIVES[wanted])(value)
    need(isinstance(value, list if wanted["type"] == "array" else dict))
    match wanted["type"]:
        case "array":
            return [typed(each, wanted["elementType"], form) for each in value]
        case "map":
            return {name: typed(each, wanted["valueType"], form) for name, each in value.items()}
    need(all(field["nullable"] or value.get(field["name"]) is not None for field in wanted["fields"]))
    return tuple(typed(value.get(field["name"]), field["type"], form) for field in wanted["fields"])


def fields(wanted: DeltaType) -> int:
    """How often an element of a type counts."""
    if isinstance(wanted, str) or wanted["type"] != "struct":
        return 1
    return max(1, sum(fields(field["type"]) for field in wanted["fields"]))


def elements(value: Any, wanted: DeltaType) -> int:
    """How many values the arrays and maps of a type have, each counted once for each of its fields."""
    if value is None or isinstance(wanted, str):
        return 0
    if wanted["type"] == "struct":
        return sum(elements(value.get(field["name"]), field["type"]) for field in wanted["fields"])
    inner = wanted["elementType"] if wanted["type"] == "array" else wanted["valueType"]
    values = value if wanted["type"] == "array" else value.values()
    return sum(fields(inner) + elements(each, inner) for each in values)


# --- rows ------------------------------------------------------------------------------------------------------------


def row(body: bytes | None, columns: Sequence[BodyColumn]) -> tuple[list[Any], list[str]]:
    """The values of an event, and the names of the columns with an error; "" is the body."""
    try:
        document = {} if body is None else only(dict)(parsed(body))
    except ValueError:
        return [None for _ in columns], [""]
    left = 8 * len(body or b"") + 1024
    values, errors = [], []
    for column in columns:
        value = None
        try:
            found = document
            for name in column.path:
                found = None if found is None else only(dict)(found).get(name)
            with localcontext() as context, deep():
                context.prec = 2000
                made = typed(found, column.type, column.form)
            need(made is not None or not column.required)
            count = elements(found, column.type)
            need(count <= left)
            value, left = made, left - count
        except (ValueError, ArithmeticError):
            errors.append(column.name)
        values.append(value)
    return values, errors
