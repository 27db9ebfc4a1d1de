"""JSON into typed columns by the table of conversions (`eventconsumer_api.spec.json_columns`), by Spark's expressions.

Spark's `from_json` changes values without a word: it rounds decimals and numbers in texts, takes 200 into TINYINT as
-56, completes times, keeps the last of two members with one name, and reads neither the end of a document nor NOT NULL.
So a document is parsed into a VARIANT, which knows the kind of each value, keeps numbers of up to 38 digits exactly and
refuses a name that is twice in an object; each column is made of its VARIANT by an expression that gives null where the
value does not fit.

A VARIANT has one gap: a number with an exponent, or of more digits, is a double in it. Such a number is converted from
the 15 digits that a double keeps for certain (IEEE 754, DBL_DIG), and only if the document has none that is longer.
Source: VariantBuilder and VariantUtil of Spark 4.1; the property test compares all of it with Python.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses
from pyspark.sql import types as T  # noqa: N812 - likewise

from eventconsumer_api.spec import json_columns as table
from eventconsumer_api.spec.json_columns import ColumnType, JsonKind, Rule, TimeForm
from eventconsumer_spark.errors import ConfigurationError

_FIELD = "spec.spark.output.body"
_NAMES: Mapping[type[T.DataType], ColumnType] = {
    T.StringType: ColumnType.STRING,
    T.BooleanType: ColumnType.BOOLEAN,
    T.ByteType: ColumnType.TINYINT,
    T.ShortType: ColumnType.SMALLINT,
    T.IntegerType: ColumnType.INT,
    T.LongType: ColumnType.BIGINT,
    T.DecimalType: ColumnType.DECIMAL,
    T.FloatType: ColumnType.FLOAT,
    T.DoubleType: ColumnType.DOUBLE,
    T.DateType: ColumnType.DATE,
    T.TimestampType: ColumnType.TIMESTAMP,
    T.TimestampNTZType: ColumnType.TIMESTAMP_NTZ,
    T.BinaryType: ColumnType.BINARY,
    T.StructType: ColumnType.STRUCT,
    T.ArrayType: ColumnType.ARRAY,
    T.MapType: ColumnType.MAP,
}
_TOO_LONG = (
    rf"[0-9.]{{{table.EXPONENT_DIGITS_MAX + 2},}}[eE]|[0-9]{{{table.EXPONENT_DIGITS_MAX + 1},}}[eE]"
    rf"|[eE][+-]?[0-9]{{3,}}|[0-9.]{{{table.DIGITS_MAX + 1},}}"
)
"""Matches a document with a number that a double may not keep; also texts that look like one."""
_EXPONENT = rf"[0-9][eE][+-]?[0-9]|[0-9.]{{{table.DIGITS_MAX + 1},}}"
# A pair of surrogates in escapes, and one that is left when all pairs are gone. An escape has an odd number of
# backslashes before its `u`.
_PAIR = r"(?<!\\)((?:\\\\)*+)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = r"(?<!\\)(?:\\\\)*+\\u[dD][89a-fA-F]"


def new_end() -> str:
    """A random text to put behind documents; see `document`."""
    return secrets.token_hex(16)


def document(text: Column, end: str) -> Column:
    """A VARIANT with a text as its first element and `end` as its second, if the text is a JSON document; else null.

    Spark's parsers ignore what follows a document. So an array is parsed of the text and a random text, which no sender
    can know. That is the second element if, and only if, exactly one document is before it: a text that closes the
    array, or has a comma of its own, moves it or leaves it out. `is_whole` tells.
    """
    return F.try_parse_json(F.concat(F.lit("["), text, F.lit(f',"{end}"]')))


def is_whole(parsed: Column, end: str) -> Column:
    """Whether a `document` was one document and nothing else; never null."""
    return F.coalesce(F.try_variant_get(parsed, "$[1]", "string") == end, F.lit(False))


def valid(text: Column) -> Column:
    """Whether a text is one JSON document, and nothing else; a name may be twice in an object. As `document`."""
    end = new_end()
    strict = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}  # Spark's defaults accept invalid JSON
    whole = F.from_json(F.concat(F.lit("["), text, F.lit(f',"{end}"]')), T.ArrayType(T.StringType()), strict)
    return F.coalesce((F.size(whole) == 2) & (F.get(whole, F.lit(1)) == end), F.lit(False))  # noqa: PLR2004


def lone_surrogate(text: Column) -> Column:
    """Whether an escape in a text is half of a surrogate pair, which is no character: Spark would read `?`."""
    found = F.regexp_replace(text, _PAIR, "$1").rlike(_HALF)
    return F.when(F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD")), found).otherwise(False)


def let(value: Column, use: Callable[[Column], Column]) -> Column:
    """`use(value)`, with `value` computed once."""
    return F.transform(F.array(value), use)[0]


@dataclass(frozen=True)
class Columns:
    """The columns of `spec.spark.output.body.schema`, as expressions.

    Attributes:
        schema: The columns.
        times: Path of a TIMESTAMP column -> its form.
        text: The document's text.
        utc: Whether the session's time zone is UTC: only then may a time have no offset.
    """

    schema: T.StructType
    times: Mapping[str, TimeForm]
    text: Column
    utc: bool = True

    def __post_init__(self) -> None:
        """Refuse columns that are not in the table.

        Raises:
            ConfigurationError: Names the column.
        """
        found = dict(_leaves(self.schema, ""))
        for path in self.times:
            if not isinstance(found.get(path), T.TimestampType):
                raise ConfigurationError(
                    f"{_FIELD}.times: {path} is no TIMESTAMP column of body.schema: use one of "
                    f"{', '.join(name for name, each in found.items() if isinstance(each, T.TimestampType)) or 'none'}"
                )

    def fields(self, parsed: Column) -> Column:
        """The columns of a whole `document` as a struct of VARIANTs; null: it is no object."""
        return F.try_variant_get(parsed, "$[0]", _carrier(self.schema))

    def kinds(self, fields: Column) -> Column:
        """The schema of each VARIANT, as a struct with the names of the columns."""
        return F.struct(*(F.schema_of_variant(fields.getField(name)).alias(name) for name in self.schema.names))

    def values(self, fields: Column, kinds: Column) -> Column:
        """The struct of typed values; null where one does not fit."""
        made = (
            self._value(each.name, fields.getField(each.name), kinds.getField(each.name), each.dataType)
            for each in self.schema.fields
        )
        return F.struct(*(value.alias(name) for value, name in zip(made, self.schema.names, strict=True)))

    def misfit(self, fields: Column, kinds: Column, values: Column) -> Column:
        """The cause for the first column that does not fit; null: all fit."""
        causes = []
        for field in self.schema.fields:
            leaf, kind, value = (each.getField(field.name) for each in (fields, kinds, values))
            shown = field.name if len(field.name) <= 100 else f"{field.name[:100]}…"  # noqa: PLR2004
            named = F.lit(f"column {shown}: {field.dataType.simpleString()[:200]}")
            cause = F.when(_absent(leaf, kind), F.concat(named, F.lit(" NOT NULL, but there is no value")))
            cause = cause.otherwise(F.concat(named, F.lit(" has no exact value for this "), _kind_name(kind)))
            causes.append(F.when(~_fits(leaf, kind, value, field), cause))
        return F.coalesce(*causes)

    def _value(self, path: str, leaf: Column, kind: Column, wanted: T.DataType) -> Column:
        """The value of a VARIANT in a type; null: it does not fit, or there is none."""
        if isinstance(wanted, T.StructType):
            return let(F.try_variant_get(leaf, "$", _carrier(wanted)), lambda each: self._struct(path, each, wanted))
        if isinstance(wanted, T.ArrayType):
            found = F.try_variant_get(leaf, "$", "array<variant>")
            return let(found, lambda each: self._elements(path, each, wanted.elementType))
        if isinstance(wanted, T.MapType):
            found = F.try_variant_get(leaf, "$", "map<string,variant>")
            return let(found, lambda each: self._entries(path, each, wanted.valueType))
        name = _NAMES[type(wanted)]
        form = self.times.get(path, TimeForm.ISO_8601)
        rules = table.FORMS[form] if name is ColumnType.TIMESTAMP else table.TABLE[name]
        value = F.when(F.lit(False), F.lit(None).cast(wanted))
        for each, rule in rules.items():  # the usual kind first
            value = value.when(_is(kind, each), self._converted(rule, leaf, kind, wanted, form))
        return value

    def _struct(self, path: str, found: Column, wanted: T.StructType) -> Column:
        def made(values: Column) -> Column:
            fit = F.lit(True)
            for field in wanted.fields:
                leaf = found.getField(field.name)
                fit &= _fits(leaf, F.schema_of_variant(leaf), values.getField(field.name), field)
            return F.when(fit, values)

        values = []
        for field in wanted.fields:
            leaf = found.getField(field.name)
            value = self._value(f"{path}.{field.name}", leaf, F.schema_of_variant(leaf), field.dataType)
            values.append(value.alias(field.name))
        return F.when(found.isNotNull(), let(F.struct(*values), made))

    def _elements(self, path: str, found: Column, wanted: T.DataType) -> Column:
        values = F.transform(found, lambda leaf: self._value(path, leaf, F.schema_of_variant(leaf), wanted))
        return let(values, lambda each: F.when(F.forall(F.zip_with(found, each, _fit), lambda fit: fit), each))

    def _entries(self, path: str, found: Column, wanted: T.DataType) -> Column:
        values = F.transform_values(found, lambda _, leaf: self._value(path, leaf, F.schema_of_variant(leaf), wanted))

        def made(each: Column) -> Column:
            fits = F.zip_with(F.map_values(found), F.map_values(each), _fit)
            return F.when(F.forall(fits, lambda fit: fit), each)

        return let(values, made)

    def _converted(self, rule: Rule, leaf: Column, kind: Column, wanted: T.DataType, form: TimeForm) -> Column:
        """The value by one rule; null: it does not fit."""
        text, plain = F.try_variant_get(leaf, "$", "string"), _typed(leaf, wanted)
        match rule:
            case Rule.CHARACTERS | Rule.WORD | Rule.SAME:
                return plain
            case Rule.DIGITS:
                return F.when(kind != "DOUBLE", text)
            case Rule.TEXT:
                # A list of several kinds has no type, so that the text must tell.
                exact = ~kind.contains("DOUBLE") & (~kind.contains("VARIANT") | ~self.text.rlike(_EXPONENT))
                return F.when(exact, text)
            case Rule.WHOLE:
                exponent = self._with_exponent(leaf, 0).try_cast(T.DecimalType(table.DIGITS_MAX, 0)).try_cast(wanted)
                return F.when((kind == "BIGINT") | kind.endswith(",0)"), plain).when(kind == "DOUBLE", exponent)
            case Rule.DECIMAL:
                return self._decimal(leaf, kind, wanted)
            case Rule.NEAREST:
                return self._nearest(leaf, kind, wanted)
            case Rule.EPOCH:
                return self._instant(leaf, kind, table.EPOCH_DIGITS[form])
            case _:
                return self._of_text(rule, text, wanted)

    def _of_text(self, rule: Rule, text: Column, wanted: T.DataType) -> Column:
        """The value of a string."""
        match rule:
            case Rule.DECIMAL_TEXT:
                exact = _matches(text, table.DECIMAL_PATTERN) & (_fraction(text) <= _scale(wanted))
                return F.when(exact, text.try_cast(wanted))
            case Rule.DATE:
                return F.when(_matches(text, table.DATE_PATTERN), text.try_cast(wanted))
            case Rule.LOCAL:
                return F.when(_matches(text, table.LOCAL_PATTERN), text.try_cast(wanted))
            case Rule.INSTANT:
                return _time(text, table.INSTANT_PATTERN if self.utc else table.ZONED_PATTERN, wanted)
            case Rule.TRUNCATED:  # a cast drops the digits behind the sixth
                pattern = table.TRUNCATED_PATTERN if self.utc else table.ZONED_TRUNCATED_PATTERN
                return _time(text, pattern, wanted)
            case Rule.BASE64:
                content = F.try_to_binary(text, F.lit("base64"))
                return F.when(F.base64(content) == text, content)  # the decoder ignores other characters, and bits
            case _:
                raise AssertionError(rule)

    def _nearest(self, leaf: Column, kind: Column, wanted: T.DataType) -> Column:
        number = _typed(leaf, wanted)
        if isinstance(wanted, T.FloatType):  # of the text: by way of a double it would be rounded twice
            exponent = self._with_exponent(leaf, None).try_cast(wanted)
            text = F.try_variant_get(leaf, "$", "string").try_cast(wanted)
            number = F.when(kind == "DOUBLE", exponent).otherwise(text)
        return F.when(F.abs(number) < float("inf"), number)

    def _decimal(self, leaf: Column, kind: Column, wanted: T.DataType) -> Column:
        scale = _scale(wanted)
        exact = (kind == "BIGINT") | (_fraction(F.try_variant_get(leaf, "$", "string")) <= scale)
        exponent = self._with_exponent(leaf, scale).try_cast(wanted)
        return F.when(kind == "DOUBLE", exponent).when(exact, _typed(leaf, wanted))

    def _instant(self, leaf: Column, kind: Column, digits: int) -> Column:
        """A number of seconds with so many digits for the fraction, as a TIMESTAMP."""
        per = 10**digits
        number = self._decimal(leaf, kind, T.DecimalType(20, digits))
        within = number.between(F.lit(Decimal(table.FIRST_MICROS) / per), F.lit(Decimal(table.LAST_MICROS) / per))
        return F.when(within, F.timestamp_micros((number * F.lit(per)).cast("bigint")))

    def _with_exponent(self, leaf: Column, scale: int | None) -> Column:
        """The text of a number that is a double in the VARIANT, if exactly that with at most `scale` digits."""
        text = F.format_string(f"%.{table.EXPONENT_DIGITS_MAX - 1}e", F.try_variant_get(leaf, "$", "double"))
        exact = ~self.text.rlike(_TOO_LONG)
        if scale is not None:
            digits = F.rtrim(F.regexp_replace(F.substring_index(text, "e", 1), "[-.]", ""), F.lit("0"))
            exact &= F.length(digits) - 1 - F.substring_index(text, "e", -1).try_cast("int") <= scale
        return F.when(exact, text)


def _leaves(wanted: T.DataType, path: str) -> Iterator[tuple[str, T.DataType]]:
    """Path and type of all columns that are no STRUCT, ARRAY or MAP.

    Raises:
        ConfigurationError: A type is not in the table, or a name is twice in a struct.
    """
    if type(wanted) not in _NAMES:
        raise ConfigurationError(
            f"{_FIELD}.schema: {path}: {wanted.simpleString()}: use one of the types {', '.join(ColumnType)}"
        )
    if isinstance(wanted, T.StructType):
        names = [name.lower() for name in wanted.names]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise ConfigurationError(f"{_FIELD}.schema: {twice} is twice, which Spark cannot tell apart: remove one")
        for field in wanted.fields:
            yield from _leaves(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(wanted, T.ArrayType):
        yield from _leaves(wanted.elementType, path)
    elif isinstance(wanted, T.MapType):
        if not isinstance(wanted.keyType, T.StringType):
            raise ConfigurationError(f"{_FIELD}.schema: {path}: keys of a MAP are STRING: write MAP<STRING, …>")
        yield from _leaves(wanted.valueType, path)
    else:
        yield path, wanted


def _carrier(wanted: T.StructType) -> str:
    """A struct with the same names, of VARIANTs."""
    return f"struct<{','.join('`' + name.replace('`', '``') + '`: variant' for name in wanted.names)}>"


def _typed(leaf: Column, wanted: T.DataType) -> Column:
    return F.try_variant_get(leaf, "$", wanted.simpleString())


def _is(kind: Column, wanted: JsonKind) -> Column:
    """Whether a VARIANT with this schema is of a kind of JSON value."""
    match wanted:
        case JsonKind.OBJECT | JsonKind.ARRAY:
            return kind.startswith(f"{wanted.upper()}<")
        case JsonKind.NUMBER:
            return (kind == "BIGINT") | kind.startswith("DECIMAL(") | (kind == "DOUBLE")
        case _:
            return kind == wanted.upper()


def _kind_name(kind: Column) -> Column:
    known = [each for each in JsonKind if each is not JsonKind.NUMBER]
    return F.coalesce(*(F.when(_is(kind, each), each.value) for each in known), F.lit(JsonKind.NUMBER.value))


def _absent(leaf: Column, kind: Column) -> Column:
    return leaf.isNull() | (kind == "VOID")


def _fits(leaf: Column, kind: Column, value: Column, field: T.StructField) -> Column:
    return value.isNotNull() | (_absent(leaf, kind) if field.nullable else F.lit(False))


def _fit(leaf: Column, value: Column) -> Column:
    return value.isNotNull() | _absent(leaf, F.schema_of_variant(leaf))


def _time(text: Column, pattern: str, wanted: T.DataType) -> Column:
    time = F.when(_matches(text, pattern), text.try_cast(wanted))
    return F.when(F.unix_micros(time).between(table.FIRST_MICROS, table.LAST_MICROS), time)


def _matches(text: Column, pattern: str) -> Column:
    return text.rlike(rf"\A(?:{pattern})\z")


def _fraction(text: Column) -> Column:
    """Number of digits behind the point, without zeros at the end."""
    point = F.instr(text, ".")
    return F.when(point > 0, F.length(F.rtrim(text, F.lit("0"))) - point).otherwise(0)


def _scale(wanted: T.DataType) -> int:
    assert isinstance(wanted, T.DecimalType)  # noqa: S101 - for mypy
    return int(wanted.scale)
