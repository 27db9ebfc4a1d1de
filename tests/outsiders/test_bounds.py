"""Columns of bodies in the table of hosts: other programs find each value by the bounds of files."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.outsiders.readers import duck_with
from tests.unit.host.leader.test_table import LOG, Table, dumped
from tests.unit.host.leader.values import VALUES, write_values

Finder = Callable[[str, str, str, Any], list[Any]]
"""Root of the table, column, its type, and a value or None -> the values of the rows that have it."""


def find_polars(root: str, name: str, kind: str, value: Any) -> list[Any]:
    column = pl.col(name)
    wanted = pl.lit(value, dtype=pl.Decimal(38, 10)) if isinstance(value, Decimal) else value
    found = pl.scan_delta(root).filter(column.is_null() if value is None else column == wanted)
    return found.select(column).collect()[name].to_list()


def find_duckdb(root: str, name: str, kind: str, value: Any) -> list[Any]:
    with duck_with("delta") as made:
        wanted = str(value) if isinstance(value, Decimal) else value
        where = "IS NULL AND ? IS NULL" if value is None else f"= CAST(? AS {kind})"
        rows = made.execute(f'SELECT "{name}" FROM delta_scan(\'{root}\') WHERE "{name}" {where}', [wanted]).fetchall()
    return [row[0] for row in rows]


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("find", [find_polars, find_duckdb])
@pytest.mark.parametrize("column", VALUES)
async def test_each_value_is_found_by_the_bounds_of_files(
    column: str, find: Finder, checkpoint: bool, tmp_path: Path
) -> None:
    name, _, kind = column.partition(" ")
    table = Table()
    rows = await write_values(table, column)
    await table.committer(versions=1 if checkpoint else 1000).advance(["0"])
    if checkpoint:
        for log in [each for each in table.store.blobs if each.startswith(LOG) and each.endswith("0.json")]:
            del table.store.blobs[log]
    root = str(dumped(table.store, tmp_path))
    kind = kind.replace("STRING", "VARCHAR").replace("TIMESTAMP", "TIMESTAMPTZ")
    for value in (*VALUES[column], None):
        assert find(root, name, kind, value) == [each for each in rows if each == value]
