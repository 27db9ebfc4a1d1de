"""Compares sent events with those in files and tables: ids, and values of columns. Shares no code with what it checks.

Readers: pyarrow for each drained file, delta-rs for the table over the files and for the table of Spark.
"""

import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient
from deltalake import DeltaTable

from tests.chaos import orders

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
        wrong: Number of events whose columns have other values than the event.
        examples: The first ids of each kind, as text; empty: none.
    """

    place: str
    rows: int
    missing: int
    twice: int
    unknown: int
    examples: str = ""
    wrong: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether each sent event is there exactly once with its values, and nothing else."""
        return not (self.missing or self.twice or self.unknown or self.wrong)

    def __str__(self) -> str:
        counts = f"{self.rows} rows, {self.missing} missing, {self.twice} twice, {self.unknown} never sent"
        counts += f", {self.wrong} with wrong values" if self.wrong else ""
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
        events: Its events.
        seconds: From the arrival of its oldest event in the hub to the creation of the file.
    """

    name: str
    events: "Events"
    seconds: float


@dataclass(frozen=True)
class Events:
    """Events of a file or of a table.

    Attributes:
        bodies: Body of each: an order.
        wrong: Ids of the events whose columns have other values than the order.
    """

    bodies: list[bytes]
    wrong: list[int]

    def __add__(self, other: "Events") -> "Events":
        return Events(self.bodies + other.bodies, self.wrong + other.wrong)


def compare(place: str, events: Events, sent: set[int], uncertain: set[int]) -> Verdict:
    """PURE: compare the events in one place with the sent ones.

    Args:
        place: Name for the verdict.
        events: The events there.
        sent: Ids of events that the hub has acknowledged.
        uncertain: Ids of events without a response: each may be there once.
    """
    found = Counter(map(orders.identity, events.bodies))
    kinds = {
        "missing": sorted(sent - found.keys()),
        "twice": sorted(each for each, times in found.items() if times > 1),
        "never sent": sorted(found.keys() - sent - uncertain),
        "with wrong values": sorted(events.wrong),
    }
    return Verdict(
        place,
        rows=found.total(),
        missing=len(kinds["missing"]),
        twice=len(kinds["twice"]),
        unknown=len(kinds["never sent"]),
        examples="; ".join(
            f"{kind}: {', '.join(map(str, ids[:SHOWN_IDS]))}{' …' if len(ids) > SHOWN_IDS else ''}"
            for kind, ids in kinds.items()
            if ids
        ),
        wrong=len(events.wrong),
    )


def read_file(file: File, *, typed: bool = False) -> Filed:
    """PURE: the events of a drained file; typed: it must have the columns of orders."""
    rows = pq.read_table(io.BytesIO(file.content), columns=["enqueued_time", *_columns(typed)])
    oldest = pc.min(rows["enqueued_time"]).as_py()
    seconds = (file.created - oldest).total_seconds() if oldest else 0.0
    return Filed(file.name, _events(rows, typed), seconds)


def _columns(typed: bool) -> list[str]:
    return ["body", *orders.NAMES] if typed else ["body"]


def _events(rows: pa.Table, typed: bool) -> Events:
    bodies: list[bytes] = rows["body"].to_pylist()
    found = rows.select(orders.NAMES).to_pylist() if typed else []
    ids = map(orders.identity, bodies)
    wrong = [number for number, row in zip(ids, found, strict=False) if orders.of_row(row) != orders.values(number)]
    return Events(bodies, wrong)


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


def read_delta(uri: str, storage: dict[str, str], *, typed: bool = False) -> Events:
    """The events in a Delta table.

    Args:
        uri: Such as az://results/orders, or a folder.
        storage: Options of delta-rs for the account.
        typed: Whether it must have the columns of orders.
    """
    rows = DeltaTable(uri, storage_options=storage).to_pyarrow_dataset().to_table(columns=_columns(typed))
    return _events(rows, typed)
