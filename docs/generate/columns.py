"""docs/reference/columns.md: `python -m docs.generate.columns > docs/reference/columns.md`."""

import json
from collections.abc import Iterable

from eventconsumer_api.spec.column_types import DeltaType
from eventconsumer_api.wire.capture import AVRO_SCHEMA, PROPERTY_TYPES
from eventconsumer_api.wire.file_columns import COLUMNS, ERROR, Column

HEAD = """\
# Columns of a drained file

Generated from the code by `python -m docs.generate.columns`. Parquet files have these columns, in this order. So have
the [Delta table](../concepts/tables.md) over them and `batch.events` in a [Spark program](../how-to/spark-program.md),
also where the files are Avro. The columns are stable within a major version: read them by name.

| column | type | in Avro files | statistics | handler | meaning |
|---|---|---|---|---|---|
"""
TAIL = f"""
With [columns of bodies](../concepts/columns.md), Parquet files and the table have those behind these columns, and at
the end `{ERROR.name}` (STRING): {ERROR.doc}

**Type**: the type in SQL, as in Delta tables and Spark. A time in a Parquet file is in microseconds, UTC.

**In Avro files**: their schema is that of Event Hubs Capture. A column that is not one of its fields is an entry of
`SystemProperties`, under its AMQP name. `EnqueuedTimeUtc` has the format of Capture, without milliseconds. A time in
`SystemProperties` is in milliseconds since 1970, UTC.

**Statistics**: the Delta table has the minimum and the maximum of this column for each file. Readers use them to
[skip files](../concepts/tables.md#limits).

**Handler**: a [handler](../how-to/handler.md) with `handlerMode: Transform` may replace the values of this column.

## Properties
In Avro files, values keep their AMQP type. In Parquet files, the table and Spark, they are text: a string is unchanged,
another type is JSON. [Schema evolution](../how-to/schema-evolution.md) describes binaries and times.
"""
_NAMES = {"long": "BIGINT"}
_CAPTURE = {field["name"]: field["type"] for field in json.loads(AVRO_SCHEMA)["fields"]}


def page(columns: Iterable[Column] = COLUMNS) -> str:
    """The page."""
    return HEAD + "".join(map(_row, columns)) + TAIL


def _row(column: Column) -> str:
    cells = (
        f"`{column.name}`",
        f"`{_sql(column.type)}`" + ("" if column.nullable else ", not null"),
        "; ".join(_avro(column)) or "–",
        "yes" if column.statistics else "",
        "yes" if column.replaceable else "",
        column.doc,
    )
    return f"| {' | '.join(cells)} |\n"


def _sql(kind: DeltaType) -> str:
    if isinstance(kind, str):
        return _NAMES.get(kind, kind.upper())
    match kind:
        case {"type": "struct", "fields": fields}:
            own = ", ".join(f"{each['name']}: {_sql(each['type'])}" for each in fields)
            return f"STRUCT<{own}>"
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{_sql(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{_sql(key)}, {_sql(value)}>"
    raise ValueError(f"the type {kind} has no text")


def _avro(column: Column) -> Iterable[str]:
    if column.avro_field:
        kind = _CAPTURE[column.avro_field]
        text = f"map of {_union(kind['values'])}" if isinstance(kind, dict) else _union(kind)
        yield f"`{column.avro_field}`, {text}"
    if column.system_property:
        yield f"`{column.system_property}` in `SystemProperties`, {PROPERTY_TYPES[str(column.type)]}"


def _union(kind: str | list[str]) -> str:
    return kind if isinstance(kind, str) else f"{', '.join(kind[:-1])} or {kind[-1]}"


if __name__ == "__main__":
    print(page(), end="")
