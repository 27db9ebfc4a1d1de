"""Arrow's schema of columns."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import pyarrow as pa

from eventconsumer_api.spec.column_types import DeltaType
from eventconsumer_api.wire.file_columns import Column

Unit = Literal["ms", "us"]
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_PRIMITIVES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "binary": pa.binary(),
}


def arrow_schema(columns: Iterable[Column], unit: Unit = "us") -> pa.Schema:
    """The schema of columns; `unit` is that of times.

    Raises:
        ValueError: A type has no counterpart.
    """
    return pa.schema([pa.field(each.name, arrow_type(each.type, unit), each.nullable) for each in columns])


def arrow_type(kind: DeltaType, unit: Unit = "us") -> pa.DataType:
    """Arrow's type for a type of Delta.

    Raises:
        ValueError: There is none.
    """
    if isinstance(kind, str):
        return _primitive(kind, unit)
    match kind:
        case {"type": "struct", "fields": fields}:
            own = ((each["name"], arrow_type(each["type"], unit), each["nullable"]) for each in fields)
            return pa.struct([pa.field(*each) for each in own])
        case {"type": "array", "elementType": element, "containsNull": nullable}:
            return pa.list_(pa.field("element", arrow_type(element, unit), nullable))
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}:
            return pa.map_(arrow_type(key, unit), pa.field("value", arrow_type(value, unit), nullable))
    raise ValueError(f"the type {kind} has no counterpart in Arrow")


def _primitive(kind: str, unit: Unit) -> pa.DataType:
    if kind == "timestamp":
        return pa.timestamp(unit, "UTC")
    if decimal := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if kind not in _PRIMITIVES:
        raise ValueError(f"the type {kind} has no counterpart in Arrow")
    return _PRIMITIVES[kind]
