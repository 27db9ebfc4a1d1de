"""docs/reference/json-columns.md: `python -m docs.generate.json_columns > docs/reference/json-columns.md`."""

from collections.abc import Mapping

from eventconsumer_api.spec import json_columns as table
from eventconsumer_api.spec.json_columns import ColumnType, JsonKind, Rule, TimeForm

HEAD = """\
# JSON to columns

Generated from the code by `python -m docs.generate.json_columns`. This is the table of conversions for
[`spec.spark.output.body`](eventconsumer.md#specsparkoutputbody) with `type: Json` and a `schema`: what a column
takes, by its type and the kind of the JSON value. A value is converted exactly, or the whole event goes to the
quarantine; the cause names the column, its type and the kind of the value. Nothing is rounded, shifted, completed or
cut. Binary floating point is the one exception: `FLOAT` and `DOUBLE` take the nearest value, as all readers of JSON
do.

```yaml
spec:
  spark:
    output:
      path: abfss://results@mystorageaccount.dfs.core.windows.net/orders
      body:
        type: Json
        schema: >-
          id BIGINT NOT NULL, price DECIMAL(10,2), at TIMESTAMP,
          items ARRAY<STRUCT<sku: STRING, packed: TIMESTAMP>>
        times: {at: EpochMillis, items.packed: EpochSeconds}
```

| type of the column | kind of the value | what fits |
|---|---|---|
"""
TAIL = f"""
All other kinds do not fit: a string is no number except for `DECIMAL`, and `1` is not true. Other types are refused.

**Null and absent names** are null in the column. In a column with `NOT NULL` they do not fit; so a document of
another kind, such as `{{}}`, is recognised by a required column that it does not have. Names are compared with
their case.

**Times.** `times` names the form of `TIMESTAMP` columns, with a dot before the field of a `STRUCT`, also in an
`ARRAY` or `MAP`. Without it, the form is `Iso8601`, and a number does not fit, because its unit is unknown. A time
without an offset is UTC; if `spark.sql.session.timeZone` has another value, it does not fit. More than six digits of
a second do not fit unless the rest is zeros. .NET writes seven digits, Go and Java up to nine: allow Spark to cut them
with the form `Iso8601Truncated`, or keep them in a `STRING`.

**Documents.** A body is exactly one JSON document (RFC 8259) in UTF-8, without a byte order mark. An object with a
name twice does not fit, nor does half of a surrogate pair. At most {table.DEPTH_MAX} levels,
{table.NUMBER_DIGITS_MAX} digits for a number and {table.NAME_LENGTH_MAX:,} characters for a name.

**Hosts.** The columns that hosts make of bodies are made by this table too, with `STRING`, `BOOLEAN`, `BIGINT`,
`DOUBLE`, `DECIMAL`, `DATE`, `TIMESTAMP`, `STRUCT`, `ARRAY` and `MAP`. A value that does not fit is null, and the other
columns of the event keep their values; the column `_error` names the column, its type and the kind of the value, in at
most {table.ERROR_BYTES_MAX} bytes. An element that does not fit makes its whole column null. A member on the path of a
column that is null or absent is null in the column; one of another kind than an object is an error. A body that is not
one JSON object has nulls in all columns. The `ARRAY` and `MAP` columns of an event have at most
{table.VALUES_PER_BYTE_MAX} values for each byte of its body, and {table.VALUES_MORE_MAX:,} more; an element that is a
`STRUCT` counts once for each field. A `MAP` has its entries in the order of the document.

**Numbers.** The types that are exact take numbers of at most {table.DIGITS_MAX} digits, without the zero of `0.5`. A
number with an exponent has at most {table.EXPONENT_DIGITS_MAX} digits before it, and an exponent from
-{table.EXPONENT_MAX} to {table.EXPONENT_MAX}, in two digits; this also applies to `FLOAT`. In Spark, where such a
column has a number with an exponent, a longer number elsewhere in the document, or a text like one, may send the event
to the quarantine. `-0` is 0. A number that is too small for `FLOAT` or `DOUBLE` is 0, the nearest value.
"""
_TITLES: Mapping[ColumnType, str] = {
    ColumnType.DECIMAL: "`DECIMAL(p,s)`",
    ColumnType.TIMESTAMP: "`TIMESTAMP`, `Iso8601`",
    ColumnType.STRUCT: "`STRUCT<…>`",
    ColumnType.ARRAY: "`ARRAY<…>`",
    ColumnType.MAP: "`MAP<STRING, …>`",
}


def page() -> str:
    """The page."""
    rows = [_row(_TITLES.get(name, f"`{name}`"), rules) for name, rules in table.TABLE.items()]
    rows.append(_row(f"`TIMESTAMP`, `{TimeForm.TRUNCATED}`", table.TRUNCATED_TABLE))
    epochs = ", ".join(f"`{form}`" for form in table.EPOCH_DIGITS)
    rows.append(_row(f"`TIMESTAMP`, {epochs}", table.EPOCH_TABLE))
    return HEAD + "".join(rows) + TAIL


def _row(title: str, rules: Mapping[JsonKind, Rule]) -> str:
    lines = [f"| {title} | {kind.value} | {rule.value} |\n" for kind, rule in rules.items()]
    return "".join(lines)


if __name__ == "__main__":
    print(page(), end="")
