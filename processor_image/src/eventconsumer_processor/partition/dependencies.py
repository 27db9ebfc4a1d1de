"""What all pumps of a host share, and what a pump hands its events to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Protocol

from eventconsumer_api.host_config import HostConfig
from eventconsumer_api.host_report import Problem
from eventconsumer_api.identity import EventMark
from eventconsumer_processor.metrics import Metrics
from eventconsumer_processor.partition.memory import Memory
from eventconsumer_processor.sink.gaps import Gap
from eventconsumer_processor.sink.row_chunks import Encoder
from eventconsumer_processor.source.batch import EventBatch
from eventconsumer_processor.source.hub import Hub, HubInfo
from eventconsumer_storage.lease_time import boottime


class Handling(Protocol):
    """The user's code on one partition."""

    def problems(self) -> list[Problem]:
        """Problems of the handler that need an action now."""

    async def open(self, epoch: int, position: int) -> None:
        """Begin at `position`."""

    async def process(self, batch: EventBatch, stop: asyncio.Event) -> int:
        """Hand over a batch; how many of its first events are done: all, unless `stop` was set."""

    async def close(self, *, lost: bool) -> None:
        """End: the lease was lost, or else in order."""


@dataclass(frozen=True)
class PumpDependencies:
    """What all pumps of a host share."""

    owner: str
    config: HostConfig
    hub: Hub
    info: HubInfo  # the hub as it was registered, with the creation time that the newest segment records
    encode: Encoder
    metrics: Metrics
    chain: str = ""  # identity of the chain that the files belong to
    clock: Callable[[], float] = boottime  # for what must not follow the wall clock
    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # for what people read
    rng: Random = field(default_factory=Random)  # spreads retries
    offload: Callable[..., Awaitable[Any]] = asyncio.to_thread  # runs work that takes CPU time
    memory: Memory = field(default_factory=lambda: Memory(256 * 1024 * 1024))
    handler: Callable[[str], Handling] | None = None  # by partition; None where there is no user code


class PartitionSink(Protocol):
    """Where a pump's events go; it knows how far that is, so it says where to read on."""

    position: int | None  # where the chain or the checkpoint continues; None until located
    expected: int  # the next sequence number to receive: `position`, or behind what is kept
    files: int
    events: int  # done: in files, or handled

    @property
    def mark(self) -> EventMark | None:
        """The event before `expected`; None where nothing of it is known."""

    def problems(self) -> list[Problem]:
        """Problems of the sink that need an action now."""

    async def locate(self) -> None:
        """Find where to go on.

        Raises:
            EventConsumerError: It cannot be found now, or a user must fix something.
        """

    def seconds_left(self, now: float) -> float:
        """Seconds until `flush` is due, 0 where it is now."""

    async def accept(self, batch: EventBatch, missing: list[Gap]) -> None:
        """Take events that are not empty and rise from `expected` on.

        Args:
            batch: The events.
            missing: What retention removed from between them. What else is missing was removed by log compaction.
        """

    def forget(self) -> bool:
        """Drop what is kept and in no file or checkpoint yet: the hub does not have it any more; whether there was any.

        `position` is None then, until located again.
        """

    async def flush(self) -> None:
        """Do what became due.

        Raises:
            LeaseLost: The lease is gone: nothing was done.
            Fenced: Another host's work is ahead.
        """

    async def finish(self) -> None:
        """Bring everything accepted to its end; raises as `flush` does."""

    def close(self) -> None:
        """Forget what is kept."""
