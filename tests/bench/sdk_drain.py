"""The work of a host on the SDK's own processor: events to Parquet files in blob storage, with checkpoints.

What a careful user would write with `EventHubConsumerClient` and `BlobCheckpointStore`: the largest prefetch and
batches that pay, bodies and properties in a pyarrow table, one file a partition whenever enough has come, the
checkpoint behind it. It has no chain and no fence, so a crash or a rebalance writes events twice; it is here for what
it costs.
"""

import asyncio
import json
import os
import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient, PartitionContext
from azure.eventhub.extensions.checkpointstoreblobaio import BlobCheckpointStore
from azure.storage.blob.aio import ContainerClient

PREFETCH = 3000
SCHEMA = pa.schema(
    [
        ("sequence_number", pa.int64()),
        ("offset", pa.string()),
        ("enqueued_time", pa.timestamp("us", tz="UTC")),
        ("partition_key", pa.string()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)


class Drain:
    """The events of each partition until they are in a file."""

    def __init__(self, files: ContainerClient, most_bytes: int, most_seconds: float) -> None:
        self._files = files
        self._most_bytes, self._most_seconds = most_bytes, most_seconds
        self._events: dict[str, list[EventData]] = {}
        self._bytes: dict[str, int] = {}
        self._since: dict[str, float] = {}

    async def take(self, context: PartitionContext, events: list[EventData]) -> None:
        """Keep them, and write a file when it is time."""
        name, now = context.partition_id, time.monotonic()
        kept = self._events.setdefault(name, [])
        if events:
            if not kept:
                self._since[name] = now
            kept += events
            self._bytes[name] = self._bytes.get(name, 0) + sum(sum(map(len, event.body)) for event in events)
        if kept and (self._bytes[name] >= self._most_bytes or now - self._since[name] >= self._most_seconds):
            self._events[name], self._bytes[name] = [], 0
            data = await asyncio.to_thread(encode, kept)
            path = f"{name}/{kept[0].sequence_number:020d}.parquet"
            await self._files.upload_blob(path, data, metadata={"count": str(len(kept))}, overwrite=True)
            await context.update_checkpoint(kept[-1])


def encode(events: list[EventData]) -> bytes:
    """A Parquet file of these events."""
    columns: list[Any] = [
        [event.sequence_number for event in events],
        [event.offset for event in events],
        [event.enqueued_time for event in events],
        [event.partition_key and event.partition_key.decode() for event in events],
        [b"".join(event.body) for event in events],
        [[(_text(key), _text(value)) for key, value in (event.properties or {}).items()] for event in events],
    ]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), buffer, compression="zstd", compression_level=1)
    return buffer.getvalue().to_pybytes()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


async def main(settings: dict[str, Any]) -> None:
    """Drain until the process is ended."""
    storage = settings["storage"]
    store = BlobCheckpointStore.from_connection_string(storage, settings["leases"])
    files = ContainerClient.from_connection_string(storage, settings["files"])
    client = EventHubConsumerClient.from_connection_string(settings["hub"], "$Default", checkpoint_store=store)
    drain = Drain(files, settings["bytes"], settings["seconds"])
    async with store, files, client:
        await client.receive_batch(
            drain.take, max_batch_size=PREFETCH, prefetch=PREFETCH, max_wait_time=1, starting_position="-1"
        )


if __name__ == "__main__":
    asyncio.run(main(json.loads(os.environ["SDK_DRAIN"])))
