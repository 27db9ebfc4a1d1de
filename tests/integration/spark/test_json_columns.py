"""JSON into columns: what Spark makes of documents is what Python's `json`, `decimal` and `datetime` make of them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.json_columns import TABLE, ColumnType, JsonKind, TimeForm
from eventconsumer_api.spec.spark import Body, BodyType
from eventconsumer_host.body.plan import plan
from eventconsumer_spark.errors import ConfigurationError
from eventconsumer_spark.output.bodies import HALF_PAIR, NO_DOCUMENT, NO_OBJECT, split
from tests.integration.spark.conftest import unclosed_sockets
from tests.integration.spark.test_formats import bodies
from tests.support import json_bodies, json_oracle
from tests.support.json_bodies import CASES, MISFIT, VALUES, hostile

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


@cache
def oracle_columns() -> list[BodyColumn]:
    """The columns as the oracle needs them; Spark must be running, because it reads the types."""
    found = T.StructType.fromDDL(BODY.schema_).jsonValue()["fields"]
    forms = {path.partition(".")[0]: form for path, form in TIMES.items()}
    return [
        BodyColumn(each["name"], each["type"], (each["name"],), forms.get(each["name"], TimeForm.ISO_8601))
        for each in found
    ]


def numbered(value: Column, wanted: T.DataType) -> Column:
    """A value with its times as numbers: Python's type has not all of them."""
    match wanted:
        case T.TimestampType():
            return F.unix_micros(value)
        case T.StructType():
            fields = (numbered(value.getField(each.name), each.dataType).alias(each.name) for each in wanted)
            return F.when(value.isNotNull(), F.struct(*fields))
        case T.ArrayType():
            return F.transform(value, lambda each: numbered(each, wanted.elementType))
        case T.MapType():
            return F.transform_values(value, lambda _, each: numbered(each, wanted.valueType))
    return value


def converted(spark: SparkSession, documents: Iterable[bytes], body: Body = BODY) -> list[Any]:
    """Of each document its row, or the cause."""
    contents = list(documents)
    result = split(bodies(spark, contents), body)
    assert result.unfit is not None
    shown = numbered(F.col("body"), result.fitting.schema["body"].dataType).alias("body")
    found = dict(result.fitting.select("sequence_number", shown).collect())
    found |= dict(result.unfit.select("sequence_number", "cause").collect())
    assert len(found) == len(contents)
    return [found[number] for number in range(len(contents))]


DOUBTFUL = re.compile(rb"[0-9]{16}|[0-9.]{17}|[0-9.][eE][+-]?[0-9]")
"""Spark may refuse an exact value in such a document: see `json_columns.EXPONENT_DIGITS_MAX`."""


def check(
    spark: SparkSession, documents: list[bytes], columns: list[BodyColumn] | None = None, body: Body = BODY
) -> None:
    """Each document has the row that Python makes of it, or is set apart with its error."""
    own = columns or oracle_columns()
    for document, found in zip(documents, converted(spark, documents, body), strict=True):
        wanted, errors = json_oracle.row(document, own)
        if errors:
            assert isinstance(found, str), (document, found, errors)
            continue
        if isinstance(found, str):
            assert DOUBTFUL.search(document), (document, found, wanted)
            continue
        for column, value, other in zip(own, found, wanted, strict=True):
            assert value == other, (document, column.name, value, other)


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
    assert found.at == json_oracle.micros(datetime(2026, 3, 29, 0, 30, tzinfo=UTC))


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


DOCUMENTS = st.builds(lambda name, value: f'{{"{name}":{value}}}', st.sampled_from(list(COLUMNS)), VALUES)


@given(st.lists(hostile(DOCUMENTS).map(str.encode), min_size=60, max_size=60))
@settings(max_examples=settings.default.max_examples // 5)  # of 60 documents each
def test_any_document_has_the_row_that_python_makes_of_it(session: SparkSession, documents: list[bytes]) -> None:
    with unclosed_sockets():
        check(session, documents)


_ID = json_bodies.COLUMNS[2]
HOST_BODY = Body(
    type=BodyType.JSON,
    schema=", ".join(f"{each.path[0]} {each.type}{' NOT NULL' * each.required}" for each in plan(json_bodies.COLUMNS)),
    times={
        each.name if each.type == "timestamp" else f"{each.name}.t": each.form
        for each in json_bodies.COLUMNS
        if each.form is not TimeForm.ISO_8601
    },
)
HOST_DOCUMENTS = st.one_of([json_bodies.bodies([_ID, each]) for each in json_bodies.COLUMNS])


@pytest.mark.long  # test_parsers.py compares hosts with the oracle, the test above Spark
@given(st.lists(HOST_DOCUMENTS.map(lambda body: body or b""), min_size=4, max_size=20))
@settings(max_examples=settings.default.max_examples // 2)
def test_any_document_has_the_row_that_a_host_makes_of_it(session: SparkSession, documents: list[bytes]) -> None:
    """Hosts are compared with the same oracle, columns and documents: tests/unit/host/body."""
    with unclosed_sockets():
        check(session, documents, json_bodies.COLUMNS, HOST_BODY)


def _zeros(count: int) -> str:
    return "0" * count


LIMITS = {
    "levels": [f'{{"b":true,"x":{"[" * count}{"]" * count}}}' for count in (998, 999)],
    "number": [f'{{"b":true,"x":{"1" * count}}}' for count in (1000, 1001)],
    "number with all": [f'{{"b":true,"x":-1.{"1" * count}e-1}}' for count in (998, 999)],
    "name": [f'{{"b":true,"{"x" * count}":1}}' for count in (50_000, 50_001)],
    "exponent": [f'{{"d":1,"i8":1e{each}}}' for each in ("02", "002")],
    "digits": [f'{{"i8":5.{_zeros(count)}}}' for count in (37, 38)],
    "less than one": [f'{{"i8":0.{_zeros(count)}}}' for count in (38, 39)],
    "digits before an exponent": [f'{{"i8":{each}e0}}' for each in ("123456789012345", "1234567890123456")],
    "digits with a point": [f'{{"i8":{each}e9}}' for each in ("0.05000000000000", "0.050000000000000")],
}
"""A document at a limit of the table, and one beyond it."""


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_those_of_the_table(name: str, spark: SparkSession) -> None:
    within, beyond = converted(spark, [each.encode() for each in LIMITS[name]])
    assert (isinstance(within, str), isinstance(beyond, str)) == (False, True), (within, beyond)
    check(spark, [each.encode() for each in LIMITS[name]])
