"""Handlers for tests: each writes what it is given to <RECORD_DIRECTORY>/<partition>.jsonl."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from masking import Masking

from eventconsumer_host.handler import Batch, CloseReason, EventProcessor, PartitionContext, Rows, TryAgain

DIRECTORY = Path(os.environ.get("RECORD_DIRECTORY", "."))


class Recording(EventProcessor):
    """Notes every batch; `poison` in a body makes it fail, and so does a file named `down` for all.

    With a file named `corrected`, poison is processed; with a file named `stuck`, a dead letter is not answered.
    """

    async def open(self, context: PartitionContext) -> None:
        self._note(context, open=context.next_sequence_number, epoch=context.epoch)

    async def process_events(self, context: PartitionContext, batch: Batch) -> None:
        await asyncio.sleep(0)
        if (DIRECTORY / "down").exists():
            raise TryAgain("the database is down")
        while batch.redriven and (DIRECTORY / "stuck").exists():
            self._note(context, stuck=batch.sequence_numbers)
            await asyncio.sleep(0.2)
        for event in batch:
            if b"poison" in event.body and not (DIRECTORY / "corrected").exists():
                raise ValueError(f"cannot digest {event.sequence_number}")
        bodies = [body.decode() for body in batch.bodies]
        self._note(context, numbers=batch.sequence_numbers, bodies=bodies, redriven=batch.redriven)

    async def close(self, context: PartitionContext, reason: CloseReason) -> None:
        self._note(context, close=str(reason))

    def _note(self, context: PartitionContext, **facts: Any) -> None:
        with (DIRECTORY / f"{context.partition_id}.jsonl").open("a") as file:
            file.write(json.dumps({"owner": context.owner} | facts) + "\n")


class Collecting(Recording):
    """Writes a checkpoint for every 40th event; `poison` makes it fail after that."""

    async def process_events(self, context: PartitionContext, batch: Batch) -> None:
        for event in batch:
            if event.sequence_number % 40 == 39:
                await context.checkpoint(event)
        await super().process_events(context, batch)


class CollectingInThread:
    """Likewise, with plain methods, and in `close`."""

    def process_events(self, context: PartitionContext, batch: Batch) -> None:
        for event in batch:
            if event.sequence_number % 40 == 39:
                context.checkpoint(event)
        with (DIRECTORY / f"{context.partition_id}.jsonl").open("a") as file:
            file.write(json.dumps({"numbers": batch.sequence_numbers}) + "\n")

    def close(self, context: PartitionContext, reason: CloseReason) -> None:
        context.checkpoint()


class Slow(Masking):
    """The example, which takes a second for a batch while a file named `slow` exists, and notes what it returns."""

    async def process_events(self, context: PartitionContext, batch: Batch) -> Rows:
        rows = await super().process_events(context, batch)
        with (DIRECTORY / f"{context.partition_id}.jsonl").open("a") as file:
            file.write(json.dumps({"owner": context.owner, "numbers": batch.sequence_numbers}) + "\n")
        await asyncio.sleep(1.0 if (DIRECTORY / "slow").exists() else 0)
        return rows


NO_CLASS = 5
