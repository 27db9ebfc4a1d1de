"""A processor of the unmodified SDK on a consumer's hub and lease container, as a program and a handle on it.

The program checkpoints each batch and prints what it was given, one JSON object a line. It is a process of its own, as
the SDK leaves sockets behind.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from azure.eventhub import EventData
from azure.eventhub.aio import EventHubConsumerClient, PartitionContext
from azure.eventhub.extensions.checkpointstoreblobaio import BlobCheckpointStore

from tests.integration.processor.hosts import Consumer


class SdkProcessor:
    """One such process."""

    def __init__(self, consumer: Consumer, directory: Path, name: str = "sdk", interval: float = 3.0) -> None:
        self._output = directory / f"{name}.jsonl"
        self._log = (directory / f"{name}.log").open("wb")
        settings = {
            "hub": consumer.hub_secret.read_text(),
            "storage": consumer.storage_secret.read_text(),
            "container": consumer.leases,
            "interval": interval,
            "output": str(self._output),
        }
        self._output.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.processor.sdk_processor"],
            env=os.environ | {"SDK_PROCESSOR": json.dumps(settings)},
            stdout=self._log,
            stderr=self._log,
        )

    @property
    def given(self) -> dict[str, list[int]]:
        """Partition -> sequence numbers of the batches it was given and checkpointed."""
        found: dict[str, list[int]] = defaultdict(list)
        for line in self._lines():
            if "numbers" in line:
                found[line["partition"]] += line["numbers"]
        return found

    @property
    def reached(self) -> dict[str, int]:
        """Partition -> the last sequence number."""
        return {partition: numbers[-1] for partition, numbers in self.given.items()}

    @property
    def errors(self) -> list[str]:
        """What its error handler was told."""
        return [line["error"] for line in self._lines() if "error" in line]

    def stop(self) -> None:
        """Stop in order: it gives its partitions back."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(40) == 0
        self._log.close()

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def _lines(self) -> list[dict[str, Any]]:
        text = self._output.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def owners(consumer: Consumer) -> dict[str, str]:
    """Partition -> owner id in the ownership blobs."""
    with consumer.container(consumer.leases) as container:
        found = container.list_blobs(include=["metadata"])
        return {
            blob.name.rsplit("/", 1)[1]: blob.metadata.get("ownerid") or ""
            for blob in found
            if "/ownership/" in blob.name
        }


async def _process(settings: dict[str, Any]) -> None:
    with Path(settings["output"]).open("a", buffering=1) as output:

        async def take(context: PartitionContext, events: list[EventData]) -> None:
            if events:
                await context.update_checkpoint(events[-1])
                numbers = [event.sequence_number for event in events]
                output.write(json.dumps({"partition": context.partition_id, "numbers": numbers}) + "\n")

        async def failed(context: PartitionContext | None, error: Exception) -> None:
            output.write(json.dumps({"error": f"{context and context.partition_id}: {error}"}) + "\n")

        store = BlobCheckpointStore.from_connection_string(settings["storage"], settings["container"])
        client = EventHubConsumerClient.from_connection_string(
            settings["hub"], "$Default", checkpoint_store=store, load_balancing_interval=settings["interval"]
        )
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with store:
            receiving = asyncio.create_task(
                client.receive_batch(on_event_batch=take, on_error=failed, starting_position="-1", max_wait_time=1)
            )
            await stop.wait()
            await client.close()
            await receiving


if __name__ == "__main__":
    asyncio.run(_process(json.loads(os.environ["SDK_PROCESSOR"])))
