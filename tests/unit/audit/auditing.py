"""Consumers for the auditor's tests, built blob by blob from the published layout and not by the product's writers."""

import hashlib
import io
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventconsumer_api.wire.file_columns import COLUMNS
from eventconsumer_api.wire.host_config import ResourceRef
from eventconsumer_audit.container import StoreContainer
from eventconsumer_audit.identity import Outputs
from eventconsumer_audit.model import AuditReport
from eventconsumer_audit.owners import LeaseSubject
from eventconsumer_audit.read import Subject, audit
from eventconsumer_host.source.hub import Hub
from eventconsumer_host.source.schema import arrow_schema
from eventconsumer_storage.blobs import BlobStore
from tests.support.clocks import virtual_clock
from tests.support.fakes.blobs import FakeBlobStore

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
WHEN = "2026-01-01T00:00:00+00:00"
ERA = hashlib.sha256(b"shop.example\norders\n2026-01-01T00:00:00.000+00:00").hexdigest()[:16]
TOTALS = ("rowsRead", "rowsWritten", "quarantinedFiles", "quarantinedRows")
CHAIN = "00c0ffee00c0ffee"
RESOURCE = {"namespace": "shop", "name": "orders", "uid": "u"}
OWNER = "shop/orders/orders-host-0.4f1c"
OUTPUT = "abfss://results@shop.dfs.core.windows.net/orders"
CHAIN_RECORD = {"version": 1, "chain": CHAIN, "resource": RESOURCE, "since": WHEN}
WHOSE = {"chain": CHAIN, "sink": "shop/drained/p", "resource": "shop/orders", "since": WHEN, "version": 1}
LEASE_RECORD = {"namespace": "shop.example", "hub": "orders", "consumerGroup": "$Default"} | WHOSE
LATER = "1a7e000000000000"  # the segment of the second segment


def segment(number: int = 1, segment_id: str = ERA, **breaks: dict[str, Any]) -> dict[str, Any]:
    """The record of a segment; how partitions came into it, by name: `p0={"start": …}`."""
    hub = {"namespace": "shop.example", "name": "Orders", "createdAt": WHEN}
    found = {name.removeprefix("p"): each for name, each in breaks.items()}
    return {"version": 1, "number": number, "segmentId": segment_id, "hub": hub, "breaks": found, "since": WHEN}


def broken(start: int, files_end: int) -> dict[str, Any]:
    """How a partition came into a segment."""
    ends = {name: {"sequenceNumber": number} for name, number in (("filesEnd", files_end), ("hubEnd", 99))}
    return {"start": start, "common": start - 1, **ends}


@dataclass
class AuditedWorld:
    """A consumer under construction; the prefix is `p`, the leases are in a container of their own."""

    files: BlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    leases: BlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    results: BlobStore = field(default_factory=lambda: FakeBlobStore(virtual_clock))
    era: str = ERA
    namespace: str = "shop"  # in the names of data files of the Capture layout
    batch_files: list[dict[str, Any]] = field(default_factory=list)
    _totals: dict[str, int] = field(default_factory=lambda: {"files": 0, "events": 0, "bytes": 0})
    _next: dict[str, int] = field(default_factory=dict)
    _committed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOTALS, 0))
    _left: dict[str, Any] | None = None

    async def begin(self, **starts: int) -> None:
        """The records of chain, hub, leases and output, and the genesis of partitions: `begin(p0=5)`."""
        await self.put("_chain.json", CHAIN_RECORD)
        await self.put(f"_segments/{1:010d}.json", segment(segment_id=self.era))
        await self.leases.put("$default~identity.json", json.dumps(LEASE_RECORD).encode())
        await self.results.put("orders/_eventconsumer.json", json.dumps(WHOSE).encode())
        for name, start in starts.items():
            await self.put(f"_genesis/{self.era}/{name.removeprefix('p')}.json", {"start": start})
            self._next[name.removeprefix("p")] = start

    async def put(self, name: str, body: Any, **metadata: str) -> str:
        """A blob below the prefix; the etag."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.files.put(f"p/{name}", data, metadata=metadata)

    def slot(self, partition: str, start: int, extension: str = "parquet") -> str:
        """Name of a slot below the prefix."""
        return f"segment={self.era}/partition={partition}/from={start:020d}.{extension}"

    async def file(
        self,
        partition: str,
        start: int,
        rows: Sequence[int],
        *,
        epoch: int = 1,
        batched: bool = False,
        dropped: Sequence[int] = (),
        changes: Mapping[str, str] | None = None,
        more: Sequence[str] = (),
    ) -> str:
        """A Parquet file in its slot, with more columns, and events that the handler dropped; some metadata changed.

        Returns:
            Its name below the prefix.
        """
        data = parquet(partition, rows, epoch=epoch, dropped=dropped, more=more)
        facts = metadata(rows, data, epoch, dropped) | dict(changes or {})
        name = self.slot(partition, start)
        etag = await self.put(name, data, **facts)
        if batched:
            self.batch_files.append(
                {
                    "path": f"p/{name}",
                    "etag": etag,
                    "size": len(data),
                    "partition": partition,
                    "first": start,
                    "last": max([*rows, *dropped]),
                    "count": len(rows),
                }
            )
        return name

    async def seal(self, partition: str, start: int) -> None:
        """What `hub accept` puts behind the last file of a segment."""
        await self.put(self.slot(partition, start), b"x", sealed=WHEN)

    async def lease(self, partition: str, checkpoint: int | None, *, epoch: int = 1, owner: str = OWNER) -> str:
        """A lease in the EventProcessorHost layout; its name."""
        body = {
            "Offset": None if checkpoint is None else f"o{checkpoint}",
            "SequenceNumber": checkpoint or 0,
            "PartitionId": partition,
            "Owner": owner,
            "Token": "",
            "Epoch": epoch,
        }
        await self.leases.put(f"$Default/{partition}", json.dumps(body).encode())
        return f"$Default/{partition}"

    async def batch(self, number: int, *, commit: bool = True, **changes: Any) -> dict[str, Any]:
        """Freeze the files that are `batched` and in no batch, and commit the batch."""
        files, self.batch_files = self.batch_files, []
        ranges: dict[str, dict[str, int]] = {}
        for file in files:
            partition = file["partition"]
            ranges.setdefault(partition, {"first": self._next[partition], "last": 0})["last"] = file["last"]
            self._next[partition] = file["last"] + 1
        for key, value in (
            ("files", len(files)),
            ("events", sum(file["count"] for file in files)),
            ("bytes", sum(file["size"] for file in files)),
        ):
            self._totals[key] += value
        manifest: dict[str, Any] = {
            "number": number,
            "createdAt": WHEN,
            "reason": "Files",
            "resource": RESOURCE,
            "chain": CHAIN,
            "segmentId": self.era,
            "files": files,
            "ranges": ranges,
            "next": dict(self._next),
            "totals": dict(self._totals),
        } | changes
        await self.put(f"_batches/{number:010d}.json", manifest)
        await self.put(f"_attempts/{number:010d}.json", {"number": number, "chain": CHAIN, "attempt": "a"})
        if commit:
            await self.commit(manifest)
        return manifest

    async def commit(
        self, manifest: dict[str, Any], left: Sequence[dict[str, Any]] = (), rows: int = 0, **changes: Any
    ) -> None:
        """A commit record of a batch that left out some files and some rows of others, with some fields changed."""
        number, files = manifest["number"], manifest["files"]
        read = sum(file["count"] for file in files) - sum(file["count"] for file in left)
        for key, value in zip(TOTALS, (read, read - rows, len(left), rows), strict=True):
            self._committed[key] += value
        if left or rows:
            self._left = {"number": number, "files": list(left), "rows": rows, "rowsPath": "", "message": "not Parquet"}
        record = {
            "number": number,
            "committedAt": WHEN,
            "application": "orders-1",
            "attempt": "a",
            "chain": CHAIN,
            "output": OUTPUT,
            "outputVersion": None,
            "files": len(files),
            "bytes": sum(file["size"] for file in files),
            "rowsRead": read,
            "rowsWritten": read - rows,
            "ranges": manifest["ranges"],
            "seconds": 1.0,
            "quarantine": self._left,
            "totals": dict(self._committed),
        }
        await self.put(f"_commits/{number:010d}.json", record | changes)

    async def captured(self, partition: str, start: int, rows: Sequence[int], second: int, epoch: int = 1) -> str:
        """A data file in the Capture layout and its record; the data file's name below the prefix."""
        data = avro(rows)
        path = f"{self.namespace}/orders/{partition}/2026/01/01/00/00/{second:02d}.avro"
        etag = await self.put(path, data)
        facts = metadata(rows, data, epoch) | {"path": f"p/{path}", "size": str(len(data)), "etag": etag}
        await self.put(self.slot(partition, start, "json"), facts, **facts)
        return path

    async def audit(
        self, *, deep: bool = False, hub: Hub | None = None, resource: ResourceRef | None = None, **options: Any
    ) -> AuditReport:
        """Audit it."""
        leases = LeaseSubject(StoreContainer(self.leases, "leases"), "", "$Default", **options)
        own = resource or ResourceRef(**RESOURCE)
        outputs = Outputs("shop", lambda name: StoreContainer(self.results, name))
        return await audit(Subject(StoreContainer(self.files, "drained"), "p", leases, hub, own, outputs), deep=deep)


def metadata(rows: Sequence[int], data: bytes, epoch: int, dropped: Sequence[int] = ()) -> dict[str, str]:
    """Metadata of a slot."""
    last = max([*rows, *dropped])
    return _covered(rows, dropped) | {
        "epoch": str(epoch),
        "writer": "host-a",
        "nonce": "n",
        "last_offset": f"o{last}",
        "last_enqueued_time": WHEN,
        "chain": CHAIN,
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _covered(rows: Sequence[int], dropped: Sequence[int]) -> dict[str, str]:
    events = [*rows, *dropped]
    facts = {"first": str(min(events)), "last": str(max(events)), "count": str(len(rows))}
    return facts | ({"dropped": str(len(dropped))} if dropped else {})


def parquet(
    partition: str, rows: Sequence[int], *, epoch: int = 1, dropped: Sequence[int] = (), more: Sequence[str] = ()
) -> bytes:
    """A file of these sequence numbers, and of events that the handler dropped, with more columns."""
    return _parquet(partition, tuple(rows), epoch, tuple(dropped), tuple(more))


@cache
def _parquet(
    partition: str, rows: tuple[int, ...], epoch: int, dropped: tuple[int, ...], more: tuple[str, ...]
) -> bytes:
    columns = {field.name: pa.nulls(len(rows), field.type) for field in arrow_schema(COLUMNS)}
    columns["sequence_number"] = pa.array(rows, pa.int64())
    columns["partition_id"] = pa.array([partition] * len(rows), pa.string())
    columns |= {name: pa.nulls(len(rows), pa.string()) for name in more}
    facts = _covered(rows, dropped) | {"epoch": str(epoch)}
    table = pa.table(columns).replace_schema_metadata({f"eventconsumer.{key}": facts[key] for key in facts})
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def avro(rows: Sequence[int]) -> bytes:
    """An Avro file of these sequence numbers."""
    import fastavro

    schema = {"type": "record", "name": "EventData", "fields": [{"name": "SequenceNumber", "type": "long"}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"SequenceNumber": number} for number in rows])
    return out.getvalue()


async def sample(world: AuditedWorld | None = None) -> AuditedWorld:
    """Two partitions, four files each, in two batches of which the first is committed; all as it must be."""
    world = world or AuditedWorld()
    await world.begin(p0=0, p1=100)
    for part in (0, 1):
        for partition, start in (("0", 0), ("1", 100)):
            for number in (0, 1):
                first = start + 20 * part + 10 * number
                await world.file(partition, first, range(first, first + 10), epoch=1 + part, batched=True)
        await world.batch(part + 1, commit=part == 0)
    await world.lease("0", 39, epoch=2)
    await world.lease("1", 139, epoch=3)
    return world


Change = Callable[[AuditedWorld], Awaitable[object]]


def put(name: str, body: object, **facts: str) -> Change:
    """Write a blob below the prefix."""
    return lambda world: world.put(name, body, **facts)


def delete(name: str, container: str = "files") -> Change:
    """Delete a blob: below the prefix in `files`, by its whole name elsewhere."""

    async def change(world: AuditedWorld) -> None:
        fake(getattr(world, container)).delete(f"p/{name}" if container == "files" else name)

    return change


def edit(name: str, /, **changes: object) -> Change:
    """Change fields of a JSON blob below the prefix."""

    async def change(world: AuditedWorld) -> None:
        await world.put(name, await body_of(world, name) | changes)

    return change


def manifest(number: int, /, **changes: object) -> Change:
    """Change a manifest."""
    return edit(f"_batches/{number:010d}.json", **changes)


def commit(number: int, /, **changes: object) -> Change:
    """Change a commit record."""
    return edit(f"_commits/{number:010d}.json", **changes)


def file(start: int, rows: Sequence[int], partition: str = "0", epoch: int = 2, **facts: str) -> Change:
    """Write one more file."""
    return lambda world: world.file(partition, start, rows, epoch=epoch, changes=facts)


def lease(checkpoint: int | None, partition: str = "0", *, held: bool = False, **changes: Any) -> Change:
    """Another lease, which its owner may hold now."""

    async def change(world: AuditedWorld) -> None:
        name = await world.lease(partition, checkpoint, **changes)
        if held:
            await world.leases.acquire_lease(name, "11111111-1111-1111-1111-111111111111", 60)

    return change


def table(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Rows of a parametrized test, each named by its first entry."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


async def body_of(world: AuditedWorld, name: str) -> dict[str, Any]:
    """A JSON blob below the prefix."""
    blob = await world.files.read(f"p/{name}", 10**6)
    assert blob is not None
    body: dict[str, Any] = json.loads(blob.data)
    return body


def fake(store: BlobStore) -> FakeBlobStore:
    """The fake behind a world's container."""
    assert isinstance(store, FakeBlobStore)
    return store
