"""The table of conversions from JSON to typed columns: what fits, by the type of a column and the kind of a JSON value.

A value is converted exactly, or it does not fit: nothing is rounded, shifted, filled in or cut. The one exception is
binary floating point, whose value is the nearest one, as in every reader of JSON; a value that would be infinite does
not fit. What the table does not list does not fit. Null, and a name that is absent, is null in each type, and does not
fit a column with NOT NULL.

The table is data, without a parser: the Spark program builds its expressions from it, docs/reference/json-columns.md is
made from it, and tests/integration/spark/test_json_columns.py compares both with Python's own `json`, `decimal` and
`datetime`. JSON is that of RFC 8259; times are those of RFC 3339.
"""

from collections.abc import Mapping
from enum import StrEnum


class JsonKind(StrEnum):
    """The kinds of JSON values beside null."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    OBJECT = "object"
    ARRAY = "array"


class ColumnType(StrEnum):
    """The types of columns, as Spark DDL names them."""

    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"
    BINARY = "BINARY"
    STRUCT = "STRUCT"
    ARRAY = "ARRAY"
    MAP = "MAP"


class Rule(StrEnum):
    """What fits; the text completes "<kind>: "."""

    CHARACTERS = "its characters"
    DIGITS = "its digits, without zeros at the end of the fraction: `1.1` for 1.10; not with an exponent"
    WORD = "`true` or `false`"
    TEXT = "JSON with the same values: without white space, names in order; not with an exponent in a number"
    SAME = "the same"
    WHOLE = "a number without a fraction in the range of the type: `5`, `5.0`, `5e2`"
    DECIMAL = "a number with at most p - s digits before the point and s behind it, zeros at the end apart"
    DECIMAL_TEXT = "the digits of such a number without an exponent"
    NEAREST = "the nearest value of the type, if that is finite"
    DATE = "`2026-01-02`, a day that exists in the years 1 to 9999"
    INSTANT = "`2026-01-02T03:04:05.678901Z`, or with another offset; at most six digits, then zeros"
    TRUNCATED = "`2026-01-02T03:04:05.678901234Z`, or with another offset; digits behind the sixth are cut"
    LOCAL = "`2026-01-02T03:04:05.678901`, without an offset; at most six digits, then zeros"
    BASE64 = "base64 with padding (RFC 4648)"
    FIELDS = "an object whose values fit the fields; other names are left out"
    ELEMENTS = "an array whose values fit the element"
    ENTRIES = "an object whose values fit the value; keys are STRING"
    EPOCH = "a number of the unit since 1970, UTC, that is a whole number of microseconds in the years 1 to 9999"


class TimeForm(StrEnum):
    """How the values of a TIMESTAMP column are written."""

    ISO_8601 = "Iso8601"
    TRUNCATED = "Iso8601Truncated"
    SECONDS = "EpochSeconds"
    MILLIS = "EpochMillis"
    MICROS = "EpochMicros"


_INTEGER = {JsonKind.NUMBER: Rule.WHOLE}
TABLE: Mapping[ColumnType, Mapping[JsonKind, Rule]] = {
    ColumnType.STRING: {
        JsonKind.STRING: Rule.CHARACTERS,
        JsonKind.NUMBER: Rule.DIGITS,
        JsonKind.BOOLEAN: Rule.WORD,
        JsonKind.OBJECT: Rule.TEXT,
        JsonKind.ARRAY: Rule.TEXT,
    },
    ColumnType.BOOLEAN: {JsonKind.BOOLEAN: Rule.SAME},
    ColumnType.TINYINT: _INTEGER,
    ColumnType.SMALLINT: _INTEGER,
    ColumnType.INT: _INTEGER,
    ColumnType.BIGINT: _INTEGER,
    # A string too: publishers write amounts as strings, because many of their libraries know numbers as doubles only.
    ColumnType.DECIMAL: {JsonKind.NUMBER: Rule.DECIMAL, JsonKind.STRING: Rule.DECIMAL_TEXT},
    ColumnType.FLOAT: {JsonKind.NUMBER: Rule.NEAREST},
    ColumnType.DOUBLE: {JsonKind.NUMBER: Rule.NEAREST},
    ColumnType.DATE: {JsonKind.STRING: Rule.DATE},
    ColumnType.TIMESTAMP: {JsonKind.STRING: Rule.INSTANT},
    ColumnType.TIMESTAMP_NTZ: {JsonKind.STRING: Rule.LOCAL},
    ColumnType.BINARY: {JsonKind.STRING: Rule.BASE64},
    ColumnType.STRUCT: {JsonKind.OBJECT: Rule.FIELDS},
    ColumnType.ARRAY: {JsonKind.ARRAY: Rule.ELEMENTS},
    ColumnType.MAP: {JsonKind.OBJECT: Rule.ENTRIES},
}
"""What fits a column, by its type and the kind of the value; a TIMESTAMP with another form: `FORMS`."""
EPOCH_TABLE: Mapping[JsonKind, Rule] = {JsonKind.NUMBER: Rule.EPOCH}
"""What fits a TIMESTAMP column whose form is a number."""
TRUNCATED_TABLE: Mapping[JsonKind, Rule] = {JsonKind.STRING: Rule.TRUNCATED}
"""What fits a TIMESTAMP column whose values are cut: .NET writes seven digits of a second, Go and Java nine."""
FORMS: Mapping[TimeForm, Mapping[JsonKind, Rule]] = {
    TimeForm.ISO_8601: TABLE[ColumnType.TIMESTAMP],
    TimeForm.TRUNCATED: TRUNCATED_TABLE,
    TimeForm.SECONDS: EPOCH_TABLE,
    TimeForm.MILLIS: EPOCH_TABLE,
    TimeForm.MICROS: EPOCH_TABLE,
}
"""What fits a TIMESTAMP column, by its form."""

EPOCH_DIGITS: Mapping[TimeForm, int] = {TimeForm.SECONDS: 6, TimeForm.MILLIS: 3, TimeForm.MICROS: 0}
"""Digits behind the point that fit: those of a microsecond."""
FIRST_MICROS = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z in microseconds since 1970."""
LAST_MICROS = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z in microseconds since 1970."""

DIGITS_MAX = 38
"""Maximum number of digits of a number in a type that is exact, a zero before the point apart; and of DECIMAL."""
EXPONENT_DIGITS_MAX = 15
"""Maximum number of digits before the exponent of a number in a type that is exact, and in FLOAT."""
EXPONENT_MAX = 99
"""Maximum exponent there, above and below zero; it has no more digits."""
DEPTH_MAX = 999
"""Maximum depth of a document. Spark's parser allows 1,000: one is an array that its program puts around documents."""
NUMBER_DIGITS_MAX = 1000
"""Maximum number of digits of a number of any type, those of its exponent included."""
NAME_LENGTH_MAX = 50_000
"""Maximum length of a name, characters."""

VALUES_PER_BYTE_MAX, VALUES_MORE_MAX = 8, 1024
"""Maximum number of values in the ARRAY and MAP columns of an event: for each byte of its body, and in addition.

Each element counts once for each field of its type, because a field that is absent takes memory too: without this,
1 MB of `{},` would make 20 million values of ARRAY<STRUCT<…>> with 60 fields.
"""
ERROR_BYTES_MAX = 512
"""Maximum size of a text in the column `_error`, bytes."""

_TIME = r"[T ]\d\d:\d\d:\d\d"
_CLOCK = _TIME + r"(\.\d{1,6}0*)?"
_OFFSET = r"(Z|[+-]\d\d:\d\d)"
DATE_PATTERN = r"(?!0000)\d{4}-\d\d-\d\d"
LOCAL_PATTERN = DATE_PATTERN + _CLOCK
ZONED_PATTERN = LOCAL_PATTERN + _OFFSET
INSTANT_PATTERN = f"{ZONED_PATTERN}?"
"""Without an offset, the time is UTC."""
TRUNCATED_PATTERN = rf"{DATE_PATTERN}{_TIME}(\.\d{{1,12}})?{_OFFSET}?"
"""The same with digits that are cut."""
ZONED_TRUNCATED_PATTERN = TRUNCATED_PATTERN.removesuffix("?")
DECIMAL_PATTERN = r"-?(0|[1-9]\d*)(\.\d+)?"
"""A number of JSON without an exponent. As all patterns here: ASCII, and the whole text must match."""
