"""Compares the ids of sent events with the ids in files and in tables. Shares no code with what it checks.

Readers: pyarrow for each drained file, delta-rs for the table over the files and for the table of Spark.
"""

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow.compute as pc
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient
from deltalake import DeltaTable

SHOWN_IDS = 10


@dataclass(frozen=True)
class Verdict:
    """Sent events against the events in one place.

    Attributes:
        place: Files, or a table.
        rows: Number of events there.
        missing: Number of sent events that are not there.
        twice: Number of events that are there more than once.
        unknown: Number of events that were never sent.
        examples: The first ids of each kind, as text; empty: none.
    """

    place: str
    rows: int
    missing: int
    twice: int
    unknown: int
    examples: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether each sent event is there exactly once, and nothing else."""
        return not (self.missing or self.twice or self.unknown)

    def __str__(self) -> str:
        counts = f"{self.rows} rows, {self.missing} missing, {self.twice} twice, {self.unknown} never sent"
        return f"{self.place}: {counts}" + (f" ({self.examples})" if self.examples else "")


@dataclass(frozen=True)
class File:
    """A drained file.

    Attributes:
        name: Its path in the container.
        created: When storage created it.
        content: The Parquet file.
    """

    name: str
    created: datetime
    content: bytes


@dataclass(frozen=True)
class Filed:
    """The events of a file.

    Attributes:
        name: The file's path.
        bodies: Body of each event: its id.
        seconds: From the arrival of its oldest event in the hub to the creation of the file.
    """

    name: str
    bodies: list[bytes]
    seconds: float


def compare(place: str, bodies: Iterable[bytes], sent: set[int], uncertain: set[int]) -> Verdict:
    """PURE: compare the events in one place with the sent ones.

    Args:
        place: Name for the verdict.
        bodies: Body of each event: its id.
        sent: Ids of events that the hub has acknowledged.
        uncertain: Ids of events without a response: each may be there once.
    """
    found = Counter(int(body) for body in bodies)
    wrong = {
        "missing": sorted(sent - found.keys()),
        "twice": sorted(each for each, times in found.items() if times > 1),
        "never sent": sorted(found.keys() - sent - uncertain),
    }
    return Verdict(
        place,
        rows=found.total(),
        missing=len(wrong["missing"]),
        twice=len(wrong["twice"]),
        unknown=len(wrong["never sent"]),
        examples="; ".join(
            f"{kind}: {', '.join(map(str, ids[:SHOWN_IDS]))}{' …' if len(ids) > SHOWN_IDS else ''}"
            for kind, ids in wrong.items()
            if ids
        ),
    )


def read_file(file: File) -> Filed:
    """PURE: the events of a drained file."""
    rows = pq.read_table(io.BytesIO(file.content), columns=["body", "enqueued_time"])
    oldest = pc.min(rows["enqueued_time"]).as_py()
    seconds = (file.created - oldest).total_seconds() if oldest else 0.0
    return Filed(file.name, rows["body"].to_pylist(), seconds)


def drained_files(connection: str, container: str, prefix: str) -> Iterator[File]:
    """All drained files of a consumer.

    Args:
        connection: Connection string of the account.
        container: Container of the sink.
        prefix: Prefix of the sink.
    """
    with ContainerClient.from_connection_string(connection, container) as sink:
        for blob in sink.list_blobs(name_starts_with=f"{prefix}/"):
            if "/from=" in blob.name and blob.name.endswith(".parquet") and blob.size:
                yield File(blob.name, blob.creation_time, sink.download_blob(blob.name).readall())


def bodies_of_table(uri: str, storage: dict[str, str]) -> list[bytes]:
    """Bodies of the events in a Delta table.

    Args:
        uri: Such as az://results/orders, or a folder.
        storage: Options of delta-rs for the account.
    """
    rows = DeltaTable(uri, storage_options=storage).to_pyarrow_dataset().to_table(columns=["body"])
    bodies: list[bytes] = rows["body"].to_pylist()
    return bodies
