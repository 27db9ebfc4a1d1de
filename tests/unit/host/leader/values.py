"""Values at the ends of their types, and files whose bounds are made of them, for readers of the table."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from eventconsumer_api.spec.body_columns import BodyColumn, schema_columns
from tests.unit.host.leader.test_table import Table

VALUES: dict[str, list[Any]] = {
    "text STRING": [
        "",
        "a",
        "z" * 20,
        "z" * 15 + "\ud7ff" + "zz",
        "\U0010ffff" * 16,
        "it's",
        "\U00020000\U00030000",
        " \x7f",
        "\uffff",
    ],
    "number BIGINT": [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1],
    "ratio DOUBLE": [-1e300, -0.0, 0.0, 0.1, 1 / 3, 1e-300, 1e22],
    "price DECIMAL(38, 10)": [
        Decimal("-0.0000000001"),
        Decimal("0.29"),
        Decimal("99999999999.9999"),
        Decimal(10) ** 20,
    ],
    "day DATE": [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 2), date(9999, 12, 31)],
    "at TIMESTAMP": [
        datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(2262, 1, 1, tzinfo=UTC) + timedelta(microseconds=1),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ],
}


def _json(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value.isoformat() if isinstance(value, date) else value)


def bounded(columns: Sequence[BodyColumn]) -> tuple[BodyColumn, ...]:
    """The same with statistics."""
    return tuple(replace(each, statistics=True) for each in columns)


async def write_values(table: Table, column: str) -> list[Any]:
    """Write files of a column of `VALUES`: each value alone, with its neighbour, and beside nulls; their rows."""
    (declared,) = bounded(schema_columns(column))
    values, rows = VALUES[column], list[Any]()
    for some in (*([value] for value in values), *(values[at : at + 2] for at in range(len(values))), [None]):
        texts = [b"{}" if value is None else f'{{"{declared.name}": {_json(value)}}}'.encode() for value in some]
        await table.write_typed("0", [declared], [*texts, b"{}"])
        rows += [*some, None]
    return rows
