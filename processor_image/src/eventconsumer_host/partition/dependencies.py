"""Dependencies that all pumps of a host share, and the interfaces of a partition sink and a handler."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Protocol

from eventconsumer_api.wire.host_config import HostConfig
from eventconsumer_api.wire.host_report import Problem
from eventconsumer_api.wire.identity import EventMark
from eventconsumer_host.body.typed import TypedBodies
from eventconsumer_host.lease.model import Checkpoint
from eventconsumer_host.metrics import Metrics
from eventconsumer_host.partition.memory import Memory
from eventconsumer_host.sink.gaps import Gap
from eventconsumer_host.sink.row_chunks import Encoder
from eventconsumer_host.source.batch import EventBatch
from eventconsumer_host.source.heard import Heard
from eventconsumer_host.source.hub import Hub, HubInfo
from eventconsumer_storage.confined.reader import Confined, Reader
from eventconsumer_storage.lease_time import boottime

WriteCheckpoint = Callable[[Checkpoint], Awaitable[None]]
"""Writes a checkpoint; raises LeaseLost or StorageError."""


class Handling(Protocol):
    """The user's handler of one partition."""

    def problems(self) -> list[Problem]:
        """Problems of the handler that need an action now."""

    async def open(self, epoch: int, position: int, checkpoint: WriteCheckpoint | None) -> None:
        """Open the handler.

        Args:
            epoch: The epoch of the lease.
            position: Sequence number of the first event.
            checkpoint: Writes checkpoints for the handler; None: checkpoints follow the files.
        """

    async def process(self, batch: EventBatch, stop: asyncio.Event) -> tuple[int, EventBatch | None]:
        """Process events.

        Returns:
            How many leading events are done: all, unless `stop` was set; and the rows for the file in place of these
            events: a part of them, possibly changed, possibly empty. None: the events as they are.
        """

    async def redrive(self, stop: asyncio.Event, most: int) -> None:
        """Pass up to `most` dead letters again that a user requested; never fails, and ends early if `stop` is set."""

    async def close(self, *, lost: bool) -> None:
        """Close the handler; `lost`: the lease was lost."""


@dataclass(frozen=True)
class PumpDependencies:
    """Dependencies that all pumps of a host share."""

    owner: str
    config: HostConfig
    hub: Hub
    info: HubInfo  # properties at registration, with the creation time that the newest segment records
    encode: Encoder
    metrics: Metrics
    chain: str = ""  # identity of the chain that the files belong to
    clock: Callable[[], float] = boottime  # for durations; independent of the wall clock
    now: Callable[[], datetime] = lambda: datetime.now(UTC)  # wall clock, for times that users see
    rng: Random = field(default_factory=Random)  # spreads retries
    offload: Callable[..., Awaitable[Any]] = asyncio.to_thread  # runs work that takes CPU time
    confined: Confined = field(default_factory=Reader)  # reads blobs that others may have written
    memory: Memory = field(default_factory=lambda: Memory(256 * 1024 * 1024))
    heard: Heard = field(default_factory=Heard)  # when this host heard the hub
    handler: Callable[[str], Handling] | None = None  # by partition; None: no handler is configured
    bodies: TypedBodies | None = None  # None: files have no columns of bodies

    def start_clock(self) -> datetime | None:
        """The wall clock that a starting time is compared to; None: a replay, after whose end no event comes."""
        return self.now() if self.config.replay is None else None


class PartitionSink(Protocol):
    """The destination of a pump's events. The sink knows its last event, so it defines where reading continues."""

    @property
    def position(self) -> int | None:
        """The first sequence number after the chain or the checkpoint; None until located."""

    @property
    def expected(self) -> int:
        """The next sequence number to receive: `position`, or the one after the buffered events."""

    @property
    def files(self) -> int:
        """Committed files."""

    @property
    def events(self) -> int:
        """Events in committed files, or processed by the handler."""

    @property
    def mark(self) -> EventMark | None:
        """The event before `expected`; None if it is unknown."""

    def problems(self) -> list[Problem]:
        """Problems of the sink that need an action now."""

    async def locate(self) -> None:
        """Find the position to continue from.

        Raises:
            EventConsumerError: A request failed, or a user must fix a problem first.
        """

    def seconds_left(self, now: float) -> float:
        """Seconds until `flush` is due; 0: now."""

    async def accept(self, batch: EventBatch, missing: list[Gap], rows: EventBatch | None = None) -> None:
        """Accept events.

        Args:
            batch: Not empty, rising, from `expected` on.
            missing: Gaps before and between the events that retention made. Log compaction made all other gaps.
            rows: Rows for the file in place of the events; events without a row are dropped. None: the events.
        """

    def forget(self) -> bool:
        """Drop the events that are in no file or checkpoint yet: the hub does not have them any more.

        Returns:
            Whether there were any. Then `position` is None until the next `locate`.
        """

    async def flush(self) -> None:
        """Write the file or the checkpoint that is due.

        Raises:
            LeaseLost: The lease is lost: nothing was written.
            Fenced: Another host with a higher epoch has written files.
        """

    async def finish(self) -> None:
        """Write all accepted events and the checkpoint; raises as `flush`."""

    def close(self) -> None:
        """Drop the buffered events."""
