"""Compares both Delta tables with the sent events: every event exactly once. Queries the one over the files by SQL.

Both have a row for each event. Its number is in the property `id`, and in the column `order_number` that hosts make of
its body. delta-rs, which shares no code with hosts and Spark, reads them. Equal counts could hide one lost and one
duplicate event, so distinct ids and their sum are compared too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError


@dataclass(frozen=True)
class Tally:
    """Events of one partition key; `ids` is the number of distinct ids."""

    events: int = 0
    id_sum: int = 0
    ids: int | None = None

    def __add__(self, other: "Tally") -> "Tally":
        ids = None if self.ids is None or other.ids is None else self.ids + other.ids
        return Tally(self.events + other.events, self.id_sum + other.id_sum, ids)


@dataclass(frozen=True)
class Result:
    """Content of a Delta table: its version, and a tally for each partition key, or each customer."""

    version: int
    tallies: Mapping[str, Tally]

    @property
    def events(self) -> int:
        """Number of rows."""
        return sum(tally.events for tally in self.tallies.values())


def read_result(uri: str, storage: dict[str, str]) -> Result:
    """Read the table of Spark.

    Args:
        uri: Such as az://results/orders.
        storage: Options of delta-rs for the account.
    """
    table = DeltaTable(uri, storage_options=storage)
    rows = table.to_pyarrow_dataset().to_table(columns=["partition_key", "properties"])
    ids = pc.cast(pc.map_lookup(rows["properties"], pa.scalar("id"), "first"), pa.int64())
    return Result(table.version(), tallies_of(rows["partition_key"], ids))


def read_columns(uri: str, storage: dict[str, str]) -> Result:
    """Read the table over the files, whose columns `customer` and `order_number` are of the bodies."""
    table = DeltaTable(uri, storage_options=storage)
    rows = table.to_pyarrow_dataset().to_table(columns=["customer", "order_number"])
    return Result(table.version(), tallies_of(rows["customer"], rows["order_number"]))


def query(uri: str, storage: dict[str, str], sql: str) -> list[dict[str, Any]] | None:
    """The rows that a query finds in the table, which it calls `orders`; None: it is not there yet, or has no files."""
    try:
        table = DeltaTable(uri, storage_options=storage)
    except TableNotFoundError:
        return None
    except OSError as error:
        if "ContainerNotFound" in str(error):
            return None
        raise
    if not table.file_uris():  # columns of bodies come with the first file
        return None
    rows: list[dict[str, Any]] = pa.table(QueryBuilder().register("orders", table).execute(sql)).to_pylist()
    return rows


def tallies_of(keys: pa.ChunkedArray, ids: pa.ChunkedArray) -> dict[str, Tally]:
    """PURE: count rows with these ids by their keys."""
    counted = pa.table({"key": keys, "id": ids}).group_by("key")
    result = counted.aggregate([("id", "count", pc.CountOptions("all")), ("id", "count_distinct"), ("id", "sum")])
    return {
        row["key"]: Tally(events=row["id_count"], ids=row["id_count_distinct"], id_sum=row["id_sum"] or 0)
        for row in result.to_pylist()
    }


def differences(sent: Mapping[str, Tally], result: Mapping[str, Tally]) -> list[str]:
    """Differences, one line per partition key; empty: every event exactly once."""
    lines = []
    for key in sorted(sent.keys() | result.keys(), key=str):  # None: a row without a key
        wanted, found = sent.get(key, Tally()), result.get(key, Tally(ids=0))
        if (wanted.events, wanted.events, wanted.id_sum) != (found.events, found.ids, found.id_sum):
            lines.append(
                f"{key}: sent {wanted.events} events (ids add up to {wanted.id_sum}), "
                f"the table has {found.events} with {found.ids} distinct ids (add up to {found.id_sum})"
            )
    return lines
