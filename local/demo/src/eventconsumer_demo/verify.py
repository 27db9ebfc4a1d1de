"""Compares what Spark computed with what the publisher sent: every event exactly once.

The result is a Parquet table per batch with a row for each partition key: `events` (rows), `ids` (distinct ids) and
`id_sum`. Equal counts could hide one event lost and another doubled, so the sums of the ids are compared too.
"""

import io
from collections import defaultdict
from dataclasses import dataclass

import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient


@dataclass
class Tally:
    """Events of one partition key."""

    events: int = 0
    id_sum: int = 0
    ids: int | None = None


def read_result(container: ContainerClient, folder: str) -> dict[str, Tally]:
    """Add up the tables of all batches under `folder`: {partition key: Tally}."""
    result: dict[str, Tally] = defaultdict(lambda: Tally(ids=0))
    for blob in container.list_blobs(name_starts_with=f"{folder}/_batch="):
        if not blob.name.endswith(".parquet"):
            continue
        table = pq.read_table(io.BytesIO(container.download_blob(blob.name).readall()))
        for row in table.to_pylist():
            tally = result[row["partition_key"]]
            tally.events += row["events"]
            tally.id_sum += row["id_sum"]
            tally.ids = (tally.ids or 0) + row["ids"]
    return dict(result)


def differences(sent: dict[str, Tally], result: dict[str, Tally]) -> list[str]:
    """What is not as it must be, one line a partition key; empty: every event exactly once."""
    lines = []
    for key in sorted(sent.keys() | result.keys()):
        wanted, found = sent.get(key, Tally()), result.get(key, Tally(ids=0))
        if (wanted.events, wanted.events, wanted.id_sum) != (found.events, found.ids, found.id_sum):
            lines.append(
                f"{key}: sent {wanted.events} events (ids add up to {wanted.id_sum}), "
                f"Spark saw {found.events} with {found.ids} distinct ids (add up to {found.id_sum})"
            )
    return lines
