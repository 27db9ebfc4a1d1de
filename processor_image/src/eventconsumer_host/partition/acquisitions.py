"""Acquisitions of leases: they run in the background, a few at a time, after a scan decided on them.

A scan waits for them for a short time; a slow acquisition continues and is not started twice. At the end of the host
they are not cancelled at once: a request that was sent takes effect, and only its response makes it possible to undo
it. A lease that is acquired then becomes an ownership, which releases it.
"""

import asyncio
from collections.abc import Callable

import structlog

from eventconsumer_host.errors import LeaseInvalid
from eventconsumer_host.lease.model import Lease, Taken
from eventconsumer_host.lease.store import CONCURRENT_REQUESTS, LeaseStore, bounded
from eventconsumer_host.partition.dependencies import PumpDependencies

END_SECONDS = 3.0  # how long the end of the host waits for acquisitions

log = structlog.get_logger(__name__)


class Acquisitions:
    """The acquisitions of one host."""

    def __init__(
        self,
        deps: PumpDependencies,
        leases: LeaseStore,
        taken: Callable[[Taken], None],
        invalid: Callable[[str, str], None],
    ) -> None:
        """Create an empty set of acquisitions.

        Args:
            deps: Dependencies of the host.
            leases: The checkpoint store.
            taken: Called with each acquired lease.
            invalid: Called with a partition whose lease cannot be parsed, and the cause.
        """
        self._deps = deps
        self._leases = leases
        self._taken = taken
        self._invalid = invalid
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(CONCURRENT_REQUESTS)
        self._ended = False

    @property
    def partitions(self) -> set[str]:
        """Partitions with an acquisition in progress."""
        return {*self._tasks}

    def begin(self, lease: Lease, how: str) -> None:
        """Start to acquire a listed lease, unless it is in progress; `how` goes to logs and metrics."""
        if lease.partition not in self._tasks:
            self._tasks[lease.partition] = asyncio.create_task(self._acquire(lease, how))

    async def settle(self, seconds: float) -> None:
        """Wait up to `seconds` for the acquisitions in progress.

        Raises:
            StorageError: An acquisition failed.
        """
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
        ended = {partition: task for partition, task in self._tasks.items() if task.done()}
        for partition in ended:
            del self._tasks[partition]
        for error in [task.exception() for task in ended.values()]:
            if error is not None:
                raise error

    async def end(self) -> None:
        """Start no more acquisitions, and wait up to `END_SECONDS` for those in progress."""
        self._ended = True
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=END_SECONDS)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _acquire(self, lease: Lease, how: str) -> None:
        async with self._gate:
            if self._ended:
                return
            try:
                async with bounded(f"acquiring partition {lease.partition}"):
                    taken = await self._leases.acquire(lease, self._deps.owner, rebuild=how == "rebuilt")
            except LeaseInvalid as error:
                self._invalid(lease.partition, str(error))
                return
        if taken is not None:
            log.info("lease " + how, partition=lease.partition, epoch=taken.lease.epoch, before=lease.owner or None)
            self._deps.metrics.lease_changes.labels(how).inc()
            self._taken(taken)
