"""What both parsers of bodies know of the columns: types with their rules, and the texts of errors.

The rules are those of `eventconsumer_api.spec.json_columns`; nothing here says what fits.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from eventconsumer_api.spec import json_columns as table
from eventconsumer_api.spec.body_columns import BodyColumn
from eventconsumer_api.spec.column_types import DeltaType
from eventconsumer_api.spec.json_columns import ColumnType, JsonKind, Rule, TimeForm
from eventconsumer_host.source.schema import arrow_type

ERROR = "_error"
"""The column with the errors of a row; null: none."""
KINDS = tuple(JsonKind)
DEPTH_MAX = 32  # of a type
MORE_BYTES = 24  # of an error, for the number of those that are left out

_NAME_BYTES, _TYPE_BYTES = 100, 200
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_PRIMITIVES: Mapping[str, ColumnType] = {
    "string": ColumnType.STRING,
    "boolean": ColumnType.BOOLEAN,
    "long": ColumnType.BIGINT,
    "double": ColumnType.DOUBLE,
    "date": ColumnType.DATE,
    "timestamp": ColumnType.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A type without others in it.

    Attributes:
        type: Its name.
        rules: What fits, by the kind of the value.
        precision: Digits of a DECIMAL; else 0.
        scale: Digits behind the point, of a DECIMAL, and of a TIMESTAMP that is a number; else 0.
    """

    type: ColumnType
    rules: Mapping[JsonKind, Rule]
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"{self.type}({self.precision},{self.scale})" if self.precision else self.type


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with these fields."""

    fields: tuple[tuple[str, "Type"], ...]

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name}: {each}' for name, each in self.fields)}>"


@dataclass(frozen=True, slots=True)
class Array:
    """An array of values of one type."""

    element: "Type"

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """An object of any names, with values of one type."""

    value: "Type"

    def __str__(self) -> str:
        return f"MAP<STRING, {self.value}>"


Type = Leaf | Struct | Array | Map


class Fault(IntEnum):
    """Why a body has no columns at all, the first cause first."""

    NO_UTF8 = 0
    NO_DOCUMENT = 1
    HALF_PAIR = 2
    TWICE = 3
    NO_OBJECT = 4


FAULTS: Mapping[Fault, str] = {
    Fault.NO_UTF8: "the body is not UTF-8",
    Fault.NO_DOCUMENT: f"the body is not one JSON document of at most {table.DEPTH_MAX} levels, with numbers of at "
    f"most {table.NUMBER_DIGITS_MAX} digits and names of at most {table.NAME_LENGTH_MAX} characters",
    Fault.HALF_PAIR: "the body is JSON with half of a surrogate pair, which is no character",
    Fault.TWICE: "the body is JSON with a name that is twice in an object",
    Fault.NO_OBJECT: "the body is JSON, but no object",
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A column as the parsers need it.

    Attributes:
        path: The names from the root to the value.
        type: Its type.
        required: Whether null is an error.
        misfits: The error of a value that does not fit, by its kind.
        absent: The error if there is no value and the column is required.
        blocked: The error if a value on the path is no object, by its kind.
        too_many: The error of an array or an object with more values than an event may have.
    """

    path: tuple[str, ...]
    type: Type
    required: bool
    misfits: Mapping[JsonKind, str]
    absent: str
    blocked: Mapping[JsonKind, str]
    too_many: str


def plan(columns: Iterable[BodyColumn]) -> list[Planned]:
    """The columns as the parsers need them.

    Raises:
        ValueError: A type is none of those that bodies can have.
    """
    return [_planned(column) for column in columns]


def schema(columns: Iterable[BodyColumn]) -> pa.Schema:
    """The schema of parsed bodies.

    Raises:
        ValueError: A type has no counterpart in Arrow.
    """
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    return pa.schema([*fields, pa.field(ERROR, pa.string())])


def width(kind: Type) -> int:
    """How often an element of this type counts."""
    return max(1, sum(width(each) for _, each in kind.fields)) if isinstance(kind, Struct) else 1


def joined(errors: Sequence[str]) -> str:
    """The errors of a row as one text: the first ones, and the number of the others."""
    text = errors[0]
    for index, error in enumerate(errors[1:], 1):
        if len(text.encode()) + len(error.encode()) + 2 > table.ERROR_BYTES_MAX - MORE_BYTES:
            return f"{text}; and {len(errors) - index} more"
        text = f"{text}; {error}"
    return text


def _planned(column: BodyColumn) -> Planned:
    kind = _type(column.type, column.form, DEPTH_MAX)
    named = f"column {_cut(column.name, _NAME_BYTES)}: {_cut(str(kind), _TYPE_BYTES)}"
    return Planned(
        column.path,
        kind,
        column.required,
        {each: f"{named} has no exact value for this {each}" for each in KINDS},
        f"{named} is required, but there is no value",
        {each: f"{named} has a path that leads through this {each}, not through an object" for each in KINDS},
        f"{named} has more values than a body of this size may have",
    )


def _type(kind: DeltaType, form: TimeForm, depth: int) -> Type:
    if not depth:
        raise ValueError(f"a type has more than {DEPTH_MAX} levels")
    match kind:
        case str():
            return _leaf(kind, form)
        case {"type": "struct", "fields": fields} if all(each["nullable"] for each in fields):
            return Struct(tuple((each["name"], _type(each["type"], form, depth - 1)) for each in fields))
        case {"type": "array", "elementType": element, "containsNull": True}:
            return Array(_type(element, form, depth - 1))
        case {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}:
            return Map(_type(value, form, depth - 1))
    raise ValueError(f"columns of bodies cannot have the type {kind}")


def _leaf(kind: str, form: TimeForm) -> Leaf:
    if decimal := _DECIMAL.fullmatch(kind):
        return Leaf(ColumnType.DECIMAL, table.TABLE[ColumnType.DECIMAL], int(decimal[1]), int(decimal[2]))
    if kind not in _PRIMITIVES:
        raise ValueError(f"columns of bodies cannot have the type {kind}")
    name = _PRIMITIVES[kind]
    if name is ColumnType.TIMESTAMP:
        return Leaf(name, table.FORMS[form], scale=table.EPOCH_DIGITS.get(form, 0))
    return Leaf(name, table.TABLE[name])


def _cut(text: str, size: int) -> str:
    """A text of at most so many bytes."""
    content = text.encode()
    return text if len(content) <= size else content[: size - 3].decode(errors="ignore") + "…"
