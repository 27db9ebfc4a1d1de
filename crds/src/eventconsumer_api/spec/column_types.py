"""Types of columns: those of Delta's log, and the text of the types that columns of bodies have.

The text is that of Spark DDL, without what would change a value: `INT` and `FLOAT` are `BIGINT` and `DOUBLE`, and all
that is inside of a type is nullable.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

DeltaType = str | Mapping[str, Any]
"""A type as in the log of a Delta table: the name of a primitive one, or an object for a struct, an array or a map.

Source: "Schema Serialization Format" in PROTOCOL.md of github.com/delta-io/delta.
"""

DEPTH_MAX = 8
"""Maximum number of ARRAY, STRUCT and MAP around a type."""
NAME_MAX = 128
"""Maximum length of the name of a column and of a field, characters."""
PRECISION_MAX = 38
"""Maximum number of digits of DECIMAL."""

NAME = r"[A-Za-z][A-Za-z0-9_]*"
"""A regular expression of the name of a column."""
_SIMPLE = {"STRING": "string", "BOOLEAN": "boolean", "BIGINT": "long", "DOUBLE": "double", "DATE": "date"} | {
    "TIMESTAMP": "timestamp"
}
_TEXTS = {kind: word for word, kind in _SIMPLE.items()}
_DELTA_DECIMAL = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
_ALL = "STRING, BOOLEAN, BIGINT, DOUBLE, DECIMAL(p, s), DATE, TIMESTAMP, ARRAY<…>, STRUCT<name: type>, MAP<STRING, …>"
_INSTEAD = {
    **dict.fromkeys(("TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "LONG"), "BIGINT"),
    **dict.fromkeys(("FLOAT", "REAL"), "DOUBLE"),
    **dict.fromkeys(("DEC", "NUMERIC"), "DECIMAL(p, s)"),
    **dict.fromkeys(("CHAR", "VARCHAR", "TEXT", "BINARY"), "STRING"),
    **dict.fromkeys(("VARIANT", "JSON"), "STRING, which takes an object or array as its text"),
    **dict.fromkeys(("TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "DATETIME"), "TIMESTAMP"),
    "BOOL": "BOOLEAN",
}

# A field of a struct has the name of a member of a JSON object, which often has a hyphen or another sign. Parquet
# files of a Delta table cannot have ` ,;{}()\n\t=` in names.
_FIELD = r"[A-Za-z0-9_]+"
_QUOTED = r"`[A-Za-z0-9_.@$:/#+-]+`"
_WORD = (
    f"(?i:{'|'.join(_SIMPLE)}|ARRAY|STRUCT|MAP|"
    r"DECIMAL *\( *[0-9]{1,2} *, *[0-9]{1,2} *\))"
)
_ITEM = f"(({_FIELD}|{_QUOTED}) *: *)?{_WORD}"
TYPE_PATTERN = f"^ *({_ITEM} *(> *)*([<,] *|$))+$"
"""All words of a type are known. A regular expression cannot count brackets: `parse_type` does. The API server adds up
what it may cost for all columns, so it is short, and also matches a comma at the end."""
_COLUMN = f"{NAME} +{_WORD}"
_NOT_NULL = "( +(?i:NOT +NULL))?"
SCHEMA_PATTERN = f"^ *{_COLUMN}{_NOT_NULL}( *< *{_ITEM}| *, *({_COLUMN}{_NOT_NULL}|{_ITEM})| *>{_NOT_NULL})* *$"
"""The same of columns in one text; see `parse_columns`."""
TOLD = f"use {_ALL}: write BIGINT for INT, DOUBLE for FLOAT"
"""What to write, for a text that is not of the pattern."""

_TOKEN = re.compile(r" *(?:([A-Za-z0-9_]+)|(`[^`]*`)|(.)|$)", re.DOTALL)


class NamedType(NamedTuple):
    """A column in a text of several.

    Attributes:
        name: Its name.
        type: Its type.
        required: Whether it is NOT NULL.
    """

    name: str
    type: DeltaType
    required: bool


def parse_type(text: str) -> DeltaType:
    """The type in a text, such as `ARRAY<STRUCT<sku: STRING, qty: BIGINT>>`.

    Words may be in any case, and spaces between them are ignored. Names of fields are in backticks if they have other
    characters than letters, digits and _: also `.`, `@`, `$`, `:`, `/`, `#`, `+` and `-`.

    Raises:
        ValueError: It is no type; cause and remedy.
    """
    reader = _Reader(text)
    found = reader.type(0)
    if reader.next:
        raise ValueError(f"{_shown(reader.next)} after the type: remove it")
    return found


def parse_columns(text: str) -> tuple[NamedType, ...]:
    """The columns in a text, such as `order STRING, cents BIGINT NOT NULL`.

    Raises:
        ValueError: It is no list of columns; names the column, the cause and the remedy.
    """
    reader, found = _Reader(text), list[NamedType]()
    while True:
        name = reader.word("the name of a column")
        with naming(name):
            kind, required = reader.type(0), False
            if reader.next.upper() == "NOT":
                reader.step()
                reader.expect("NULL")
                required = True
            found.append(NamedType(name, kind, required))
            if not reader.next:
                return tuple(found)
            reader.expect(",")


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Adds the name of a column to an error."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"column {_shown(name)}: {error}") from None


class _Reader:
    """The tokens of a text: words, names in backticks, and single characters. `next` is empty at the end."""

    def __init__(self, text: str) -> None:
        self._tokens = (match.group().lstrip(" ") for match in _TOKEN.finditer(text))
        self.next = next(self._tokens)

    def step(self) -> str:
        taken, self.next = self.next, next(self._tokens, "")
        return taken

    def expect(self, token: str) -> None:
        if self.next.upper() != token:
            raise ValueError(f"{token} is missing before {_shown(self.next)}: add it")
        self.step()

    def word(self, what: str) -> str:
        if not re.fullmatch(_FIELD, self.next):
            raise ValueError(f"{what} is missing before {_shown(self.next)}: add it")
        return self.step()

    def type(self, depth: int) -> DeltaType:
        if depth > DEPTH_MAX:
            raise ValueError(
                f"more than {DEPTH_MAX} levels of ARRAY, STRUCT and MAP: write STRING for the inner ones, which takes "
                "an object or array as its text"
            )
        written = self.word("a type")
        word = written.upper()
        if word in _SIMPLE:
            return _SIMPLE[word]
        match word:
            case "DECIMAL":
                return self._decimal()
            case "ARRAY":
                self.expect("<")
                element = self.type(depth + 1)
                self.expect(">")
                return _array(element)
            case "STRUCT":
                self.expect("<")
                fields = dict(self._fields(depth + 1))
                self.expect(">")
                return _struct(fields)
            case "MAP":
                self.expect("<")
                if self.type(depth + 1) != "string":
                    raise ValueError("a MAP whose keys are not STRING: names of JSON are text: write MAP<STRING, …>")
                self.expect(",")
                value = self.type(depth + 1)
                self.expect(">")
                return _map(value)
        raise ValueError(f"{_shown(written)} is no type of a column: write {_INSTEAD.get(word, f'one of {_ALL}')}")

    def _decimal(self) -> str:
        self.expect("(")
        precision = self._number()
        self.expect(",")
        scale = self._number()
        self.expect(")")
        return _decimal(precision, scale)

    def _number(self) -> int:
        if not re.fullmatch("0|[1-9][0-9]?", self.next):
            raise ValueError(f"DECIMAL with {_shown(self.next)}: write DECIMAL(p, s), such as DECIMAL(10, 2)")
        return int(self.step())

    def _fields(self, depth: int) -> Iterator[tuple[str, DeltaType]]:
        known = set[str]()
        while True:
            quoted = re.fullmatch(_QUOTED, self.next)
            if not quoted and self.next.startswith("`"):
                raise ValueError(
                    f"the field {_shown(self.next)}: a name in backticks has letters, digits and _ . @ $ : / # + -"
                )
            name = self.step().strip("`") if quoted else self.word("the name of a field")
            if len(name) > NAME_MAX:
                raise ValueError(f"the field {_shown(name)}: a name has at most {NAME_MAX} characters")
            if name.lower() in known:
                raise ValueError(
                    f"the field {_shown(name)} is there twice: names of columns are compared without case: remove one"
                )
            known.add(name.lower())
            self.expect(":")
            yield name, self.type(depth)
            if self.next.upper() == "NOT":
                raise ValueError(f"the field {_shown(name)} has NOT NULL: fields may be null: remove NOT NULL")
            if self.next != ",":
                return
            self.step()


def type_text(kind: DeltaType) -> str:
    """The text of a type; equal for equal types, and read by `parse_type`.

    Raises:
        ValueError: No column of a body has this type.
    """
    match kind:
        case str() if kind in _TEXTS:
            return _TEXTS[kind]
        case str() if found := _DELTA_DECIMAL.fullmatch(kind):
            precision, scale = int(found[1]), int(found[2])
            if kind == _decimal(precision, scale):
                return f"DECIMAL({precision}, {scale})"
        case {"type": "array", "elementType": element} if kind == _array(element):
            return f"ARRAY<{type_text(element)}>"
        case {"type": "map", "valueType": value} if kind == _map(value):
            return f"MAP<STRING, {type_text(value)}>"
        case {"type": "struct", "fields": [*fields]}:
            own = {each["name"]: each["type"] for each in fields}
            if kind == _struct(own):
                return f"STRUCT<{', '.join(f'{_field_text(name)}: {type_text(each)}' for name, each in own.items())}>"
    raise ValueError(f"no column of a body has the type {_shown(str(kind))}: use {_ALL}")


def inner_types(kind: DeltaType) -> Iterator[str]:
    """The primitive types in a type, of Delta: each is a column of a Parquet file."""
    match kind:
        case str():
            yield kind
        case {"type": "array", "elementType": element}:
            yield from inner_types(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from inner_types(key)
            yield from inner_types(value)
        case {"type": "struct", "fields": fields}:
            for each in fields:
                yield from inner_types(each["type"])


def _decimal(precision: int, scale: int) -> str:
    if not (1 <= precision <= PRECISION_MAX and scale <= precision):
        raise ValueError(
            f"DECIMAL({precision}, {scale}): write DECIMAL(p, s), where p is 1 to {PRECISION_MAX} digits, and s of "
            "them are behind the point"
        )
    return f"decimal({precision},{scale})"


def _array(element: DeltaType) -> DeltaType:
    return {"type": "array", "elementType": element, "containsNull": True}


def _map(value: DeltaType) -> DeltaType:
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


def _struct(fields: Mapping[str, DeltaType]) -> DeltaType:
    own = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields.items()]
    return {"type": "struct", "fields": own}


def _field_text(name: str) -> str:
    return name if re.fullmatch(_FIELD, name) else f"`{name}`"


def _shown(text: str) -> str:
    """A part of a text in a message."""
    return (f"{text[:40]}…" if len(text) > 40 else text) or "the end"  # noqa: PLR2004
