"""Checks drained files as an auditor would: from the blobs alone, with none of the host's code."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient


@dataclass
class Drained:
    """All files of a consumer, checked: S2 chained, S3 rows inside their slot, hash and count right, S6 epochs rise."""

    rows: dict[str, list[int]]  # partition -> sequence numbers
    bodies: list[bytes]
    epochs: dict[str, list[int]]
    gaps: dict[str, str]  # file -> reason
    table: pa.Table


def read_drained(container: ContainerClient, prefix: str) -> Drained:
    """Read and check every file."""
    drained = Drained({}, [], {}, {}, pa.table({}))
    tables = []
    eras = {name.split("/segment=")[1].split("/")[0] for name in _names(container, f"{prefix}/segment=")}
    assert len(eras) <= 1
    for era in eras:
        names = _names(container, f"{prefix}/segment={era}/")
        for partition in sorted({name.split("partition=")[1].split("/")[0] for name in names}):
            genesis = json.loads(_content(container, f"{prefix}/_genesis/{era}/{partition}.json"))
            expected = int(genesis["start"])
            rows = drained.rows.setdefault(partition, [])
            epochs = drained.epochs.setdefault(partition, [])
            for blob in container.list_blobs(f"{prefix}/segment={era}/partition={partition}/", include=["metadata"]):
                facts: dict[str, Any] = blob.metadata
                data = _content(container, blob.name)
                assert blob.name.endswith(f"/from={expected:020d}.parquet"), (blob.name, expected)
                assert hashlib.sha256(data).hexdigest() == facts["sha256"]
                table = pq.read_table(pa.BufferReader(data))
                numbers = table["sequence_number"].to_pylist()
                assert numbers == sorted(set(numbers))
                assert (numbers[0], numbers[-1], len(numbers)) == (
                    int(facts["first"]),
                    int(facts["last"]),
                    int(facts["count"]),
                )
                assert numbers[0] >= expected
                assert set(table["partition_id"].to_pylist()) == {partition}
                if "gap" in facts:
                    drained.gaps[blob.name] = facts["gap"]
                else:
                    assert numbers == list(range(expected, numbers[-1] + 1))
                rows += numbers
                epochs.append(int(facts["epoch"]))
                drained.bodies += table["body"].to_pylist()
                tables.append(table.replace_schema_metadata(None))
                expected = numbers[-1] + 1
            assert epochs == sorted(epochs)
    if tables:
        drained.table = pa.concat_tables(tables)
    return drained


def assert_exactly_once(drained: Drained, heads: dict[str, int], sent: int) -> None:
    """Every event up to the hub's heads is in exactly one file, and every event sent is there."""
    assert {p: max(rows) for p, rows in drained.rows.items() if rows} == {p: h for p, h in heads.items() if h >= 0}
    for partition, rows in drained.rows.items():
        assert rows == list(range(rows[0], heads[partition] + 1))
    numbers = Counter(int(body.split(b"|")[0]) for body in drained.bodies)
    assert len(numbers) == sent
    assert set(numbers.values()) <= {1}


def _names(container: ContainerClient, prefix: str) -> list[str]:
    return [blob.name for blob in container.list_blobs(prefix)]


def _content(container: ContainerClient, name: str) -> bytes:
    return container.download_blob(name).readall()
