"""Compares the Delta table of Spark with the sent events: every event exactly once.

The table has a row for each event, whose property `id` is its number. delta-rs, which shares no code with Spark, reads
it. Equal counts could hide one lost and one duplicate event, so distinct ids and their sum are compared too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable


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
    """Content of the Delta table: its version, and a tally for each partition key."""

    version: int
    tallies: Mapping[str, Tally]

    @property
    def events(self) -> int:
        """Number of rows."""
        return sum(tally.events for tally in self.tallies.values())


def read_result(uri: str, storage: dict[str, str]) -> Result:
    """Read the table.

    Args:
        uri: Such as az://results/orders.
        storage: Options of delta-rs for the account.
    """
    table = DeltaTable(uri, storage_options=storage)
    rows = table.to_pyarrow_dataset().to_table(columns=["partition_key", "properties"])
    return Result(table.version(), tallies_of(rows))


def tallies_of(rows: pa.Table) -> dict[str, Tally]:
    """PURE: count rows by `partition_key`; their ids are in the map `properties`."""
    ids = pc.cast(pc.map_lookup(rows["properties"], pa.scalar("id"), "first"), pa.int64())
    counted = pa.table({"key": rows["partition_key"], "id": ids}).group_by("key")
    result = counted.aggregate([("id", "count", pc.CountOptions("all")), ("id", "count_distinct"), ("id", "sum")])
    return {
        row["key"]: Tally(events=row["id_count"], ids=row["id_count_distinct"], id_sum=row["id_sum"] or 0)
        for row in result.to_pylist()
    }


def differences(sent: Mapping[str, Tally], result: Mapping[str, Tally]) -> list[str]:
    """Differences, one line per partition key; empty: every event exactly once."""
    lines = []
    for key in sorted(sent.keys() | result.keys()):
        wanted, found = sent.get(key, Tally()), result.get(key, Tally(ids=0))
        if (wanted.events, wanted.events, wanted.id_sum) != (found.events, found.ids, found.id_sum):
            lines.append(
                f"{key}: sent {wanted.events} events (ids add up to {wanted.id_sum}), "
                f"the table has {found.events} with {found.ids} distinct ids (add up to {found.id_sum})"
            )
    return lines
