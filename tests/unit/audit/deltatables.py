"""Delta tables over a consumer's files, for the auditor's tests: logs written by hand from the published protocol."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventconsumer_api.wire.file_columns import COLUMNS, delta_schema
from tests.unit.audit.auditing import CHAIN, ERA, AuditedWorld, sample

Action = dict[str, Any]
PROTOCOL: Action = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
FEATURES = ["appendOnly", "deletionVectors", "invariants"]
NEWER: Action = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": FEATURES,
    }
}
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}


def metadata(**properties: str) -> Action:
    """The `metaData` action."""
    return {
        "metaData": {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(delta_schema(COLUMNS)),
            "partitionColumns": [],
            "configuration": {"delta.deletedFileRetentionDuration": "interval 36500 days"} | properties,
        }
    }


def info(operation: str) -> Action:
    """The `commitInfo` action."""
    return {"commitInfo": {"timestamp": 1, "operation": operation, "operationParameters": {}}}


def txn(position: int, partition: str = "0", chain: str = CHAIN, era: str = ERA) -> Action:
    """The position of a partition."""
    return {"txn": {"appId": f"eventconsumer/{chain}/{era}/{partition}", "version": position, "lastUpdated": 1}}


def vector(rows: int, offset: int = 4) -> Action:
    """A deletion vector."""
    return VECTOR | {"cardinality": rows, "offset": offset}


def part(name: str, rows: int) -> Action:
    """An `add` of a file of another program."""
    return {
        "add": {"path": f"part-{name}.parquet", "size": 9, "dataChange": False, "stats": f'{{"numRecords":{rows}}}'}
    }


@dataclass
class Table:
    """The log of a table; the log of each version is as a host or Spark writes it."""

    world: AuditedWorld
    version: int = -1
    actions: list[Action] = field(default_factory=list)  # of all versions, for checkpoints

    def path(self, start: int, partition: str = "0") -> str:
        """Path of a file."""
        return self.world.slot(partition, start)

    async def add(self, start: int, partition: str = "0", **changes: Any) -> Action:
        """The `add` action of a file of the consumer."""
        path = self.path(start, partition)
        found = await self.world.files.head(f"p/{path}")
        assert found is not None
        first, last, count = (int(found.metadata[key]) for key in ("first", "last", "count"))
        stats = {
            "numRecords": count,
            "minValues": {"sequence_number": first},
            "maxValues": {"sequence_number": last},
        }
        action = {
            "path": path,
            "partitionValues": {},
            "size": found.size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        return {"add": action | changes}

    def remove(self, start: int, partition: str = "0", **changes: Any) -> Action:
        """The `remove` action of a file of the consumer."""
        action = {"path": self.path(start, partition), "deletionTimestamp": 1, "dataChange": True}
        return {"remove": action | changes}

    async def begin(self, *actions: Action) -> None:
        """Version 0."""
        await self.commit(PROTOCOL, metadata(), *actions, operation="CREATE TABLE")

    async def register(self, *starts: int, position: int, partition: str = "0") -> None:
        """The next version, as a host commits files."""
        adds = [await self.add(start, partition) for start in starts]
        await self.commit(txn(position, partition), *adds)

    async def commit(self, *actions: Action, operation: str = "WRITE") -> None:
        """The next version."""
        self.version += 1
        self.actions += actions
        lines = [json.dumps(action) for action in (info(operation), *actions)]
        await self.world.put(self.commit_name(), "\n".join(lines).encode())

    def commit_name(self, version: int | None = None) -> str:
        """Name of a commit below the prefix; of the newest one by default."""
        return f"_delta_log/{self.version if version is None else version:020d}.json"

    def snapshot(self) -> list[Action]:
        """The actions of all versions, reconciled as for a checkpoint."""
        kept: dict[tuple[str, str], Action] = {}
        for action in self.actions:
            ((kind, body),) = action.items()
            key = body.get("path") or body.get("appId") or ""
            kept[("file" if kind in {"add", "remove"} else kind, key)] = action
        return list(kept.values())

    async def checkpoint(self, kind: str = "classic") -> None:
        """A checkpoint of the newest version: classic, multipart, or v2 (in JSON, with a sidecar)."""
        name, actions = f"_delta_log/{self.version:020d}.checkpoint", self.snapshot()
        match kind:
            case "classic":
                await self.world.put(f"{name}.parquet", parquet(actions))
            case "multipart":
                for number in (1, 2):
                    part = f"{name}.{number:010d}.{2:010d}.parquet"
                    await self.world.put(part, parquet(actions[number - 1 :: 2]))
            case "v2":
                files = [action for action in actions if "add" in action or "remove" in action]
                await self.world.put("_delta_log/_sidecars/one.parquet", parquet(files))
                rest = [action for action in actions if action not in files]
                rest += [{"checkpointMetadata": {"version": self.version}}, {"sidecar": {"path": "one.parquet"}}]
                uuid = "80a083e8-7026-4e79-81be-64bd76c43a11"
                await self.world.put(f"{name}.{uuid}.json", "\n".join(map(json.dumps, rest)).encode())
        await self.world.put("_delta_log/_last_checkpoint", {"version": self.version, "size": len(actions)})


_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_FILE = [
    ("path", pa.string()),
    ("partitionValues", _TEXTS),
    ("size", pa.int64()),
    ("dataChange", pa.bool_()),
    ("deletionVector", _VECTOR),
]
SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", pa.struct([*_FILE, ("modificationTime", pa.int64()), ("stats", pa.string())])),
        ("remove", pa.struct([*_FILE, ("deletionTimestamp", pa.int64())])),
        ("metaData", pa.struct([("id", pa.string()), ("configuration", _TEXTS)])),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)


def parquet(actions: Sequence[Action]) -> bytes:
    """A checkpoint in Parquet: one action in each row."""
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(action) for action in actions], schema=SCHEMA), out)
    return out.getvalue()


async def registered() -> Table:
    """The sample consumer, whose table has all files but the last of each partition."""
    table = Table(await sample())
    await table.begin()
    await table.register(0, 10, position=19)
    await table.register(100, 110, 120, position=129, partition="1")
    await table.register(20, position=29)
    return table
