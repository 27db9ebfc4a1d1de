"""Compares the ids of sent events with the ids in files and in tables. Shares no code with what it checks.

Readers: pyarrow for each drained file, delta-rs for the table over the files and for the table of Spark.
"""

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient
from deltalake import DeltaTable


@dataclass(frozen=True)
class Verdict:
    """Sent events against the events in one place.

    Attributes:
        place: Files, or a table.
        rows: Number of events there.
        missing: Sent events that are not there.
        twice: Events that are there more than once.
        unknown: Events that were never sent.
    """

    place: str
    rows: int
    missing: int
    twice: int
    unknown: int

    @property
    def is_clean(self) -> bool:
        """Whether each sent event is there exactly once, and nothing else."""
        return not (self.missing or self.twice or self.unknown)

    def __str__(self) -> str:
        return f"{self.place}: {self.rows} rows, {self.missing} missing, {self.twice} twice, {self.unknown} never sent"


def compare(place: str, bodies: Iterable[bytes], sent: set[int], uncertain: set[int]) -> Verdict:
    """PURE: compare the events in one place with the sent ones.

    Args:
        place: Name for the verdict.
        bodies: Body of each event: its id.
        sent: Ids of events that the hub has acknowledged.
        uncertain: Ids of events without a response: each may be there once.
    """
    found = Counter(int(body) for body in bodies)
    return Verdict(
        place,
        rows=found.total(),
        missing=len(sent - found.keys()),
        twice=sum(times > 1 for times in found.values()),
        unknown=len(found.keys() - sent - uncertain),
    )


def bodies_of_files(connection: str, container: str) -> list[bytes]:
    """Bodies of the events in all drained files of a container."""
    found: list[bytes] = []
    with ContainerClient.from_connection_string(connection, container) as sink:
        for blob in sink.list_blobs():
            if "/from=" in blob.name and blob.name.endswith(".parquet"):
                content = sink.download_blob(blob.name).readall()
                found += pq.read_table(io.BytesIO(content), columns=["body"])["body"].to_pylist()
    return found


def bodies_of_table(uri: str, storage: dict[str, str]) -> list[bytes]:
    """Bodies of the events in a Delta table."""
    rows = DeltaTable(uri, storage_options=storage).to_pyarrow_dataset().to_table(columns=["body"])
    bodies: list[bytes] = rows["body"].to_pylist()
    return bodies
