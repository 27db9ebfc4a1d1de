"""JSON into columns: what Spark makes of documents is what Python's `json`, `decimal` and `datetime` make of them."""

import base64
import json
import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from eventconsumer_api.spec.json_columns import TABLE, ColumnType, JsonKind, TimeForm
from eventconsumer_api.spec.spark import Body, BodyType
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.output.bodies import HALF_PAIR, NO_DOCUMENT, NO_OBJECT, split
from tests.integration.spark.conftest import unclosed_sockets
from tests.integration.spark.test_formats import bodies

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = {
    "s": "STRING",
    "b": "BOOLEAN",
    "i1": "TINYINT",
    "i2": "SMALLINT",
    "i4": "INT",
    "i8": "BIGINT",
    "m": "DECIMAL(10,2)",
    "big": "DECIMAL(38,18)",
    "f": "FLOAT",
    "d": "DOUBLE",
    "day": "DATE",
    "at": "TIMESTAMP",
    "cut": "TIMESTAMP",
    "seconds": "TIMESTAMP",
    "millis": "TIMESTAMP",
    "micros": "TIMESTAMP",
    "local": "TIMESTAMP_NTZ",
    "raw": "BINARY",
    "inner": "STRUCT<n: BIGINT NOT NULL, t: TIMESTAMP>",
    "list": "ARRAY<STRUCT<n: BIGINT, tags: ARRAY<DECIMAL(4,1)>>>",
    "map": "MAP<STRING, INT>",
}
TIMES = {
    "cut": TimeForm.TRUNCATED,
    "seconds": TimeForm.SECONDS,
    "millis": TimeForm.MILLIS,
    "micros": TimeForm.MICROS,
    "inner.t": TimeForm.MILLIS,
}
BODY = Body(type=BodyType.JSON, schema=", ".join(f"{name} {each}" for name, each in COLUMNS.items()), times=TIMES)
_TIMES = ("at", "cut", "seconds", "millis", "micros")


class Misfit(ValueError):
    """A value does not fit."""


class Number(str):
    """A number of a document, as it is written."""

    __slots__ = ()


def need(fits: Any) -> None:
    if not fits:
        raise Misfit


def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    need(len(dict(found)) == len(found))
    return dict(found)


def constant(_: str) -> None:
    raise Misfit


def parsed(body: bytes) -> Any:
    """The document, numbers as they are written."""
    options = {"object_pairs_hook": pairs, "parse_constant": constant, "parse_int": Number, "parse_float": Number}
    found = json.loads(body.decode(), **options)
    json.dumps(found, ensure_ascii=False).encode()  # UnicodeEncodeError: half of a surrogate pair
    return found


def exact(value: Any) -> Decimal:
    need(isinstance(value, Number))
    return Decimal(value)


def whole(bits: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        number = exact(value)
        need(number.adjusted() < 40 and number == int(number) and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1))
        return int(number)

    return convert


def decimal(digits: int, scale: int) -> Callable[[Any], Decimal]:
    def convert(value: Any) -> Decimal:
        if not isinstance(value, Number):
            need(isinstance(value, str) and re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?", value))
        number = Decimal(value)
        need(abs(number.adjusted()) < 50)
        need(number % Decimal(1).scaleb(-scale) == 0 and abs(number) < Decimal(10) ** (digits - scale))
        return number

    return convert


def nearest(value: Any) -> float:
    exact(value)
    need(math.isfinite(float(value)))
    return float(value)


def nearest_single(value: Any) -> float:
    number = Fraction(exact(value))
    with numpy.errstate(over="ignore"):
        near = numpy.float32(float(number)) if abs(number) < 10**40 else numpy.float32(math.inf)
        around = [near, numpy.nextafter(near, numpy.float32(-math.inf)), numpy.nextafter(near, numpy.float32(math.inf))]
    finite = [each for each in around if numpy.isfinite(each)]
    best = min(finite, key=lambda each: (abs(Fraction(float(each)) - number), each.view(numpy.int32) & 1), default=None)
    need(best is not None and abs(number) < Fraction(2**128 - 2**103))
    return float(best)


def text(value: Any) -> Any:
    """A text; of an object or array, its values."""
    if isinstance(value, dict):
        return {name: text(each) for name, each in value.items()}
    if isinstance(value, list):
        return [text(each) for each in value]
    if isinstance(value, Number):
        need("e" not in value.lower() and len(value) < 39)
        return Number(format(Decimal(value).normalize() + 0, "f"))
    return value


def as_string(value: Any) -> Any:
    found = text(value)
    return json.dumps(found) if isinstance(found, bool) else found


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
    need(type(value) is str)
    return instant(re.sub(r"(\.[0-9]{6})[0-9]{0,6}(?![0-9])", r"\1", value))


def epoch(per_second: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        number = exact(value) * (1_000_000 // per_second)
        need(abs(number.adjusted()) < 30 and number == int(number))
        need(-62_135_596_800_000_000 <= number <= 253_402_300_799_999_999)
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


def optional(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def inner(value: Any) -> tuple[Any, ...]:
    need(isinstance(value, dict) and value.get("n") is not None)
    return whole(64)(value["n"]), optional(epoch(1000), value.get("t"))


def listed(value: Any) -> list[Any]:
    def element(each: Any) -> tuple[Any, ...]:
        tags = optional(only(list), only(dict)(each).get("tags"))
        return optional(whole(64), each.get("n")), tags and [optional(decimal(4, 1), tag) for tag in tags]

    return [optional(element, each) for each in only(list)(value)]


ORACLE: dict[str, Callable[[Any], Any]] = {
    "s": as_string,
    "b": only(bool),
    "i1": whole(8),
    "i2": whole(16),
    "i4": whole(32),
    "i8": whole(64),
    "m": decimal(10, 2),
    "big": decimal(38, 18),
    "f": nearest_single,
    "d": nearest,
    "day": day,
    "at": instant,
    "cut": truncated,
    "seconds": epoch(1),
    "millis": epoch(1000),
    "micros": epoch(1_000_000),
    "local": lambda value: clock(value, ""),
    "raw": raw,
    "inner": inner,
    "list": listed,
    "map": lambda value: {name: optional(whole(32), each) for name, each in only(dict)(value).items()},
}


def expected(body: bytes) -> tuple[Any, ...]:
    """The row of a document.

    Raises:
        ValueError: It has none.
    """
    with localcontext() as context:
        context.prec = 2000
        return tuple(optional(convert, only(dict)(parsed(body)).get(name)) for name, convert in ORACLE.items())


def converted(spark: SparkSession, documents: Iterable[bytes], body: Body = BODY) -> list[Any]:
    """Of each document its row, or the cause."""
    contents = list(documents)
    result = split(bodies(spark, contents), body)
    assert result.unfit is not None
    fitting = result.fitting
    if body is BODY:
        shown = [F.unix_micros(f"body.{name}") if name in _TIMES else F.col(f"body.{name}") for name in COLUMNS]
        shown[list(COLUMNS).index("inner")] = F.when(
            F.col("body.inner").isNotNull(), F.struct("body.inner.n", F.unix_micros("body.inner.t"))
        )
        fitting = fitting.select("sequence_number", F.struct(*shown).alias("body"))
    rows = fitting.select("sequence_number", "body").collect()
    found = dict(rows) | dict(result.unfit.select("sequence_number", "cause").collect())
    assert len(found) == len(contents)
    return [found[number] for number in range(len(contents))]


def same(name: str, found: Any, wanted: Any) -> bool:
    if name == "s" and isinstance(wanted, dict | list):
        return bool(text(parsed(found.encode())) == wanted)
    return bool(found == wanted)


DOUBTFUL = re.compile(rb"[0-9]{16}|[0-9.]{17}|[0-9.][eE][+-]?[0-9]")
"""Spark may refuse an exact value in such a document: see `json_columns.EXPONENT_DIGITS_MAX`."""


def check(spark: SparkSession, documents: list[bytes]) -> None:
    """Each document has the row that Python makes of it, or is set apart with its error."""
    for document, found in zip(documents, converted(spark, documents), strict=True):
        try:
            wanted = expected(document)
        except (ValueError, ArithmeticError):
            assert isinstance(found, str), (document, found)
            continue
        if isinstance(found, str):
            assert DOUBTFUL.search(document), (document, found, wanted)
            continue
        for name, own, other in zip(COLUMNS, found, wanted, strict=True):
            assert same(name, own, other), (document, name, own, other)


MISFIT = object()
CASES = [
    ("at", "1767323045678", MISFIT),
    ("at", '"03:04"', MISFIT),
    ("at", '"2026-01-02"', MISFIT),
    ("at", '"2026-01-02T03:04:05.1234567Z"', MISFIT),
    ("at", '"2026-01-02T03:04:05.1234560Z"', 1_767_323_045_123_456),
    ("cut", '"2026-01-02T03:04:05.1234569Z"', 1_767_323_045_123_456),
    ("cut", '"1969-12-31T23:59:59.999999999Z"', -1),
    ("cut", '"2026-01-02T04:04:05.5+01:00"', 1_767_323_045_500_000),
    ("cut", '"2026-01-02"', MISFIT),
    ("cut", "1767323045", MISFIT),
    ("at", '"2026-01-02 03:04:05+01:00"', 1_767_319_445_000_000),
    ("at", '"0001-01-01T00:00:00+18:00"', MISFIT),
    ("at", '"2026-02-30T00:00:00Z"', MISFIT),
    ("millis", "1767323045678", 1_767_323_045_678_000),
    ("millis", "1767323045678.1234", MISFIT),
    ("millis", '"1767323045678"', MISFIT),
    ("seconds", "1767323045678", MISFIT),
    ("seconds", "1767323045.5", 1_767_323_045_500_000),
    ("seconds", "1.767323045e9", 1_767_323_045_000_000),
    ("micros", "-62135596800000000", -62_135_596_800_000_000),
    ("micros", "-62135596800000001", MISFIT),
    ("micros", "253402300799999999", 253_402_300_799_999_999),
    ("micros", "253402300800000000", MISFIT),
    ("day", '"20455"', MISFIT),
    ("day", "20455", MISFIT),
    ("day", '"2026-01-02"', date(2026, 1, 2)),
    ("day", '"0000-01-02"', MISFIT),
    ("m", "1.239", MISFIT),
    ("m", "1.2300", Decimal("1.23")),
    ("m", "12345678.9", Decimal("12345678.9")),
    ("m", "123456789", MISFIT),
    ("m", '"1.23"', Decimal("1.23")),
    ("m", '"1,000.5"', MISFIT),
    ("m", "1.25e1", Decimal("12.5")),
    ("m", "1.239e0", MISFIT),
    ("f", "1e300", MISFIT),
    ("f", "16777217.0", 16777216.0),
    ("f", "1.00000017881393432617187499", 1.0000001192092896),
    ("d", "1e300", 1e300),
    ("d", "1e400", MISFIT),
    ("d", "0.1", 0.1),
    ("d", "12345678901234567890123", 1.2345678901234568e22),
    ("d", '"NaN"', MISFIT),
    ("d", "true", MISFIT),
    ("i8", "1.0", 1),
    ("i8", "1e2", 100),
    ("i8", "1.5", MISFIT),
    ("i8", "1e-400", MISFIT),
    ("i8", "1.00000000000000000001e0", MISFIT),
    ("i8", "9007199254740993e0", MISFIT),
    ("i8", "9223372036854775807", 2**63 - 1),
    ("i8", "9223372036854775808", MISFIT),
    ("i8", '"5"', MISFIT),
    ("i8", "true", MISFIT),
    ("i1", "200", MISFIT),
    ("s", "1.10", "1.1"),
    ("s", "1e400", MISFIT),
    ("s", '{"b":1.10,"a":[1,"x"]}', '{"a":[1,"x"],"b":1.1}'),
    ("s", '[1,"x",1e9]', MISFIT),
    ("s", '"\\ud83d\\ude00\\\\ud800"', "\U0001f600\\ud800"),
    ("raw", '"QQ=="', b"A"),
    ("raw", '"QR=="', MISFIT),
    ("raw", '"Q Q=="', MISFIT),
    ("b", '"true"', MISFIT),
    ("inner", "{}", MISFIT),
    ("inner", '{"n":null}', MISFIT),
    ("inner", '{"n":1,"t":5}', (1, 5000)),
    ("list", '[null,{"n":1,"tags":[1.5,"2",null]}]', [None, (1, [Decimal("1.5"), Decimal(2), None])]),
    ("list", '[{"n":1,"tags":[1.55]}]', MISFIT),
    ("list", '{"n":1}', MISFIT),
    ("map", '{"a":1,"b":null}', {"a": 1, "b": None}),
    ("map", '{"a":"1"}', MISFIT),
]
"""Column, value, and what it becomes."""


def test_a_value_is_exact_or_an_error_with_column_and_type(spark: SparkSession) -> None:
    documents = [f'{{"{name}": {value}}}'.encode() for name, value, _ in CASES]
    for (name, value, wanted), found in zip(CASES, converted(spark, documents), strict=True):
        if wanted is MISFIT:
            assert isinstance(found, str) and found.startswith(f"column {name}: "), (name, value, found)
        else:
            assert not isinstance(found, str) and found[list(COLUMNS).index(name)] == wanted, (name, value, found)
    check(spark, documents)


def test_the_cause_names_column_type_and_kind(spark: SparkSession) -> None:
    body = Body(type=BodyType.JSON, schema="id BIGINT NOT NULL, price DECIMAL(10,2), `a.b` STRUCT<`x y`: INT>")
    cases = {
        b'{"id":1,"a.b":{"x y":3}}': (1, None, (3,)),
        b"{}": "column id: bigint NOT NULL, but there is no value",
        b'{"ID":1}': "column id: bigint NOT NULL, but there is no value",
        b'{"id":null}': "column id: bigint NOT NULL, but there is no value",
        b'{"id":1,"price":1.239}': "column price: decimal(10,2) has no exact value for this number",
        b'{"id":1,"price":[]}': "column price: decimal(10,2) has no exact value for this array",
        b'{"id":1,"a.b":{"x y":"3"}}': "column a.b: struct<x y:int> has no exact value for this object",
        b'{"id":1}{"id":2}': NO_DOCUMENT,
        b'{"id":1},{"id":2}': NO_DOCUMENT,
        b'1,"x":2': NO_DOCUMENT,
        b'{"id":1},"value":{"id":2}': NO_DOCUMENT,
        b'{"id":1}],[{"id":2}': NO_DOCUMENT,
        b'{"id":1,"id":2}': NO_DOCUMENT,
        b'\xef\xbb\xbf{"id":1}': NO_DOCUMENT,
        b"[" * 100_000: NO_DOCUMENT,
        b'{"id":' + b"1" * 2000 + b"}": NO_DOCUMENT,
        b'{"id":1,"x":"\\ud800"}': HALF_PAIR,
        b'{"id":1,"x":"\\ud83d\\\\\\ude00"}': HALF_PAIR,
        b"[]": NO_OBJECT,
        b'"x"': NO_OBJECT,
    }
    assert dict(zip(cases, converted(spark, cases, body), strict=True)) == cases
    text = {b'1,"x":2': 0, b'{"id":1},{"id":2}': 0, b'{"a":1],[{"a":2}': 0, b"1],[2": 0, b'{"a":1,"a":2}': 1, b"1": 1}
    kept = [
        row[0] for row in split(bodies(spark, list(text)), Body(type=BodyType.JSON)).fitting.select("body").collect()
    ]
    assert kept == [body.decode() for body, fits in text.items() if fits]


def test_a_time_without_an_offset_is_utc_or_an_error(spark: SparkSession) -> None:
    body = Body(type=BodyType.JSON, schema="at TIMESTAMP")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        times = [b'{"at":"2026-03-29T02:30:00"}', b'{"at":"2026-03-29T02:30:00+02:00"}']
        skipped, found = converted(spark, times, body)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert skipped == "column at: timestamp has no exact value for this string"
    assert found.at.astimezone(UTC) == datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schema", "times", "message"),
    [
        ("v VARIANT", {}, r"schema: v: variant: use one of the types STRING, "),
        ("m MAP<INT, INT>", {}, "schema: m: keys of a MAP are STRING"),
        ("s STRUCT<a: INT, A: INT>", {}, "schema: a is twice"),
        ("at TIMESTAMP, n INT", {"n": "EpochMillis"}, "times: n is no TIMESTAMP column of body.schema: use one of at"),
    ],
)
def test_a_schema_that_is_not_in_the_table_is_refused(
    schema: str, times: Any, message: str, spark: SparkSession
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        split(bodies(spark, []), Body(type=BodyType.JSON, schema=schema, times=times))


def test_the_table_says_which_kinds_fit(spark: SparkSession) -> None:
    """For each type and kind a value that the rule takes, if there is a rule, and none if there is none."""
    values = {
        JsonKind.NUMBER: ["1"],
        JsonKind.BOOLEAN: ["true"],
        JsonKind.OBJECT: ["{}", '{"n":1}'],
        JsonKind.ARRAY: ["[]"],
        JsonKind.STRING: ['"1"', '"QQ=="', '"2026-01-02"', '"2026-01-02T03:04:05"', '"true"'],
    }
    cases = [
        (column, kind, f'{{"{column}":{value}}}'.encode())
        for column in COLUMNS
        if column not in TIMES
        for kind, each in values.items()
        for value in each
    ]
    taken = {
        (column, kind)
        for (column, kind, _), found in zip(cases, converted(spark, [body for *_, body in cases]), strict=True)
        if not isinstance(found, str)
    }
    for column, kind, _ in cases:
        name = ColumnType(re.match(r"\w+", COLUMNS[column])[0])  # type: ignore[index]
        assert ((column, kind) in taken) == (kind in TABLE[name]), (column, kind)


DIGITS = st.text("0123456789", min_size=1, max_size=20)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from([str(2**n + d) for n in (7, 15, 31, 53, 63) for d in (-1, 0, 1)]),
    st.sampled_from(
        ["-0", "-0.0", "0e9", "5e-324", "3.4028235677973366e38", "1.7976931348623157e308", "1e99", "1E-99"]
    ),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds(lambda a, b: f"{int(a)}.{b}", DIGITS, DIGITS),
    st.builds(lambda a, b, c: f"{int(a)}.{b}e{c}", DIGITS, DIGITS, st.integers(-40, 40)),
    st.builds(lambda a, c: f"-{a}e{c}", st.integers(0, 999), st.integers(-5, 20)),
    st.integers(-63_000_000_000, 260_000_000_000).map(str),
    st.decimals(-1000, 1000, places=3).map(lambda each: format(each, "f")),
)
_CLOCK = r"[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,8})?"
TEXTS = st.one_of(
    st.text(max_size=8),
    NUMBERS,
    st.datetimes().map(lambda each: each.isoformat()),
    st.datetimes(timezones=st.timezones()).map(lambda each: each.isoformat(sep=" ")),
    st.dates().map(str),
    st.binary(max_size=6).map(lambda each: base64.b64encode(each).decode()),
    st.from_regex(
        rf"\A[0-2][0-9]{{3}}-[01][0-9]-[0-3][0-9]([T ]{_CLOCK}(\.[0-9]{{1,8}})?(Z|[+-][01][0-9]:[0-6][0-9])?)?\Z"
    ),
).map(json.dumps)
SCALARS = st.one_of(NUMBERS, TEXTS, st.sampled_from(["true", "false", "null"]))


def compound(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    names = st.sampled_from(["n", "t", "tags", "a", "\\u0061"])
    members = st.lists(st.tuples(names, values), max_size=3)
    return st.one_of(
        st.lists(values, max_size=3).map(lambda each: f"[{', '.join(each)}]"),
        members.map(lambda each: "{" + ",".join(f'"{name}":{value}' for name, value in each) + "}"),
    )


VALUES = st.recursive(SCALARS, compound, max_leaves=5)
DOCUMENTS = st.builds(lambda name, value: f'{{"{name}":{value}}}', st.sampled_from(list(COLUMNS)), VALUES)
HOSTILE = st.builds(
    lambda text, at, more: text[:at] + more + text[at:],
    DOCUMENTS,
    st.integers(0, 30),
    st.sampled_from(["", "", "", ",", "]", '"', "\\", "\\ud800", "}", "{", ' "end"', "],[", "\0", "e5", "\ufeff"]),
)


@given(st.lists(HOSTILE.map(str.encode), min_size=60, max_size=60))
@settings(max_examples=settings.default.max_examples // 5)  # of 60 documents each
def test_any_document_has_the_row_that_python_makes_of_it(session: SparkSession, documents: list[bytes]) -> None:
    with unclosed_sockets():
        check(session, documents)
